// The one table of number formats. All code outside engine/quant reads from this table what a
// format means: name, block size, file ids, decoding and encoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "engine/quant/dtype_enum.h"

namespace skald {

inline constexpr int kNoGgufId = -1;

struct DTypeInfo {
  DType type;
  std::string_view name;         // GGUF's spelling: "Q4_K"
  std::string_view safetensors;  // safetensors' spelling; empty: safetensors lacks the format
  int block_elems;
  int block_bytes;
  int gguf_id;  // kNoGgufId: GGUF lacks the format
  // Decodes a row; elems % block_elems == 0.
  void (*decode_row)(const std::byte* row, float* out, int64_t elems);
  // Encodes a row of finite numbers; see encode.h. nullptr: skald cannot encode this format.
  // importances: one for each number, finite and at least 0; a block is then made to have a small
  // sum of importance times squared error. A number's importance counts as at least a thousandth
  // of the mean in its block. nullptr, or only zeros in a block: all are equally important.
  void (*encode_row)(const float* in, std::byte* row, int64_t elems, const float* importances);
  // Sets a block's scale and minimum, rounded to what the block can store, and keeps all other bits
  // (but those of an 8-bit float that is no number). With finite scales, any bits are then a block
  // of finite weights. nullptr: a plain format.
  void (*set_scales)(std::byte* block, float scale, float min);
};

const DTypeInfo& info(DType type);
std::span<const DTypeInfo> all_dtypes();
inline std::string_view name(DType type) { return info(type).name; }

// True if the codes of weights are floats: in the plain formats, and in those of other tools'
// checkpoints. A user may quantize such weights, or merge adapters into them.
inline bool has_float_weights(DType type) {
  return info(type).block_elems == 1 || info(type).gguf_id == kNoGgufId;
}

std::optional<DType> dtype_from_name(std::string_view name);  // upper or lower case
std::optional<DType> dtype_from_gguf_id(uint32_t id);
std::optional<DType> dtype_from_safetensors(std::string_view name);

// Bytes of one row. `elems` must be a multiple of the format's block_elems.
int64_t row_bytes(DType type, int64_t elems);

}  // namespace skald
