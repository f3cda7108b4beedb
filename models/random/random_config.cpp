#include "models/random/random_config.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <vector>

#include "models/families/shared/rope.h"
#include "models/families/shared/windows.h"
#include "models/random/random_layers.h"

namespace skald {
namespace {

constexpr int kMinistralContext = 16384;  // before yarn

// For each layer, true if its parts are such.
template <class Is>
std::vector<bool> layers_where(const RandomShape& shape, Is is) {
  std::vector<bool> layers;
  layers.reserve(static_cast<size_t>(shape.layers));
  for (int layer = 0; layer < shape.layers; ++layer)
    layers.push_back(is(layer_parts(shape, layer)));
  return layers;
}

// The layers without experts; empty if all have some.
std::vector<bool> dense_layers(const RandomShape& shape) {
  std::vector<bool> dense =
      layers_where(shape, [](const LayerParts& parts) { return !parts.experts; });
  if (std::find(dense.begin(), dense.end(), true) == dense.end()) dense.clear();
  return dense;
}

void set_rope(const RandomShape& shape, ModelConfig& c) {
  const bool gemma4 = shape.family == &kGemma4, gpt_oss = shape.family == &kGptOss,
             mistral = shape.family == &kMistral;
  RopeScaling scaling;
  if (shape.rope_factor != 1) {
    scaling.type = shape.family == &kGemma3 ? "linear" : gpt_oss || mistral ? "yarn" : "llama3";
    scaling.factor = shape.rope_factor;
    scaling.original_context = gpt_oss ? 4096 : mistral ? kMinistralContext : 8192;
  }
  // Queries of Ministral 3 grow; its yarn multiplies no cosines and sines.
  if (mistral) c.query_growth = {0.1f, kMinistralContext};
  c.rope_base = static_cast<float>(shape.rope_base);
  c.rope_scaling = scaling.type;
  const int rotated = shape.delta.value_heads > 0 ? shape.head_dim / 4
                      : shape.latent.rank > 0     ? shape.latent.rope_dim
                                                  : shape.head_dim;
  c.rope.inv_freq =
      rope_frequencies(shape.rope_base, gemma4 ? shape.full.head_dim : rotated, scaling);
  if (gemma4) {  // a quarter of the pairs turns
    const auto first = c.rope.inv_freq.begin() + std::ssize(c.rope.inv_freq) / 4;
    std::fill(first, c.rope.inv_freq.end(), 0.0f);
  }
}

// Granite 4's multipliers keep their neutral values: the weights are of a size without them.
void set_spaces(const RandomShape& shape, ModelConfig& c) {
  c.space.layers =
      layers_where(shape, [](const LayerParts& parts) { return parts.mixer == Mixer::Space; });
  c.space.spec = shape.space;
  c.space.taps = kRandomTaps;
  c.unrotated.assign(static_cast<size_t>(c.layers), true);
  if (shape.family == &kNemotronH) c.activation = Activation::SquaredRelu;
  if (shape.experts.count > 0) c.architecture = shape.family->gguf_types.back();
}

}  // namespace

ModelConfig random_config(const RandomShape& shape) {
  ModelConfig c;
  c.architecture = shape.family->gguf_types.front();
  c.layers = shape.layers;
  c.dim = shape.dim;
  c.ffn_dim = shape.ffn_dim;
  c.heads = shape.heads;
  c.kv_heads = shape.kv_heads;
  c.head_dim = shape.head_dim;
  c.vocab = shape.vocab;
  c.context = shape.context;
  c.tied = shape.tied;
  set_rope(shape, c);
  c.full = shape.full;
  c.gated_mlp = has_gates(shape);
  if (shape.delta.value_heads > 0) {
    c.attention_gate = true;
    c.delta = {
        layers_where(shape, [](const LayerParts& parts) { return parts.mixer == Mixer::DeltaNet; }),
        shape.delta, kRandomTaps};
  }
  if (shape.space.heads > 0) set_spaces(shape, c);
  if (norms_heads(shape)) c.qk_norm = QkNorm::Heads;
  c.attention_bias = biases_qkv(shape);
  if (shape.family == &kNanbeige) {
    c.loops = 2;
    c.loop_norm = true;
  }
  c.experts = shape.experts;
  if (c.experts.count > 0) c.experts.dense = dense_layers(shape);
  const LatentConfig& latent = shape.latent;
  if (latent.rank > 0) {
    c.latent = latent;
    c.rope.interleaved = true;
    c.attention_scale = 1 / std::sqrt(static_cast<float>(latent.rope_dim + latent.key_dim));
  }
  if (shape.window == 0) return c;

  c.window = shape.window;
  if (shape.family == &kStarcoder2) {
    c.norm = NormKind::Layer;
    c.activation = Activation::GeluTanh;
    c.norm_bias = c.attention_output_bias = c.mlp_bias = true;
    return c;
  }
  c.windows = windows_by_period(c.layers, c.window, shape.period);
  if (shape.family == &kGptOss) {
    c.activation = Activation::ClampedSwiglu;
    c.attention_bias = c.attention_output_bias = c.attention_sinks = true;
    return c;
  }
  if (shape.family == &kCohere2) {
    c.norm = NormKind::Layer;
    c.rope.interleaved = true;
    for (int window : c.windows) c.unrotated.push_back(window == 0);
    c.logit_scale = 0.25f;
    return c;
  }
  c.activation = Activation::GeluTanh;
  c.embedding_scale = std::sqrt(static_cast<float>(c.dim));
  const bool gemma4 = shape.family == &kGemma4;
  if (gemma4) {
    c.attention_scale = 1;
    c.logit_softcap = 30;
  }
  if (gemma4 || shape.family == &kGemma3) {
    c.window_rope_base = 10000;
    c.window_rope.inv_freq = rope_frequencies(c.window_rope_base, c.head_dim, {});
  } else {
    c.attention_softcap = 50;
    c.logit_softcap = 30;
  }
  return c;
}

}  // namespace skald
