#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "engine/quant/dtype.h"
#include "tests/catch.h"
#include "tests/golden.h"
#include "tests/paths.h"
#include "tests/sha256.h"
#include "tests/temp_folder.h"

using namespace skald;
using test::read_file;

namespace {

using Bytes = std::vector<uint8_t>;

// An independent decoder in double precision, written from the layouts for clarity: it unpacks a
// block into lists and multiplies them. All products of integers are exact in f32, so that only the
// last addition rounds, or the one product of a float code, and both decoders must agree bit for
// bit.
struct Unpacked {
  std::vector<double> scale, quant, min;  // one for each element
  double value(size_t i) const {
    const double product = scale[i] * quant[i];
    return min.empty() ? product : product + min[i];  // "+ 0.0" would make -0 positive
  }
};

double f16(const Bytes& b, size_t at) {
  const int bits = b[at] | b[at + 1] << 8;
  const int exponent = bits >> 10 & 31;
  double value = exponent == 0 ? std::ldexp(bits & 1023, -24)
                               : std::ldexp(1024 + (bits & 1023), exponent - 25);
  if (exponent == 31) value = bits & 1023 ? std::nan("") : INFINITY;
  return bits & 0x8000 ? -value : value;
}

double e4m3(int bits) {
  const int exponent = bits / 8 % 16;
  const double number =
      exponent == 0 ? bits % 8 * 0x1p-9 : (8 + bits % 8) * std::ldexp(1.0, exponent - 10);
  return (bits & 127) == 127 ? std::nan("") : bits < 128 ? number : -number;
}

// Returns 2 * bytes numbers: for each `run` bytes, their low nibbles and then their high ones.
std::vector<int> nibbles(const Bytes& b, size_t at, size_t bytes, size_t run) {
  std::vector<int> out;
  for (size_t start = 0; start < bytes; start += run) {
    for (size_t i = 0; i < run; ++i) out.push_back(b[at + start + i] % 16);
    for (size_t i = 0; i < run; ++i) out.push_back(b[at + start + i] / 16);
  }
  return out;
}

// Returns 4 * bytes numbers of two bits: for each 32 bytes, their lowest pairs of bits, then the
// next pairs.
std::vector<int> pairs(const Bytes& b, size_t at, size_t bytes) {
  std::vector<int> out;
  for (size_t start = 0; start < bytes; start += 32) {
    for (int divisor : {1, 4, 16, 64}) {
      for (size_t i = 0; i < 32; ++i) out.push_back(b[at + start + i] / divisor % 4);
    }
  }
  return out;
}

// Returns 256 bits: bit 0 of each of 32 bytes, then bit 1 of each, up to bit 7.
std::vector<int> bit_planes(const Bytes& b, size_t at) {
  std::vector<int> out;
  for (int bit = 0; bit < 8; ++bit) {
    for (size_t i = 0; i < 32; ++i) out.push_back(b[at + i] >> bit & 1);
  }
  return out;
}

// The 6-bit scales and minimums of Q4_K and Q5_K.
void six_bits(const Bytes& b, size_t at, int scales[8], int mins[8]) {
  for (int j = 0; j < 4; ++j) {
    scales[j] = b[at + j] % 64;
    mins[j] = b[at + 4 + j] % 64;
    scales[j + 4] = b[at + 8 + j] % 16 + b[at + j] / 64 * 16;
    mins[j + 4] = b[at + 8 + j] / 16 + b[at + 4 + j] / 64 * 16;
  }
}

const int kIq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
const int kMxfp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

std::optional<Unpacked> unpack(DType type, const Bytes& b) {
  const auto n = static_cast<size_t>(info(type).block_elems);
  Unpacked u;
  u.quant.resize(n);
  u.scale.resize(n);
  const auto fill = [&](const std::vector<int>& q, int offset, double scale) {
    for (size_t i = 0; i < n; ++i) u.quant[i] = q[i] - offset;
    u.scale.assign(n, scale);
  };
  const auto add_five = [&](size_t at) {
    for (size_t i = 0; i < n; ++i) u.quant[i] += (b[at + i / 8] >> (i % 8) & 1) * 16;
  };
  switch (type) {
    case DType::Q8_0:
      fill(std::vector<int>(b.begin() + 2, b.end()), 0, f16(b, 0));
      for (double& q : u.quant) q = q > 127 ? q - 256 : q;
      break;
    case DType::Q4_0:
      fill(nibbles(b, 2, 16, 16), 8, f16(b, 0));
      break;
    case DType::Q4_1:
      fill(nibbles(b, 4, 16, 16), 0, f16(b, 0));
      u.min.assign(n, f16(b, 2));
      break;
    case DType::Q5_0:
      fill(nibbles(b, 6, 16, 16), 16, f16(b, 0));
      add_five(2);
      break;
    case DType::Q5_1:
      fill(nibbles(b, 8, 16, 16), 0, f16(b, 0));
      add_five(4);
      u.min.assign(n, f16(b, 2));
      break;
    case DType::Q2_K:
      fill(pairs(b, 16, 64), 0, f16(b, 80));
      for (size_t i = 0; i < n; ++i) {
        u.scale[i] *= b[i / 16] % 16;
        u.min.push_back(-(f16(b, 82) * (b[i / 16] / 16)));
      }
      break;
    case DType::Q3_K: {
      fill(pairs(b, 32, 64), 4, f16(b, 108));
      const auto high = bit_planes(b, 0);
      const auto low_scales = nibbles(b, 96, 8, 8);
      for (size_t i = 0; i < n; ++i) {
        const size_t g = i / 16;
        const int high_scale = b[104 + g % 4] >> (g / 4 * 2) & 3;
        u.scale[i] *= low_scales[g] + 16 * high_scale - 32;
        u.quant[i] += 4 * high[i];
      }
      break;
    }
    case DType::Q4_K:
    case DType::Q5_K: {
      const bool five = type == DType::Q5_K;
      fill(nibbles(b, five ? 48 : 16, 128, 32), 0, f16(b, 0));
      int scales[8], mins[8];
      six_bits(b, 4, scales, mins);
      const auto high = five ? bit_planes(b, 16) : std::vector<int>(n);
      for (size_t i = 0; i < n; ++i) {
        u.scale[i] *= scales[i / 32];
        u.quant[i] += 16 * high[i];
        u.min.push_back(-(f16(b, 2) * mins[i / 32]));
      }
      break;
    }
    case DType::Q6_K: {
      fill(nibbles(b, 0, 128, 64), 32, f16(b, 208));
      const auto high = pairs(b, 128, 64);
      for (size_t i = 0; i < n; ++i) {
        u.quant[i] += 16 * high[i];
        u.scale[i] *= static_cast<int8_t>(b[192 + i / 16]);
      }
      break;
    }
    case DType::IQ4_NL: {
      const auto q = nibbles(b, 2, 16, 16);
      fill(q, 0, f16(b, 0));
      for (size_t i = 0; i < n; ++i) u.quant[i] = kIq4[q[i]];
      break;
    }
    case DType::IQ4_XS: {
      const auto q = nibbles(b, 8, 128, 16);
      fill(q, 0, f16(b, 0));
      for (size_t i = 0; i < n; ++i) {
        const size_t g = i / 32;
        const int low = g % 2 ? b[4 + g / 2] / 16 : b[4 + g / 2] % 16;
        const int high = (b[2] | b[3] << 8) >> (2 * g) & 3;
        u.scale[i] *= low + 16 * high - 32;
        u.quant[i] = kIq4[q[i]];
      }
      break;
    }
    case DType::MXFP4: {
      const auto q = nibbles(b, 1, 16, 16);
      fill(q, 0, std::ldexp(1.0, b[0] - 128));
      for (size_t i = 0; i < n; ++i) u.quant[i] = kMxfp4[q[i]];
      break;
    }
    case DType::FP8: {
      float scale;
      std::memcpy(&scale, b.data(), sizeof scale);
      for (size_t i = 0; i < n; ++i) {
        u.scale[i] = double{scale};
        u.quant[i] = e4m3(b[4 + i]);
      }
      break;
    }
    case DType::NVFP4: {
      float times, over;
      std::memcpy(&times, b.data(), sizeof times);
      std::memcpy(&over, b.data() + 4, sizeof over);
      for (size_t i = 0; i < n; ++i) {
        const auto group = static_cast<float>(e4m3(b[8 + i / 16]));
        u.scale[i] = double{group * times / over};
        const int q = b[24 + i / 2] >> (i % 2 * 4) & 15, exponent = q / 2 % 4;
        const double number =
            exponent == 0 ? q % 2 * 0.5 : (2 + q % 2) * std::ldexp(1.0, exponent - 2);
        u.quant[i] = q < 8 ? number : -number;
      }
      break;
    }
    default:  // other formats are compared with their goldens alone
      return std::nullopt;
  }
  return u;
}

bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

// The number of elements in which the two decoders differ.
int differences(DType type, const Bytes& block) {
  const DTypeInfo& format = info(type);
  std::vector<float> out(format.block_elems);
  format.decode_row(reinterpret_cast<const std::byte*>(block.data()), out.data(),
                    format.block_elems);
  const std::optional<Unpacked> expected = unpack(type, block);
  if (!expected) return 0;
  int different = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    different += !same_bits(out[i], static_cast<float>(expected->value(i)));
  }
  return different;
}

bool is_plain(DType type) {
  return type == DType::F32 || type == DType::F16 || type == DType::BF16;
}

// `all`: the folder must have a golden of every format.
void check_goldens(const std::filesystem::path& folder, bool all) {
  for (const DTypeInfo& format : all_dtypes()) {
    if (format.type == DType::F32) continue;
    std::string name(format.name);
    for (char& c : name) c = static_cast<char>(std::tolower(c));
    INFO(name);
    if (!all && !std::filesystem::exists(folder / (name + ".blocks"))) continue;
    const std::string blocks = read_file(folder / (name + ".blocks"));
    const std::string expected = read_file(folder / (name + ".f32"));
    const size_t elems = blocks.size() / format.block_bytes * format.block_elems;
    REQUIRE(elems >= 1280);
    REQUIRE(expected.size() == elems * sizeof(float));
    std::vector<float> out(elems);
    format.decode_row(reinterpret_cast<const std::byte*>(blocks.data()), out.data(),
                      static_cast<int64_t>(elems));
    size_t different = 0;
    for (size_t i = 0; i < elems; ++i) {
      float golden;
      std::memcpy(&golden, expected.data() + i * sizeof(float), sizeof(float));
      different += !same_bits(out[i], golden);
    }
    CHECK(different == 0);
  }
}

}  // namespace

TEST_CASE("every format decodes the reference's blocks to the same bits") {
  check_goldens(test::data_dir() / "blocks", true);
}

TEST_CASE("every format decodes the large collection of reference blocks to the same bits") {
  if (!test::have_shared("goldens/blocks")) return;
  check_goldens(test::shared_dir() / "goldens" / "blocks", false);
}

TEST_CASE("every format decodes many blocks to weights of the reference's hash") {
  const nlohmann::json formats = test::read_json(test::data_dir() / "blocks" / "formats.json");
  for (const DTypeInfo& format : all_dtypes()) {
    if (is_plain(format.type)) continue;
    INFO(format.name);
    // The same bytes as in scripts/make_block_goldens.py.
    constexpr int kMany = 1024;
    std::vector<std::byte> blocks(static_cast<size_t>(kMany) * format.block_bytes);
    uint32_t state = 1;
    for (std::byte& byte : blocks) {
      state = state * 1664525 + 1013904223;
      byte = static_cast<std::byte>(state >> 24);
    }
    std::vector<float> weights(static_cast<size_t>(kMany) * format.block_elems);
    format.decode_row(blocks.data(), weights.data(), static_cast<int64_t>(weights.size()));
    for (float& weight : weights) weight = std::isfinite(weight) ? weight : 0;
    const std::string_view bytes(reinterpret_cast<const char*>(weights.data()),
                                 weights.size() * sizeof(float));
    CHECK(test::sha256_hex(bytes) ==
          formats.at(std::string(format.name)).at("sha256").get<std::string>());
  }
}

TEST_CASE("every single bit of a block has the meaning that the layout defines") {
  std::mt19937 random(7);
  for (const DTypeInfo& format : all_dtypes()) {
    if (is_plain(format.type)) continue;
    INFO(format.name);
    int different = 0;
    for (int round = 0; round < 4; ++round) {
      Bytes block(format.block_bytes);
      for (uint8_t& byte : block) byte = round == 0 ? 0 : round == 1 ? 0xff : random() & 0xff;
      different += differences(format.type, block);
      for (int bit = 0; bit < 8 * format.block_bytes; ++bit) {
        block[bit / 8] ^= 1 << (bit % 8);
        different += differences(format.type, block);
        block[bit / 8] ^= 1 << (bit % 8);
      }
    }
    CHECK(different == 0);
  }
}

TEST_CASE(
    "every format agrees with the independent decoder on random blocks and all kinds of scales") {
  std::mt19937 random(11);
  const std::vector<uint16_t> kScales = {0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x0400, 0x3c00,
                                         0xbc00, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00};
  for (const DTypeInfo& format : all_dtypes()) {
    if (is_plain(format.type)) continue;
    INFO(format.name);
    int different = 0;
    for (int round = 0; round < 2000; ++round) {
      Bytes block(format.block_bytes);
      for (uint8_t& byte : block) byte = random() & 0xff;
      different += differences(format.type, block);
    }
    const auto bytes = static_cast<size_t>(format.block_bytes);
    // A block has its scales, at most two, at the start or the end.
    for (const size_t at : {size_t{0}, size_t{2}, bytes - 4, bytes - 2}) {
      for (uint16_t scale : kScales) {
        Bytes block(format.block_bytes);
        for (uint8_t& byte : block) byte = random() & 0xff;
        std::memcpy(block.data() + at, &scale, 2);
        different += differences(format.type, block);
      }
    }
    CHECK(different == 0);
  }
}
