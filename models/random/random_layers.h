// What the layers of a random model consist of. Its configuration and its weights ask here, so that
// they agree.
#pragma once

#include <cstdint>

#include "models/random/random_shapes.h"

namespace skald {

// A layer is attention, or what stands in its place, and then a feed-forward, experts or both.
// Nemotron-H's layers have either the first half or the second one.
enum class Mixer : uint8_t { None, Attention, Latent, DeltaNet, Space };
struct LayerParts {
  Mixer mixer = Mixer::Attention;
  bool dense = true;  // has a feed-forward
  bool experts = false;
};

LayerParts layer_parts(const RandomShape& shape, int layer);

// Layers without a window may have heads of their own.
bool has_full_heads(const RandomShape& shape, int layer);

bool norms_heads(const RandomShape& shape);
bool biases_qkv(const RandomShape& shape);
bool has_gates(const RandomShape& shape);  // its feed-forwards and experts have

inline constexpr int kRandomTaps = 4;  // of the convolution before a delta net or a state space

}  // namespace skald
