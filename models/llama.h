// What families with Llama's layers share: the names of their tensors, and a Program in which the
// configuration alone decides about biases, windows and a tied head.
#pragma once

#include <string>
#include <string_view>

#include "engine/model.h"

namespace skald {

std::string llama_tensor_name(std::string_view hf_name);  // empty: not needed
Program build_llama(const ModelConfig& c, const WeightFile& file);

}  // namespace skald
