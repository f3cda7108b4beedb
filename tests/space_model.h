// A small random model with a layer of each kind of Nemotron-H, as a GGUF with a vocabulary of
// bytes: a state space, experts, attention and a feed-forward.
#pragma once

#include <cmath>
#include <string>

#include "tests/random_gguf.h"
#include "tests/small_models.h"

namespace skald::test {

// The sizes of the state space. No fast kernel of a GPU supports the first ones.
struct SpaceSizes {
  uint32_t states = 6, head_dim = 10, groups = 2, state_dim = 12;
};
inline constexpr SpaceSizes kFastSpace = {4, 32, 2, 64};

class SpaceGguf : RandomGguf {
 public:
  explicit SpaceGguf(const SpaceSizes& sizes = {}, bool bf16 = false, bool routes = true)
      : sizes_(sizes), routes_(routes) {
    bf16_ = bf16;
  }

  static constexpr uint32_t kVocab = kByteVocab, kDim = 48, kFfnDim = 56;
  static constexpr uint32_t kHeads = 2, kHeadDim = 32;  // of attention
  static constexpr uint32_t kTaps = 4;
  static constexpr uint32_t kExperts = 5, kUsed = 2, kExpertDim = 24, kSharedDim = 40;

  std::string file() {
    keys();
    add_byte_vocabulary(w_, "x");
    tensor("token_embd.weight", kVocab, kDim);
    for (const char* blk : {"blk.0.", "blk.1.", "blk.2.", "blk.3."}) {
      ones(std::string(blk) + "attn_norm.weight", kDim);
    }
    space("blk.0.");
    routes_ ? experts("blk.1.") : feed_forward("blk.1.");
    attention("blk.2.");
    feed_forward("blk.3.");
    ones("output_norm.weight", kDim);
    tensor("output.weight", kVocab, kDim);
    return w_.file();
  }

 private:
  void keys() {
    const std::string architecture = routes_ ? "nemotron_h_moe" : "nemotron_h";
    w_.text("general.architecture", architecture);
    const auto number = [&](const std::string& key, uint32_t value) {
      w_.u32(architecture + "." + key, value);
    };
    number("block_count", 4);
    number("context_length", 1024);
    number("embedding_length", kDim);
    number("feed_forward_length", kFfnDim);
    number("attention.head_count", kHeads);
    number("attention.head_count_kv", 1);
    number("attention.key_length", kHeadDim);
    number("attention.value_length", kHeadDim);
    number("ssm.conv_kernel", kTaps);
    number("ssm.state_size", sizes_.state_dim);
    number("ssm.group_count", sizes_.groups);
    number("ssm.time_step_rank", sizes_.states);
    number("ssm.inner_size", sizes_.states * sizes_.head_dim);
    w_.f32(architecture + ".attention.layer_norm_rms_epsilon", 1e-5f);
    if (!routes_) return;
    number("expert_count", kExperts);
    number("expert_used_count", kUsed);
    number("expert_feed_forward_length", kExpertDim);
    number("expert_shared_count", 1);
    number("expert_shared_feed_forward_length", kSharedDim);
  }

  void space(const std::string& blk) {
    const uint32_t states = sizes_.states, groups = sizes_.groups;
    const uint32_t values = states * sizes_.head_dim;
    const uint32_t mixed = values + 2 * groups * sizes_.state_dim;
    const auto column = [&](const char* name, const auto& next) {
      vector(blk + name, states, next);
      w_.tensors.back().dims = {1, states};
    };
    const auto some = [&] { return normal_(random_); };
    tensor(blk + "ssm_in.weight", values + mixed + states, kDim);
    vector(blk + "ssm_conv1d.weight", mixed * kTaps, [&] { return 0.7f * normal_(random_); });
    w_.tensors.back().dims = {kTaps, mixed};
    vector(blk + "ssm_conv1d.bias", mixed, some);
    vector(blk + "ssm_dt.bias", states, some);
    column("ssm_a", [&] { return -std::exp(0.3f * normal_(random_)); });
    column("ssm_d", some);
    ones(blk + "ssm_norm.weight", values);
    w_.tensors.back().dims = {values / groups, groups};
    tensor(blk + "ssm_out.weight", kDim, values);
  }

  void experts(const std::string& blk) {
    vector(blk + "ffn_gate_inp.weight", kExperts * kDim, [&] { return 0.2f * normal_(random_); });
    w_.tensors.back().dims = {kDim, kExperts};
    vector(blk + "exp_probs_b.bias", kExperts, [&] { return 0.1f * normal_(random_); });
    tensor(blk + "ffn_up_exps.weight", kExperts * kExpertDim, kDim);
    w_.tensors.back().dims = {kDim, kExpertDim, kExperts};
    tensor(blk + "ffn_down_exps.weight", kExperts * kDim, kExpertDim);
    w_.tensors.back().dims = {kExpertDim, kDim, kExperts};
    tensor(blk + "ffn_up_shexp.weight", kSharedDim, kDim);
    tensor(blk + "ffn_down_shexp.weight", kDim, kSharedDim);
  }

  void feed_forward(const std::string& blk) {
    tensor(blk + "ffn_up.weight", kFfnDim, kDim);
    tensor(blk + "ffn_down.weight", kDim, kFfnDim);
  }

  void attention(const std::string& blk) {
    tensor(blk + "attn_q.weight", kHeads * kHeadDim, kDim);
    tensor(blk + "attn_k.weight", kHeadDim, kDim);
    tensor(blk + "attn_v.weight", kHeadDim, kDim);
    tensor(blk + "attn_output.weight", kDim, kHeads * kHeadDim);
  }

  SpaceSizes sizes_;
  bool routes_;  // layer 1 has experts, else a feed-forward
};

}  // namespace skald::test
