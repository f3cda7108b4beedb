// Chooses the format of each tensor. The mixes are those that users of GGUF files know by name
// ("q4_k_m"): one format for most tensors, and more bits for the tensors that lose most (the
// output, and attn_v and ffn_down of some layers). A tensor whose rows are no whole blocks gets
// another format.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/program/model.h"

namespace skald {

struct QuantMix {
  std::string_view name;
  DType most;
  int file_type;  // GGUF's general.file_type
};

std::vector<std::string_view> quant_mix_names();
const QuantMix& find_quant_mix(std::string_view name);  // any case; throws Error(Exit::Usage)
// "Q4_K_M" for 15, a GGUF's general.file_type; "" for a type that no mix has.
std::string quant_mix_of(int64_t file_type);

// The properties of a model on which the mixes depend.
struct MixedModel {
  int layers = 0;
  bool tied = false;  // the embedding is also the output
  // attn_v is small, so more bits for it cost little: Llama 70B, Qwen2 72B.
  bool small_values = false;
  // Attention is small compared with the experts: Mixtral.
  bool small_attention = false;
  // Four or more heads share a key and a value.
  bool few_key_heads = false;
  // The weights are quantized by importances (importance.h).
  bool importances = false;
};
MixedModel mixed_model(const ModelConfig& config);

// True if weights of this format are a model's original ones, as gpt-oss' experts in MXFP4 are. A
// mix leaves them as they are.
inline bool is_original(DType type) { return type == DType::MXFP4; }

// True for a tensor that a mix quantizes. Norms, biases, convolutions and others keep their
// precision.
bool is_quantizable(std::string_view name, int64_t rows, size_t dims);

// A user's format for a tensor, by its name. It overrides the mix, unless rows are no whole blocks.
using TypeOverride = std::function<std::optional<DType>(std::string_view name)>;

// The format of a quantizable tensor.
struct TypeChoice {
  DType type;
  bool other_rows;  // not the mix's format, because rows must be whole blocks
};
TypeChoice choose_type(const QuantMix& mix, const MixedModel& model, std::string_view name,
                       int64_t cols, const TypeOverride& by_user = {});

}  // namespace skald
