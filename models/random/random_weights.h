// The weights of a random model, in memory or as shapes alone.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/program/weights.h"
#include "models/random/random_shapes.h"
#include "models/random/random_types.h"

namespace skald {

enum class RandomFill : uint8_t {
  Noise,    // noise of a size that keeps activations in range; norms are 1, biases 0
  Nothing,  // no memory: weights that must not be read
};

// Throws Error(Exit::Memory) if the machine has no room for them.
std::shared_ptr<const WeightFile> random_weights(const RandomShape& shape, const RandomType& type,
                                                 RandomFill fill);

}  // namespace skald
