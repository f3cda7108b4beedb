// What families with Llama's layers share: the names of their tensors, and a Program of a norm
// before each half of a layer, in which the configuration decides about the rest.
#pragma once

#include <string>
#include <string_view>

#include "engine/program/model.h"

namespace skald {

std::string llama_tensor_name(std::string_view hf_name);  // empty: not needed
Program build_llama(const ModelConfig& c, const WeightFile& file);

}  // namespace skald
