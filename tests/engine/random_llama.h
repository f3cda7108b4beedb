// Small Llama models with random weights in any format, for tests of executors and sessions.
#pragma once

#include <cmath>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/half.h"
#include "engine/base/rng.h"
#include "engine/program/model.h"
#include "engine/quant/dtype.h"
#include "models/families/families.h"
#include "models/families/shared/rope.h"

namespace skald::test {

class MadeWeights final : public WeightFile {
 public:
  explicit MadeWeights(uint64_t seed = 1) : WeightFile("made in memory"), seed_(seed) {}

  void constant(const std::string& name, int64_t cols, float value = 1) {
    std::vector<float> values(static_cast<size_t>(cols), value);
    std::vector<std::byte> bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    keep(name, DType::F32, 1, cols, std::move(bytes));
  }

  // Values of about `times` / sqrt(cols). Blocks of a quantized format get random bits and scales
  // of that size.
  void matrix(const std::string& name, DType type, int64_t rows, int64_t cols, int64_t stacked = 0,
              float times = 1) {
    const DTypeInfo& format = info(type);
    std::vector<std::byte> bytes(static_cast<size_t>(rows * row_bytes(type, cols)));
    const float size = times / std::sqrt(static_cast<float>(cols));
    const int64_t blocks = rows * cols / format.block_elems;
    for (int64_t b = 0; b < blocks; ++b) {
      std::byte* block = bytes.data() + b * format.block_bytes;
      if (format.block_elems == 1) {
        store(block, type, size * static_cast<float>(3.4 * next() - 1.7));
        continue;
      }
      for (int i = 0; i < format.block_bytes; ++i) {
        block[i] = static_cast<std::byte>(256 * next());
      }
      const auto scale = [&](int offset, float value) {
        const uint16_t half = f32_to_f16(value * static_cast<float>(0.5 + next()));
        std::memcpy(block + offset, &half, sizeof half);
      };
      if (type == DType::Q8_0) scale(0, size / 127);
      if (type == DType::Q4_0) scale(0, size / 8);
      if (type == DType::Q4_K) scale(0, size / 900), scale(2, size / 60);
      if (type == DType::Q6_K) scale(208, size / 2000);
    }
    keep(name, type, rows, cols, std::move(bytes), stacked);
  }

 private:
  double next() { return uniform(seed_, 0, count_++, 0); }

  static void store(std::byte* to, DType type, float value) {
    if (type == DType::F32) {
      std::memcpy(to, &value, sizeof value);
    } else {
      const uint16_t half = type == DType::F16 ? f32_to_f16(value) : f32_to_bf16(value);
      std::memcpy(to, &half, sizeof half);
    }
  }

  void keep(const std::string& name, DType type, int64_t rows, int64_t cols,
            std::vector<std::byte> bytes, int64_t stacked = 0) {
    data_.push_back(std::move(bytes));
    std::vector<int64_t> shape{rows, cols};
    if (stacked > 0) shape = {stacked, rows / stacked, cols};
    add({name,
         std::move(shape),
         {data_.back().data(), type, rows, cols, row_bytes(type, cols)},
         path()});
  }

  uint64_t seed_;
  int64_t count_ = 0;
  std::deque<std::vector<std::byte>> data_;
};

struct RandomLlama {
  DType type = DType::F32;
  uint64_t seed = 1;
  int layers = 2, heads = 4, kv_heads = 2, head_dim = 64, window = 0;
  int64_t dim = 256, ffn_dim = 512, vocab = 300, context = 512;
  const Family* family = &kLlama;  // a family whose layers have Llama's weights, norms excepted
  QkNorm qk_norm = QkNorm::None;
  ExpertsConfig experts = {};
  float embeddings = 1;                      // factor
  float attention_norms = 1, ffn_norms = 1;  // the value of their weights
};

inline Model random_llama(const RandomLlama& shape) {
  auto weights = std::make_shared<MadeWeights>(shape.seed);
  const int64_t q = int64_t{shape.heads} * shape.head_dim;
  const int64_t kv = int64_t{shape.kv_heads} * shape.head_dim;
  weights->matrix("token_embd.weight", shape.type, shape.vocab, shape.dim, 0, shape.embeddings);
  for (int layer = 0; layer < shape.layers; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    weights->constant(block + "attn_norm.weight", shape.dim, shape.attention_norms);
    weights->matrix(block + "attn_q.weight", shape.type, q, shape.dim);
    weights->matrix(block + "attn_k.weight", shape.type, kv, shape.dim);
    weights->matrix(block + "attn_v.weight", shape.type, kv, shape.dim);
    weights->matrix(block + "attn_output.weight", shape.type, shape.dim, q);
    weights->constant(block + "ffn_norm.weight", shape.dim, shape.ffn_norms);
    const ExpertsConfig& e = shape.experts;
    if (e.count > 0 && (e.dense.empty() || !e.dense[static_cast<size_t>(layer)])) {
      const auto stack = [&](const char* part, int64_t rows, int64_t cols) {
        weights->matrix(block + part, shape.type, e.count * rows, cols, e.count);
      };
      weights->matrix(block + "ffn_gate_inp.weight", DType::F32, e.count, shape.dim);
      stack("ffn_gate_exps.weight", e.ffn_dim, shape.dim);
      stack("ffn_up_exps.weight", e.ffn_dim, shape.dim);
      stack("ffn_down_exps.weight", shape.dim, e.ffn_dim);
      if (e.shared_dim > 0) {
        weights->matrix(block + "ffn_gate_shexp.weight", shape.type, e.shared_dim, shape.dim);
        weights->matrix(block + "ffn_up_shexp.weight", shape.type, e.shared_dim, shape.dim);
        weights->matrix(block + "ffn_down_shexp.weight", shape.type, shape.dim, e.shared_dim);
      }
      if (e.shared_gate) {
        weights->matrix(block + "ffn_gate_inp_shexp.weight", DType::F32, 1, shape.dim);
      }
      continue;
    }
    weights->matrix(block + "ffn_gate.weight", shape.type, shape.ffn_dim, shape.dim);
    weights->matrix(block + "ffn_up.weight", shape.type, shape.ffn_dim, shape.dim);
    weights->matrix(block + "ffn_down.weight", shape.type, shape.dim, shape.ffn_dim);
    if (shape.family != &kLlama) {
      weights->matrix(block + "post_attention_norm.weight", DType::F32, 1, shape.dim);
      weights->matrix(block + "post_ffw_norm.weight", DType::F32, 1, shape.dim);
    }
    if (shape.qk_norm != QkNorm::None) {
      const bool whole = shape.qk_norm == QkNorm::Whole;
      weights->matrix(block + "attn_q_norm.weight", DType::F32, 1, whole ? q : shape.head_dim);
      weights->matrix(block + "attn_k_norm.weight", DType::F32, 1, whole ? kv : shape.head_dim);
    }
  }
  weights->constant("output_norm.weight", shape.dim);
  weights->matrix("output.weight", shape.type, shape.vocab, shape.dim);

  ModelConfig c;
  c.architecture = "llama";
  c.layers = shape.layers;
  c.dim = shape.dim;
  c.ffn_dim = shape.ffn_dim;
  c.heads = shape.heads;
  c.kv_heads = shape.kv_heads;
  c.head_dim = shape.head_dim;
  c.vocab = shape.vocab;
  c.context = shape.context;
  c.window = shape.window;
  c.qk_norm = shape.qk_norm;
  c.experts = shape.experts;
  c.rope.inv_freq = rope_frequencies(10000, shape.head_dim, {});
  return {c, weights, shape.family->build};
}

inline std::vector<int32_t> random_tokens(int64_t count, uint64_t seed, int64_t vocab = 300) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<int32_t>(uniform(seed, 9, i, 0) * static_cast<double>(vocab)));
  }
  return tokens;
}

}  // namespace skald::test
