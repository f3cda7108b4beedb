#include "models/random/random_layers.h"

#include "engine/base/error.h"

namespace skald {
namespace {

LayerParts half_of(char letter) {
  switch (letter) {
    case 'M':
      return {Mixer::Space, false};
    case '*':
      return {Mixer::Attention, false};
    case '-':
      return {Mixer::None};
    case 'E':
      return {Mixer::None, false, true};
    default:
      break;
  }
  check(false, "a pattern has M, *, - and E");
  return {};
}

}  // namespace

LayerParts layer_parts(const RandomShape& shape, int layer) {
  if (!shape.pattern.empty()) return half_of(shape.pattern.at(static_cast<size_t>(layer)));
  LayerParts parts;
  const bool latent = shape.latent.rank > 0;
  if (latent) parts.mixer = Mixer::Latent;
  if (shape.delta.value_heads > 0 && (layer + 1) % 4 != 0) parts.mixer = Mixer::DeltaNet;
  if (shape.space.heads > 0 && layer % 10 != 5) parts.mixer = Mixer::Space;
  parts.experts = shape.experts.count > 0 && !(latent && layer == 0);
  parts.dense = !parts.experts || shape.family == &kGemma4;
  return parts;
}

bool has_full_heads(const RandomShape& shape, int layer) {
  return shape.full.head_dim > 0 && (layer + 1) % shape.period == 0;
}

bool norms_heads(const RandomShape& shape) {
  return shape.family == &kQwen3 || shape.family == &kQwen3Moe || shape.family == &kGemma3 ||
         shape.family == &kQwen35 || shape.family == &kGemma4;
}

bool biases_qkv(const RandomShape& shape) {
  return shape.family == &kStarcoder2 || shape.family == &kGptOss || shape.family == &kQwen2Moe;
}

bool has_gates(const RandomShape& shape) {
  return shape.family != &kStarcoder2 && shape.family != &kNemotronH;
}

}  // namespace skald
