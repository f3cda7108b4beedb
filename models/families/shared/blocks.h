// Builds the parts of a Program that most families share. A family calls them in the order of its
// layers. The configuration decides about biases, windows, ropes, scales and caps. Weights are
// found by their GGUF names. builder() takes a family's further ops.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "engine/program/model.h"

namespace skald {

class Blocks {
 public:
  Blocks(const ModelConfig& config, const WeightFile& file);

  ActId x() const { return x_; }  // the residual stream
  ActId h() const { return h_; }  // the result of a half of a layer, before add()
  ActId routed();                 // the experts' input; a buffer other than h
  ProgramBuilder& builder() { return builder_; }
  int rope_of(int layer) const;  // the layer's Rope::spec

  void embed();                                                        // x = rows of the embedding
  void norm(ActId out, ActId in, int layer, std::string_view weight);  // "attn_norm"
  void attention(int layer, ActId in);                                 // h = attention of in
  void mlp(int layer, ActId in);                                       // gate(), then down()
  void gate(int layer, ActId in);  // inner half of the feed-forward of `in`; result kept for down()
  void down(int layer);            // h = outer half of gate()'s result
  void experts(int layer, ActId in);  // h = experts of `in`, which is routed()
  // The same with a router that reads `route`; out is a buffer other than both.
  void experts(int layer, ActId out, ActId in, ActId route);
  void shared_expert(int layer, ActId in);  // h = the shared expert of `in`, the same
  // The second half of a layer: x += the feed-forward, or the experts, of the norm `weight` of x.
  void feed_forward(int layer, std::string_view weight);
  void add();          // x += h
  void norm_stream();  // x = the last norm of x
  // Norm and logits of x. A family may call the last norm otherwise, or add another number to its
  // weights than to those of other norms. rows: of the head; 0: one for each token of the model.
  struct LastNorm {
    std::string_view name = "output_norm";
    std::optional<float> plus = {};
    int64_t rows = 0;
  };
  Program finish(const LastNorm& last) &&;
  Program finish() &&;

  // out = weight · in + bias, with a layer's weight such as "attn_q".
  void linear(ActId out, ActId in, int layer, std::string_view name, bool bias);

 private:
  // A feed-forward that every token passes through. `suffix` is a part of its tensors' names:
  // "ffn_up" + suffix.
  struct FeedForward {
    std::string_view suffix;
    bool bias;
    ActId gate, up;
  };
  void gate(int layer, ActId in, const FeedForward& part);
  void down(int layer, const FeedForward& part);
  bool fused(std::string_view name, int layer, ActId in, std::initializer_list<ActId> outs);
  WeightId expert_weights(int layer, std::string_view part, int64_t rows, int64_t cols);
  Norm norm_op(ActId out, ActId in, const std::string& name, std::optional<float> plus = {});
  void queries(int layer, ActId in);  // q of `in`, and the gates
  void qk_norm(ActId act, int heads, int layer, std::string_view weight);
  void make_attention_acts();

  const ModelConfig& config_;
  const WeightFile& file_;
  ProgramBuilder builder_;
  ActId x_, h_;
  ActId q_{}, k_{}, v_{}, attended_{};       // made by the first attention()
  std::optional<FeedForward> mlp_, shared_;  // made by the first use
  std::optional<ActId> routed_;              // the same
  std::optional<ActId> queries_, gates_;     // made if attn_q holds both; gates_ also for attn_gate
  WeightId embedding_ = WeightId::None;
  int rope_ = 0, window_rope_ = 0;  // equal if layers with a window have no rope of their own
};

// Programs that several families share. after: each half of a layer norms its result, not its input
// (OLMo 2, EXAONE 4). around: each half norms both (Gemma 2, GLM-4).
Program build_norms_after(const ModelConfig& c, const WeightFile& file);
Program build_norms_around(const ModelConfig& c, const WeightFile& file);

}  // namespace skald
