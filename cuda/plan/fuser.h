// How fuse() walks a Program: it asks one member after the other whether the ops from at_ on are
// its pattern. A member that says yes has emitted the fused ops. Only fuse*.cpp include this file.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cuda/plan/fuse.h"

namespace skald::cuda {

class Fuser {
 public:
  Fuser(Program& program, FusedBuffers buffers)
      : program_(program),
        ops_(program.ops),
        buffers_(buffers),
        hidden_(*op_output(ops_.front())) {}

  Fused run();

 private:
  template <class T>
  const T* get(size_t index) const {
    return index < ops_.size() ? std::get_if<T>(&ops_[index]) : nullptr;
  }

  template <class T>
  void emit(T op, size_t consumed) {
    at_ += consumed;
    fused_.push_back({std::move(op), at_ - 1});
  }

  // True if an op after `last` reads the buffer before another op overwrites it.
  bool read_after(size_t last, ActId buffer) const;
  // True if the ops from `first` to `last` may become one op that writes `out` and `kept` alone: no
  // later op reads another buffer that they write.
  bool absorbs(size_t first, size_t last, ActId out, std::optional<ActId> kept = {}) const;
  // True if the op at `index` adds up the ranks' parts of the buffer.
  bool reduces(size_t index, ActId buffer) const {
    const auto* reduce = get<AllReduce>(index);
    return reduce && reduce->x == buffer;
  }
  // The op at `index` if it is a norm of the residual stream; a fused op can begin with one.
  const Norm* stream_norm(size_t index) const;
  // The product reads `in`, which the norm writes. Without a norm, the product reads a copy of the
  // residual stream in the activations' type, because the residual stream is float32.
  void take_input(const Norm* norm, ActId in, FusedLinear& fused);

  // [norm] linear [linear gated_act | activate | [norm] add], or [norm] logits
  bool linear_group();
  // A norm that has a kernel of its own. Either several ops read its output, as where attention and
  // feed-forward run in parallel; or it norms the residual stream in place, between two runs of a
  // looped model's layers.
  bool own_norm();
  bool exchange();   // all_reduce, [[norm], add]
  bool row_gate();   // both buffers have the activations' type
  bool gated_act();  // gates one of its inputs in place
  bool given();
  bool part();  // copies columns of whole rows
  bool buffer_norm();

  // In fuse_states.cpp.

  // norm, products, convolution, net, norm of heads, gate
  bool delta_net();
  // norm, three products, convolution, state space, gate, norm of groups
  bool state_space();
  // norm, three products, gate, convolution, gate
  bool short_conv();
  // Products of one input whose results lie side by side in a row of the buffer `delta`.
  struct SideBySide {
    FusedLinear linear;  // without its input
    ActId in;
    std::vector<std::pair<ActId, int>> columns;  // each product's buffer and first column

    std::optional<int> find(ActId buffer) const;
  };
  // The `count` products at `first`, if they read the norm's result or one other input.
  std::optional<SideBySide> side_by_side(const Norm* norm, size_t first, size_t count);

  // In fuse_attention.cpp.

  // A product whose rows are a query and a gate for each head: the three ops at `index`, if they
  // are that.
  struct GatedQueries {
    const Linear* linear;
    const HeadPart *query, *gate;
  };
  std::optional<GatedQueries> gated_queries(size_t index) const;
  // The gates' product. Returns the queries' product, which is not emitted.
  Linear split(const GatedQueries& all, const Norm* norm);
  // The norms of q and k at `index`, if they are of the same kind.
  std::optional<QkNorm> qk_norm(size_t index, ActId q, ActId k) const;
  // True if `copy` copies all of `from`.
  bool copies_all(const HeadPart& copy, ActId from) const;
  // [norm], q, k, v, [norm q, norm k], [rope q, rope k], attention; or ropes, then norms of heads.
  // The product of q may have the gates of attention's result too, or theirs stands behind it.
  // Instead of a product, v may be a copy of k; and its heads may be normed.
  bool qkv_attention();
  // [norm], q, [norm q], [rope q], attention on the keys and values of an earlier layer
  bool reading_attention();

  // In fuse_latent.cpp.

  HeadPlace place(ActId buffer, int heads, int64_t first) const;
  FusedPart fused_part(const HeadPart& part) const;
  // Parts that make one head of keys, parts and a product that make queries, ropes, attention whose
  // keys serve as values
  bool latent_attention();

  // In fuse_layers.cpp.

  bool routed_experts();  // norm, experts, add
  // down, norm; norm, norm, experts, norm; add, norm, add: a feed-forward and experts beside it,
  // whose router has a norm of its own
  bool experts_beside();
  // Sets FusedExperts::shared_ops of all experts.
  void find_shared_experts();
  size_t shared_expert(size_t experts) const;  // the ops of fused_ that follow these experts
  // embed, linear, norm of parts, add: an embedding for each layer, from the token's and from the
  // stream
  bool layer_embeddings();
  // part, linear, gated_act: a layer's embedding, gated
  bool layer_embedding();
  // True if nothing but the sum and parts read the buffer of layers' embeddings, which is float32.
  bool embedding_stays(ActId layers, size_t sum) const;

  Program& program_;
  const std::vector<Op>& ops_;
  FusedBuffers buffers_;
  ActId hidden_;  // the residual stream
  size_t at_ = 0;
  int states_ = 0;                         // layers with a state so far
  std::optional<ActId> layer_embeddings_;  // the buffer
  std::vector<FusedOp> fused_;
  std::vector<std::shared_ptr<const RowReader>> readers_;
};

}  // namespace skald::cuda
