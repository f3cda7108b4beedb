// Which format each tensor of a model gets. The mixes are those that users of GGUF files know by
// name ("q4_k_m"): one format for most, more bits for what suffers most (the output, and the values
// and down projections of some layers), and another where rows are no whole blocks.
#pragma once

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

// Of a model, what the mixes go by.
struct MixedModel {
  int layers = 0;
  bool tied = false;  // the embedding is the output too
  // The attn_v of Llama's 70B and Qwen2's 72B is small beside what depends on it.
  bool small_values = false;
  // The attention of Mixtral is small beside its eight experts.
  bool small_attention = false;
};
MixedModel mixed_model(const ModelConfig& config);

// Whether formats apply to a tensor at all; norms, biases and others stay as precise as they are.
bool is_quantizable(std::string_view name, int64_t rows, size_t dims);

// What a user wants for a tensor by name, before all rules but the one about rows.
using TypeWish = std::function<std::optional<DType>(std::string_view name)>;

// For a quantizable tensor of rows with `cols` weights.
struct TypeChoice {
  DType type;
  bool other_rows;  // not as the mix has it, since rows must be whole blocks
};
TypeChoice choose_type(const QuantMix& mix, const MixedModel& model, std::string_view name,
                       int64_t cols, const TypeWish& wish = {});

}  // namespace skald
