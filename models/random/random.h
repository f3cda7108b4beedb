// Makes models of a published shape with random weights, so that speed can be measured without a
// download. Their output is noise.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/program/model.h"

namespace skald {

struct RandomShape;  // random_shapes.h

std::vector<std::string_view> random_shapes();  // "llama-3.2-1b", …
std::vector<std::string_view> random_types();   // "f16", "q4_k_m", …

// Throw Error(Exit::Usage) for an unknown name.
const RandomShape& random_shape(std::string_view name);
Model random_model(std::string_view shape, std::string_view type);

// A changed shape, such as one with fewer layers.
Model random_model(const RandomShape& shape, std::string_view type);

// Like random_model(), without memory for its weights, which must not be read. For `skald plan`.
Model shape_model(std::string_view shape, std::string_view type);

}  // namespace skald
