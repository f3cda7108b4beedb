// A Model is what the files say: configuration, weights, and the function that turns both into a
// Program. Immutable; any number of executors share it.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/program/adapters.h"
#include "engine/program/program.h"
#include "engine/program/shard.h"
#include "engine/program/taps.h"
#include "engine/program/weights.h"

namespace skald {

enum class QkNorm : uint8_t { None, Heads, Whole };  // how queries and keys are normed

// Layers whose feed-forward consists of experts.
struct ExpertsConfig {
  int count = 0;  // experts of a layer; 0: the model has none
  int used = 0;   // experts of a token
  int64_t ffn_dim = 0;
  bool normalized = false;  // as in ExpertsSpec
  std::vector<bool> dense;  // [layers], true: the layer has no experts; empty: all layers have
  // A shared expert is a feed-forward that every token passes through, beside the routed experts.
  int64_t shared_dim = 0;    // its width; 0: the model has none
  bool shared_gate = false;  // a row's result is multiplied by a factor of the row (RowGate)
  bool bias = false;         // the router and each expert's products have one
  bool choice_bias = false;  // Experts::choice_bias
  Gating gating = Gating::Softmax;
  float scale = 1, router_scale = 1;  // as in ExpertsSpec
  int groups = 1, used_groups = 1;    // the same
  bool expert_scale = false;          // Experts::expert_scale
};

// Layers with a gated delta net in the place of attention.
struct DeltaConfig {
  std::vector<bool> layers;  // [layers], true: the layer has the net; empty: no layer has
  DeltaSpec spec;
  int taps = 0;  // of the convolution
};

// Layers with a state space in the place of attention (Mamba-2).
struct SpaceConfig {
  std::vector<bool> layers;  // [layers], true: the layer has one; empty: no layer has
  SpaceSpec spec;
  int taps = 0;           // of the convolution
  bool conv_bias = true;  // the convolution has one
};

// Attention whose keys and values are made of one narrow vector, the latent, which alone is cached
// (DeepSeek).
struct LatentConfig {
  int rank = 0;        // width of the latent; 0: the model has other attention
  int query_rank = 0;  // queries are made of a vector of this width; 0: of the layer's input
  int rope_dim = 0;    // of a query's head, and of the one key that all heads share; they rotate
  int key_dim = 0;     // of a query's head, and of a head's own key; they do not rotate
  int value_dim = 0;   // of a head's value
};

// Layers with a short convolution in the place of attention (LFM2).
struct ShortConvConfig {
  std::vector<bool> layers;  // [layers], true: the layer has one; empty: no layer has
  int taps = 0;
};

// Layers of two kinds, with a window and without, whose attention differs (Gemma 4). The
// properties of ModelConfig are those of layers with a window.
struct FullLayersConfig {
  int head_dim = 0;  // 0: all layers have the same attention
  int kv_heads = 0;
  bool values_are_keys = false;  // attn_k gives keys and values
};

// Later layers that keep no keys and values (Gemma 4): each reads those of the last layer of its
// kind that keeps some.
struct SharedKvConfig {
  int layers = 0;       // the last layers of the model
  int64_t ffn_dim = 0;  // width of their feed-forward
};

// Properties that at least two families share. A property of one family alone is in that family's
// file in models/families.
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
  // longrope and dynamic: a longer context has other frequencies at every position. So
  // short_context is the default context. 0: one set of frequencies serves every context.
  int64_t short_context = 0;
  float norm_eps = 1e-5f;
  NormKind norm = NormKind::Rms;  // kind of all norms of layers and of the last norm
  bool norm_bias = false;         // true for Layer norms alone
  Activation activation = Activation::Silu;
  int window = 0;               // window of every layer; 0: none
  std::vector<int> windows;     // [layers], if layers differ; else empty
  std::vector<bool> unrotated;  // [layers], true: the layer has no rope; empty: all layers have
  bool tied = false;            // the head uses the embedding's weights
  bool attention_bias = false;  // q, k and v have a bias
  bool attention_output_bias = false;
  bool mlp_bias = false;
  bool gated_mlp = true;  // else down · activation(up · in)
  float embedding_scale = 1;
  float attention_scale = 0;  // 0: 1 / sqrt(head_dim)
  float residual_scale = 1;   // multiplies what layers add to the residual stream
  QueryGrowth query_growth = {};
  float logit_scale = 1;
  float attention_softcap = 0, logit_softcap = 0;  // 0: none
  bool attention_sinks = false;                    // one for each head (Attention::sinks)
  // attn_q holds a query and a gate for each head, or attn_gate holds the gates. What the head
  // attends to is multiplied by sigmoid(gate), each number by itself.
  bool attention_gate = false;
  QkNorm qk_norm = QkNorm::None;
  // The factor of queries if a file has no weights for the norms of heads (Muse Glimmer); 0: all
  // files have weights.
  float bare_query_scale = 0;
  bool norm_after_rope = false;  // qk_norm stands after the rotation; for Heads alone
  float norm_plus = 0;           // added to the file's norm weights: 1 if the file holds weight - 1
  RopeSpec rope;
  RopeSpec window_rope;  // for layers with a window; without frequencies, all layers use `rope`
  float rope_base = 10000;
  float window_rope_base = 0;  // base of window_rope
  // A looped model runs all of its layers several times, one run after the other. Each run has keys
  // and values of its own.
  int loops = 1;
  bool loop_norm = false;             // the last norm also stands between two runs
  std::string rope_scaling = "none";  // for messages; `rope` contains its effect
  ExpertsConfig experts;
  DeltaConfig delta;
  ShortConvConfig short_conv;
  SpaceConfig space;
  LatentConfig latent;
  FullLayersConfig full;
  SharedKvConfig shared_kv;
  // A token has an embedding of this width for each layer (Gemma 4); 0: none.
  int64_t layer_embedding = 0;

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
  bool has_delta(int layer) const {
    return !delta.layers.empty() && delta.layers[static_cast<size_t>(layer)];
  }
  bool has_short_conv(int layer) const {
    return !short_conv.layers.empty() && short_conv.layers[static_cast<size_t>(layer)];
  }
  bool has_space(int layer) const {
    return !space.layers.empty() && space.layers[static_cast<size_t>(layer)];
  }
  bool rotates(int layer) const {
    return unrotated.empty() || !unrotated[static_cast<size_t>(layer)];
  }
};

struct Model {
  ModelConfig config;
  std::shared_ptr<const WeightFile> weights;
  Program (*build)(const ModelConfig&, const WeightFile&) = nullptr;
  Shard shard = {};  // the rank that program() is for
  // What sequences may choose from; nullptr: nothing. A model with adapters has one rank.
  std::shared_ptr<const Adapters> adapters = nullptr;
  // The layers before which the residual stream is read (engine/program/taps.h); empty: none.
  std::vector<int> taps = {};

  Program program() const {
    Program whole = build(config, *weights);
    if (!taps.empty()) whole = add_taps(std::move(whole), taps);
    return shard_program(adapters ? add_adapters(std::move(whole), adapters) : std::move(whole),
                         shard);
  }
};

}  // namespace skald
