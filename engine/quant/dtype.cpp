#include "engine/quant/dtype.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstring>

#include "engine/base/error.h"
#include "engine/base/half.h"
#include "engine/quant/encode.h"
#include "engine/quant/encode_grids.h"
#include "engine/quant/formats/fp8.h"
#include "engine/quant/formats/iq1_m.h"
#include "engine/quant/formats/iq1_s.h"
#include "engine/quant/formats/iq2_xs.h"
#include "engine/quant/formats/iq2_xxs.h"
#include "engine/quant/formats/iq3_xxs.h"
#include "engine/quant/formats/iq4_nl.h"
#include "engine/quant/formats/iq4_xs.h"
#include "engine/quant/formats/mxfp4.h"
#include "engine/quant/formats/nvfp4.h"
#include "engine/quant/formats/q2_k.h"
#include "engine/quant/formats/q3_k.h"
#include "engine/quant/formats/tq1_0.h"
#include "engine/quant/formats/tq2_0.h"

namespace skald {
namespace {

static_assert(std::endian::native == std::endian::little, "weight files are little-endian");

// The plain formats as blocks of one weight, so that one loop decodes every format.
struct OneF32 {
  static constexpr int kElems = 1;
  float value;
};
struct OneF16 {
  static constexpr int kElems = 1;
  uint16_t bits;
};
struct OneBF16 {
  static constexpr int kElems = 1;
  uint16_t bits;
};
float decode(const OneF32& b, int) { return b.value; }
float decode(const OneF16& b, int) { return f16_to_f32(b.bits); }
float decode(const OneBF16& b, int) { return bf16_to_f32(b.bits); }
void encode(const float* w, OneF32& out) { out.value = *w; }
void encode(const float* w, OneF16& out) { out.bits = f32_to_f16(*w); }
void encode(const float* w, OneBF16& out) { out.bits = f32_to_bf16(*w); }

template <class Block>
void decode_row(const std::byte* row, float* out, int64_t elems) {
  for (int64_t start = 0; start < elems; start += Block::kElems) {
    Block block;  // copied because a row in a file may be unaligned
    std::memcpy(&block, row, sizeof(Block));
    row += sizeof(Block);
    for (int i = 0; i < Block::kElems; ++i) out[start + i] = decode(block, i);
  }
}

// Scales a block's importances to a mean of 1, so that sums neither overflow nor vanish. No input
// of a matrix is certain to be 0, so each number keeps a little importance. Returns false if all
// numbers are equally important.
bool scale_importances(const float* given, int count, float* scaled) {
  constexpr float kLeast = 1e-3f;
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += given[i];
  const double factor = count / sum;
  if (!(sum > 0) || !std::isfinite(factor)) return false;
  for (int i = 0; i < count; ++i) {
    scaled[i] = std::max(kLeast, static_cast<float>(given[i] * factor));
  }
  return true;
}

template <class Block>
void encode_row(const float* in, std::byte* row, int64_t elems,
                [[maybe_unused]] const float* importances) {
  for (int64_t start = 0; start < elems; start += Block::kElems) {
    Block block;
    if constexpr (Block::kElems == 1) {
      encode(in + start, block);
    } else {
      float scaled[Block::kElems];
      const bool weighted =
          importances != nullptr && scale_importances(importances + start, Block::kElems, scaled);
      encode(HostWeights{in + start, weighted ? scaled : nullptr}, block);
    }
    std::memcpy(row, &block, sizeof(Block));
    row += sizeof(Block);
  }
}

template <class Block>
void set_scales(std::byte* to, float scale, float min) {
  Block block;
  std::memcpy(&block, to, sizeof(Block));
  if constexpr (requires { set_scale(block, scale); }) {
    set_scale(block, scale);
  } else {
    block.scale = f32_to_f16(scale);
  }
  if constexpr (requires { block.min; }) block.min = f32_to_f16(min);
  std::memcpy(to, &block, sizeof(Block));
}

template <class Block>
constexpr auto scale_setter() -> void (*)(std::byte*, float, float) {
  if constexpr (Block::kElems > 1) return set_scales<Block>;
  return nullptr;
}

template <class Block>
constexpr auto encoder() -> void (*)(const float*, std::byte*, int64_t, const float*) {
  if constexpr (Block::kElems == 1 ||
                requires(HostWeights w, Block & block) { encode(w, block); }) {
    return encode_row<Block>;
  } else {
    return nullptr;
  }
}

template <class Block>
constexpr DTypeInfo format(DType type, std::string_view name, int gguf_id,
                           std::string_view safetensors = {}) {
  return {type,          name,    safetensors,       Block::kElems,  //
          sizeof(Block), gguf_id, decode_row<Block>, encoder<Block>(), scale_setter<Block>()};
}

// The formats, in the order of DType.
constexpr DTypeInfo kTable[] = {
    format<OneF32>(DType::F32, "F32", 0, "F32"),
    format<OneF16>(DType::F16, "F16", 1, "F16"),
    format<OneBF16>(DType::BF16, "BF16", 30, "BF16"),
    format<BlockQ8_0>(DType::Q8_0, "Q8_0", 8),
    format<BlockQ4_0>(DType::Q4_0, "Q4_0", 2),
    format<BlockQ4_1>(DType::Q4_1, "Q4_1", 3),
    format<BlockQ5_0>(DType::Q5_0, "Q5_0", 6),
    format<BlockQ5_1>(DType::Q5_1, "Q5_1", 7),
    format<BlockQ2_K>(DType::Q2_K, "Q2_K", 10),
    format<BlockQ3_K>(DType::Q3_K, "Q3_K", 11),
    format<BlockQ4_K>(DType::Q4_K, "Q4_K", 12),
    format<BlockQ5_K>(DType::Q5_K, "Q5_K", 13),
    format<BlockQ6_K>(DType::Q6_K, "Q6_K", 14),
    format<BlockIQ4_NL>(DType::IQ4_NL, "IQ4_NL", 20),
    format<BlockIQ4_XS>(DType::IQ4_XS, "IQ4_XS", 23),
    format<BlockMXFP4>(DType::MXFP4, "MXFP4", 39),
    format<BlockFP8>(DType::FP8, "FP8", kNoGgufId),
    format<BlockNVFP4>(DType::NVFP4, "NVFP4", kNoGgufId),
    format<BlockIQ3_S>(DType::IQ3_S, "IQ3_S", 21),
    format<BlockIQ3_XXS>(DType::IQ3_XXS, "IQ3_XXS", 18),
    format<BlockIQ2_XXS>(DType::IQ2_XXS, "IQ2_XXS", 16),
    format<BlockIQ2_XS>(DType::IQ2_XS, "IQ2_XS", 17),
    format<BlockIQ2_S>(DType::IQ2_S, "IQ2_S", 22),
    format<BlockIQ1_S>(DType::IQ1_S, "IQ1_S", 19),
    format<BlockIQ1_M>(DType::IQ1_M, "IQ1_M", 29),
    format<BlockTQ1_0>(DType::TQ1_0, "TQ1_0", 34),
    format<BlockTQ2_0>(DType::TQ2_0, "TQ2_0", 35),
};

// info() takes a format's row by its value. tests/recipes_test.cpp checks that every value has one.
constexpr bool in_enum_order() {
  for (size_t i = 0; i < std::size(kTable); ++i) {
    if (static_cast<size_t>(kTable[i].type) != i) return false;
  }
  return true;
}
static_assert(in_enum_order());

template <class Predicate>
std::optional<DType> first_type(Predicate&& matches) {
  const auto found = std::find_if(std::begin(kTable), std::end(kTable), matches);
  if (found == std::end(kTable)) return std::nullopt;
  return found->type;
}

}  // namespace

const DTypeInfo& info(DType type) {
  const auto index = static_cast<size_t>(type);
  check(index < std::size(kTable), "a DType outside the enum");
  return kTable[index];
}

int block_elems(DType type) { return info(type).block_elems; }

std::span<const DTypeInfo> all_dtypes() { return kTable; }

std::optional<DType> dtype_from_name(std::string_view name) {
  return first_type([&](const DTypeInfo& row) {
    return std::equal(
        name.begin(), name.end(), row.name.begin(), row.name.end(),
        [](unsigned char a, unsigned char b) { return std::toupper(a) == std::toupper(b); });
  });
}

std::optional<DType> dtype_from_gguf_id(uint32_t id) {
  return first_type([&](const DTypeInfo& row) {
    return row.gguf_id != kNoGgufId && static_cast<uint32_t>(row.gguf_id) == id;
  });
}

std::optional<DType> dtype_from_safetensors(std::string_view name) {
  if (name.empty()) return std::nullopt;
  return first_type([&](const DTypeInfo& row) { return row.safetensors == name; });
}

int64_t row_bytes(DType type, int64_t elems) {
  const DTypeInfo& format = info(type);
  check(elems >= 0 && elems % format.block_elems == 0, "a row must be whole blocks");
  return elems / format.block_elems * format.block_bytes;
}

}  // namespace skald
