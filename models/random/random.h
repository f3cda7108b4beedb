// Makes models of a published shape with random weights, so that speed can be measured without a
// download. Their output is noise.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/program/model.h"

namespace skald {

std::vector<std::string_view> random_shapes();  // "llama-3.2-1b", …
std::vector<std::string_view> random_types();   // "f16", "q4_k_m", …

Model random_model(std::string_view shape, std::string_view type);  // throws Error(Exit::Usage)

// Like random_model(), without memory for its weights, which must not be read. For `skald plan`.
Model shape_model(std::string_view shape, std::string_view type);

}  // namespace skald
