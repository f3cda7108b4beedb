// A small random model with recurrent states, as a GGUF of architecture qwen35 with a vocabulary of
// bytes: two layers with a gated delta net, and between them one with attention.
#pragma once

#include <cmath>
#include <string>

#include "tests/random_gguf.h"
#include "tests/small_models.h"

namespace skald::test {

class RecurrentGguf : RandomGguf {
 public:
  static constexpr uint32_t kVocab = kByteVocab, kDim = 48, kLayers = 3, kFfnDim = 64;
  static constexpr uint32_t kHeads = 2, kHeadDim = 32;  // of attention
  static constexpr uint32_t kKeyHeads = 2, kValueHeads = 4, kKeyDim = 12, kValueDim = 20, kTaps = 4;

  // predictor: with a layer that predicts a further token.
  std::string file(bool predictor = false) {
    keys(predictor);
    add_byte_vocabulary(w_, "x");
    tensor("token_embd.weight", kVocab, kDim);
    for (uint32_t layer = 0; layer < kLayers + predictor; ++layer) {
      const std::string blk = "blk." + std::to_string(layer) + ".";
      ones(blk + "attn_norm.weight", kDim);
      ones(blk + "post_attention_norm.weight", kDim);
      layer == 1 || layer == kLayers ? attention(blk) : net(blk);
      if (layer == kLayers) predicts(blk);
      tensor(blk + "ffn_gate.weight", kFfnDim, kDim);
      tensor(blk + "ffn_up.weight", kFfnDim, kDim);
      tensor(blk + "ffn_down.weight", kDim, kFfnDim);
    }
    ones("output_norm.weight", kDim);
    tensor("output.weight", kVocab, kDim);
    return w_.file();
  }

 private:
  void keys(bool predictor) {
    w_.text("general.architecture", "qwen35");
    const auto number = [&](const std::string& key, uint32_t value) {
      w_.u32("qwen35." + key, value);
    };
    number("block_count", kLayers + predictor);
    if (predictor) number("nextn_predict_layers", 1);
    number("context_length", 1024);
    number("embedding_length", kDim);
    number("feed_forward_length", kFfnDim);
    number("attention.head_count", kHeads);
    number("attention.head_count_kv", 1);
    number("attention.key_length", kHeadDim);
    number("attention.value_length", kHeadDim);
    number("rope.dimension_count", kHeadDim / 4);
    number("ssm.conv_kernel", kTaps);
    number("ssm.state_size", kKeyDim);
    number("ssm.group_count", kKeyHeads);
    number("ssm.time_step_rank", kValueHeads);
    number("ssm.inner_size", kValueHeads * kValueDim);
    w_.f32("qwen35.attention.layer_norm_rms_epsilon", 1e-6f);
  }

  void attention(const std::string& blk) {
    tensor(blk + "attn_q.weight", 2 * kHeads * kHeadDim, kDim);
    tensor(blk + "attn_k.weight", kHeadDim, kDim);
    tensor(blk + "attn_v.weight", kHeadDim, kDim);
    ones(blk + "attn_q_norm.weight", kHeadDim);
    ones(blk + "attn_k_norm.weight", kHeadDim);
    tensor(blk + "attn_output.weight", kDim, kHeads * kHeadDim);
  }

  void predicts(const std::string& blk) {
    const auto norm = [&](const char* name) {
      vector(blk + "nextn." + name + ".weight", kDim, [&] { return 1 + 0.1f * normal_(random_); });
    };
    norm("enorm"), norm("hnorm"), norm("shared_head_norm");
    tensor(blk + "nextn.eh_proj.weight", kDim, 2 * kDim);
  }

  void net(const std::string& blk) {
    constexpr uint32_t kValues = kValueHeads * kValueDim;
    constexpr uint32_t kMixed = 2 * kKeyHeads * kKeyDim + kValues;
    tensor(blk + "attn_qkv.weight", kMixed, kDim);
    tensor(blk + "attn_gate.weight", kValues, kDim);
    tensor(blk + "ssm_beta.weight", kValueHeads, kDim);
    tensor(blk + "ssm_alpha.weight", kValueHeads, kDim);
    tensor(blk + "ssm_conv1d.weight", kMixed, kTaps);
    vector(blk + "ssm_a", kValueHeads, [&] { return -std::exp(0.3f * normal_(random_)); });
    vector(blk + "ssm_dt.bias", kValueHeads, [&] { return normal_(random_); });
    ones(blk + "ssm_norm.weight", kValueDim);
    tensor(blk + "ssm_out.weight", kDim, kValues);
  }
};

}  // namespace skald::test
