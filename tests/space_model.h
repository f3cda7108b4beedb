// A small random model with a layer of each kind of Nemotron-H, as a GGUF with a vocabulary of
// bytes: a state space, experts, attention and a feed-forward.
#pragma once

#include <cmath>
#include <string>

#include "tests/random_gguf.h"
#include "tests/small_models.h"

namespace skald::test {

class SpaceGguf : RandomGguf {
 public:
  static constexpr uint32_t kVocab = kByteVocab, kDim = 48, kFfnDim = 56;
  static constexpr uint32_t kHeads = 2, kHeadDim = 32;  // of attention
  static constexpr uint32_t kStates = 6, kStateHeadDim = 10, kGroups = 2, kStateDim = 12, kTaps = 4;
  static constexpr uint32_t kExperts = 5, kUsed = 2, kExpertDim = 24, kSharedDim = 40;

  std::string file() {
    keys();
    add_byte_vocabulary(w_, "x");
    tensor("token_embd.weight", kVocab, kDim);
    for (const char* blk : {"blk.0.", "blk.1.", "blk.2.", "blk.3."}) {
      ones(std::string(blk) + "attn_norm.weight", kDim);
    }
    space("blk.0.");
    experts("blk.1.");
    attention("blk.2.");
    tensor("blk.3.ffn_up.weight", kFfnDim, kDim);
    tensor("blk.3.ffn_down.weight", kDim, kFfnDim);
    ones("output_norm.weight", kDim);
    tensor("output.weight", kVocab, kDim);
    return w_.file();
  }

 private:
  void keys() {
    w_.text("general.architecture", "nemotron_h_moe");
    const auto number = [&](const std::string& key, uint32_t value) {
      w_.u32("nemotron_h_moe." + key, value);
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
    number("ssm.state_size", kStateDim);
    number("ssm.group_count", kGroups);
    number("ssm.time_step_rank", kStates);
    number("ssm.inner_size", kStates * kStateHeadDim);
    number("expert_count", kExperts);
    number("expert_used_count", kUsed);
    number("expert_feed_forward_length", kExpertDim);
    number("expert_shared_count", 1);
    number("expert_shared_feed_forward_length", kSharedDim);
    w_.f32("nemotron_h_moe.attention.layer_norm_rms_epsilon", 1e-5f);
  }

  void space(const std::string& blk) {
    constexpr uint32_t kValues = kStates * kStateHeadDim;
    constexpr uint32_t kMixed = kValues + 2 * kGroups * kStateDim;
    const auto column = [&](const char* name, const auto& next) {
      vector(blk + name, kStates, next);
      w_.tensors.back().dims = {1, kStates};
    };
    const auto some = [&] { return normal_(random_); };
    tensor(blk + "ssm_in.weight", kValues + kMixed + kStates, kDim);
    tensor(blk + "ssm_conv1d.weight", kMixed, kTaps);
    vector(blk + "ssm_conv1d.bias", kMixed, some);
    vector(blk + "ssm_dt.bias", kStates, some);
    column("ssm_a", [&] { return -std::exp(0.3f * normal_(random_)); });
    column("ssm_d", some);
    ones(blk + "ssm_norm.weight", kValues);
    w_.tensors.back().dims = {kValues / kGroups, kGroups};
    tensor(blk + "ssm_out.weight", kDim, kValues);
  }

  void experts(const std::string& blk) {
    tensor(blk + "ffn_gate_inp.weight", kExperts, kDim);
    vector(blk + "exp_probs_b.bias", kExperts, [&] { return 0.1f * normal_(random_); });
    tensor(blk + "ffn_up_exps.weight", kExperts * kExpertDim, kDim);
    w_.tensors.back().dims = {kDim, kExpertDim, kExperts};
    tensor(blk + "ffn_down_exps.weight", kExperts * kDim, kExpertDim);
    w_.tensors.back().dims = {kExpertDim, kDim, kExperts};
    tensor(blk + "ffn_up_shexp.weight", kSharedDim, kDim);
    tensor(blk + "ffn_down_shexp.weight", kDim, kSharedDim);
  }

  void attention(const std::string& blk) {
    tensor(blk + "attn_q.weight", kHeads * kHeadDim, kDim);
    tensor(blk + "attn_k.weight", kHeadDim, kDim);
    tensor(blk + "attn_v.weight", kHeadDim, kDim);
    tensor(blk + "attn_output.weight", kDim, kHeads * kHeadDim);
  }
};

}  // namespace skald::test
