#include "engine/quant/cache_row.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "engine/quant/dtype.h"
#include "tests/catch.h"
#include "tests/engine/cpu/random_weights.h"

namespace skald::test {
namespace {

constexpr int64_t kCount = 96;

struct Coded {
  std::vector<std::byte> codes, scales;

  Coded(CacheType type, const std::vector<float>& in)
      : codes(in.size() * static_cast<size_t>(code_bits(type)) / 8),
        scales(has_scales(type) ? in.size() / kCacheBlock * 2 : 0) {
    encode_cache(type, in.data(), std::ssize(in), {codes.data(), scales.data()});
  }

  std::vector<float> decoded(CacheType type, size_t count) const {
    std::vector<float> out(count);
    decode_cache(type, {codes.data(), scales.data()}, std::ssize(out), out.data());
    return out;
  }
};

double relative_error(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(double{a[i]} - b[i], 2);
    size += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(difference / size);
}

TEST_CASE("types of the cache are found by their names") {
  for (const CacheType type : all_cache_types()) CHECK(cache_type_from_name(name(type)) == type);
  CHECK(cache_type_from_name("q8_0") == CacheType::Q8_0);
  CHECK(cache_type_from_name("fp8") == CacheType::FP8);
  for (const char* other : {"", "q4_1", "q5_0", "iq4_nl", "f", "f166"}) {
    CHECK(!cache_type_from_name(other));
  }
  CHECK(to_text({CacheType::Q4_0, CacheType::Q4_0}) == "Q4_0");
  CHECK(to_text({CacheType::Q8_0, CacheType::F16}) == "Q8_0 keys, F16 values");
  CHECK(cache_types_of(DType::BF16) == CacheTypes{CacheType::BF16, CacheType::BF16});
}

TEST_CASE("each type of the cache loses as much as its bits allow") {
  const std::vector<float> in = random_floats(32 * kCount, 1);
  const auto error = [&](CacheType type) {
    return relative_error(Coded(type, in).decoded(type, in.size()), in);
  };
  CHECK(error(CacheType::F32) == 0);
  CHECK(error(CacheType::F16) < 3e-4);
  CHECK(error(CacheType::BF16) < 2.5e-3);
  CHECK(error(CacheType::Q8_0) < 6e-3);
  CHECK(error(CacheType::FP8) < 2.7e-2);
  CHECK(error(CacheType::Q4_0) < 9e-2);
  for (const CacheType type : all_cache_types()) {
    CAPTURE(name(type));
    CHECK((type == CacheType::F32) == (error(type) == 0));
    const std::vector<float> zeros(kCount);
    CHECK(Coded(type, zeros).decoded(type, kCount) == zeros);
  }
}

TEST_CASE("blocks have the codes and scales of GGUF's formats, which lie apart") {
  const std::vector<float> in = random_floats(kCount, 2);
  for (const auto& [type, format] :
       {std::pair(CacheType::Q8_0, DType::Q8_0), std::pair(CacheType::Q4_0, DType::Q4_0)}) {
    CAPTURE(name(type));
    const Coded coded(type, in);
    std::vector<std::byte> blocks(static_cast<size_t>(row_bytes(format, kCount)));
    CHECK(coded.codes.size() + coded.scales.size() == blocks.size());
    for (int b = 0; b < kCount / kCacheBlock; ++b) {  // a block is its scale, then its codes
      const auto bytes = static_cast<size_t>(info(format).block_bytes), at = bytes * size_t(b);
      std::memcpy(&blocks[at], &coded.scales[2 * size_t(b)], 2);
      std::memcpy(&blocks[at + 2], &coded.codes[(bytes - 2) * size_t(b)], bytes - 2);
    }
    std::vector<float> expected(kCount);
    info(format).decode_row(blocks.data(), expected.data(), kCount);
    CHECK(coded.decoded(type, kCount) == expected);
  }
}

TEST_CASE("numbers that a type does not hold become NaN, and leave other blocks alone") {
  const std::vector<float> good = random_floats(kCount, 3);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const CacheType type : all_cache_types()) {
    for (const float bad : {std::nanf(""), kInfinity, -kInfinity}) {
      CAPTURE(name(type), bad);
      std::vector<float> in = good;
      in[40] = bad;
      const Coded coded(type, in);
      const std::vector<float> out = coded.decoded(type, kCount);
      const std::vector<float> expected = Coded(type, good).decoded(type, kCount);
      CHECK(!std::isfinite(out[40]));
      CHECK((std::isfinite(out[41]) != has_scales(type)));
      for (size_t i = 0; i < out.size(); ++i) {
        if (i / kCacheBlock != 40 / kCacheBlock) CHECK(out[i] == expected[i]);
      }
    }
  }
  for (const CacheType type : {CacheType::Q8_0, CacheType::Q4_0}) {
    const std::vector<float> large(kCacheBlock, 1e30f);
    CHECK(!std::isfinite(Coded(type, large).decoded(type, kCacheBlock)[0]));
  }
  const std::vector<float> large(kCacheBlock, 1000);
  CHECK(Coded(CacheType::FP8, large).decoded(CacheType::FP8, kCacheBlock)[5] == 448);
}

}  // namespace
}  // namespace skald::test
