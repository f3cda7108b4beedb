// A Model is what the files say: configuration, weights, and the function that turns both into a
// Program. Immutable; any number of executors share it.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/program/program.h"
#include "engine/program/weights.h"

namespace skald {

enum class QkNorm : uint8_t { None, Heads, Whole };  // of queries and keys, before they rotate

// Layers whose feed-forward is one of experts.
struct ExpertsConfig {
  int count = 0;  // of a layer; 0: there are none
  int used = 0;   // for a token
  int64_t ffn_dim = 0;
  bool normalized = false;  // ExpertsSpec's
  std::vector<bool> dense;  // of each layer, whether it has none; empty: all have
};

// What at least two families share; what one alone needs stays in its file in models/.
struct ModelConfig {
  std::string architecture;  // as the file names it: "llama", "mistral"
  int layers = 0;
  int64_t dim = 0;
  int64_t ffn_dim = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int64_t vocab = 0;
  int64_t context = 0;  // positions that the model was trained for
  // longrope and dynamic: in a context of more tokens than this every position rotates otherwise,
  // so it is what a text gets that does not ask for more. 0: all contexts are alike.
  int64_t short_context = 0;
  float norm_eps = 1e-5f;
  NormKind norm = NormKind::Rms;  // of the layers, and of the last norm
  bool norm_bias = false;         // true for Layer norms alone
  Activation activation = Activation::Silu;
  int window = 0;               // of every layer; 0: none
  std::vector<int> windows;     // of each layer, where they differ; else empty
  std::vector<bool> unrotated;  // of each layer, whether it has no rope; empty: all have
  bool tied = false;            // the head is the embedding
  bool attention_bias = false;  // of q, k and v
  bool attention_output_bias = false;
  bool mlp_bias = false;
  float embedding_scale = 1;
  float attention_scale = 0;  // 0: 1 / sqrt(head_dim)
  float residual_scale = 1;   // of what a layer's halves add to the residual stream
  float logit_scale = 1;
  float attention_softcap = 0, logit_softcap = 0;  // 0: none
  QkNorm qk_norm = QkNorm::None;
  float norm_plus = 0;  // what the file's norm weights lack: 1 where they hold what is beyond it
  RopeSpec rope;
  RopeSpec window_rope;  // of layers with a window, where it has frequencies
  float rope_base = 10000;
  float window_rope_base = 0;         // of window_rope
  std::string rope_scaling = "none";  // for people; its effect is in rope
  ExpertsConfig experts;

  int window_of(int layer) const {
    return windows.empty() ? window : windows[static_cast<size_t>(layer)];
  }
  float scale_of_scores() const {
    return attention_scale != 0 ? attention_scale
                                : static_cast<float>(1 / std::sqrt(static_cast<double>(head_dim)));
  }
  bool has_experts(int layer) const {
    return experts.count > 0 &&
           (experts.dense.empty() || !experts.dense[static_cast<size_t>(layer)]);
  }
  bool rotates(int layer) const {
    return unrotated.empty() || !unrotated[static_cast<size_t>(layer)];
  }
};

struct Model {
  ModelConfig config;
  std::shared_ptr<const WeightFile> weights;
  Program (*build)(const ModelConfig&, const WeightFile&) = nullptr;

  Program program() const { return build(config, *weights); }
};

}  // namespace skald
