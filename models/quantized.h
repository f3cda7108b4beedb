// A model in another format in memory: made of 16-bit weights while loading, by the same mixes as
// files of that name. Memory is taken for what is made; norms and biases stay where they are.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "engine/model.h"
#include "models/quant_mix.h"

namespace skald {

struct QuantizeOptions {
  int threads = 0;  // 0: all
  // Called after each slice with the bytes that were made, of how many, and what of; may throw.
  std::function<void(int64_t bytes, int64_t of, std::string_view tensor)> progress = {};
};

// Throws Error(Exit::Usage) for weights that are not floats, Error(Exit::Memory) where the result
// does not fit in this machine.
Model quantized_model(const Model& model, const QuantMix& mix, const QuantizeOptions& options);

// The same without memory for the weights, which must not be read: for plans.
Model quantized_shape(const Model& model, const QuantMix& mix);

}  // namespace skald
