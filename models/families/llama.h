// Shared by families with Llama's layers: tensor names, and a Program with a norm before each half
// of a layer. The configuration decides about everything else.
#pragma once

#include <string>
#include <string_view>

#include "engine/program/model.h"

namespace skald {

std::string llama_tensor_name(std::string_view hf_name);  // empty: the tensor is not needed
Program build_llama(const ModelConfig& c, const WeightFile& file);

// The same layers in GGUFs that call the norm before the feed-forward after what stands ahead of
// it.
inline constexpr std::string_view kLateFfnNorm = "post_attention_norm";
Program build_llama_late(const ModelConfig& c, const WeightFile& file);

}  // namespace skald
