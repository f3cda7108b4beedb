// Models of a published shape with random weights in memory, so that speed can be measured without
// a download. Their text is noise.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/program/model.h"

namespace skald {

std::vector<std::string_view> random_shapes();  // "llama-3.2-1b", …
std::vector<std::string_view> random_types();   // "f16", "q4_k_m", …

Model random_model(std::string_view shape, std::string_view type);  // throws Error(Exit::Usage)

// The same without memory for the weights, which must not be read: for plans.
Model shape_model(std::string_view shape, std::string_view type);

}  // namespace skald
