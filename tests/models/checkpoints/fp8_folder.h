// A small Llama in FP8 whose rows are whole blocks of the format FP8, with random weights, and the
// same weights in float32.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "engine/base/float8.h"
#include "models/open.h"
#include "tests/golden.h"
#include "tests/safetensors_writer.h"
#include "tests/temp_folder.h"

namespace skald::test {

// What has a scale of its own.
enum class Fp8Scales { Matrix, Row, Block };

class Fp8Folder {
 public:
  static constexpr int64_t kDim = 256, kHidden = 384, kVocab = 48, kBlock = 128;

  // `nan`: one weight of a feed-forward is no number.
  explicit Fp8Folder(Fp8Scales scales, bool nan = false) : scales_(scales), nan_(nan) {
    add_plain("model.embed_tokens", kVocab, kDim);
    add_plain("lm_head", kVocab, kDim);
    add_ones("model.norm");
    const std::string layer = "model.layers.0.";
    add_ones(layer + "input_layernorm");
    add_ones(layer + "post_attention_layernorm");
    for (const char* name : {"q_proj", "o_proj"}) add_fp8(layer + "self_attn." + name, kDim, kDim);
    for (const char* name : {"k_proj", "v_proj"}) {
      add_fp8(layer + "self_attn." + name, kDim / 2, kDim);
    }
    for (const char* name : {"gate_proj", "up_proj"}) add_fp8(layer + "mlp." + name, kHidden, kDim);
    add_fp8(layer + "mlp.down_proj", kDim, kHidden);
  }

  OpenedModel open() const { return open(fp8_, scales_config()); }
  OpenedModel open_in_f32() const { return open(f32_, {}); }

 private:
  struct Tensors {
    nlohmann::json header = nlohmann::json::object();
    std::string data;

    void add(const std::string& name, const char* type, const std::vector<int64_t>& shape,
             const std::string& bytes) {
      header[name] = {{"dtype", type},
                      {"shape", shape},
                      {"data_offsets", {data.size(), data.size() + bytes.size()}}};
      data += bytes;
    }
  };

  template <class T>
  static std::string bytes_of(const std::vector<T>& numbers) {
    return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
  }

  void add_floats(const std::string& module, const std::vector<int64_t>& shape,
                  const std::vector<float>& numbers) {
    for (Tensors* tensors : {&fp8_, &f32_}) {
      tensors->add(module + ".weight", "F32", shape, bytes_of(numbers));
    }
  }
  void add_ones(const std::string& module) {
    add_floats(module, {kDim}, std::vector<float>(kDim, 1.0F));
  }
  void add_plain(const std::string& module, int64_t rows, int64_t cols) {
    std::vector<float> numbers(static_cast<size_t>(rows * cols));
    for (float& number : numbers) number = unit_(random_);
    add_floats(module, {rows, cols}, numbers);
  }

  void add_fp8(const std::string& module, int64_t rows, int64_t cols) {
    const int64_t down = scales_ == Fp8Scales::Row     ? rows
                         : scales_ == Fp8Scales::Block ? (rows + kBlock - 1) / kBlock
                                                       : 1;
    const int64_t across = scales_ == Fp8Scales::Block ? cols / kBlock : 1;
    std::vector<float> scales(static_cast<size_t>(down * across));
    // Random codes are numbers of 100 or so. Scales differ as those of a real model do.
    for (float& scale : scales) scale = std::exp2(2 * unit_(random_)) * 4e-4F;
    std::vector<uint8_t> codes(static_cast<size_t>(rows * cols));
    std::vector<float> numbers(codes.size());
    for (size_t i = 0; i < codes.size(); ++i) {
      codes[i] = static_cast<uint8_t>(random_());
      if (is_e4m3_nan(codes[i])) codes[i] ^= 1;
      const bool damaged = nan_ && i == 0 && module.ends_with("up_proj");
      if (damaged) codes[i] = 0x7f;
      const auto row = static_cast<int64_t>(i) / cols, col = static_cast<int64_t>(i) % cols;
      const int64_t at = scales_ == Fp8Scales::Block ? row / kBlock * across + col / kBlock
                         : scales_ == Fp8Scales::Row ? row
                                                     : 0;
      numbers[i] = e4m3_to_f32(codes[i]) * scales[static_cast<size_t>(at)];
    }
    const bool block = scales_ == Fp8Scales::Block;
    fp8_.add(module + ".weight", "F8_E4M3", {rows, cols}, bytes_of(codes));
    fp8_.add(
        module + (block ? ".weight_scale_inv" : ".weight_scale"), "F32",
        scales_ == Fp8Scales::Matrix ? std::vector<int64_t>{} : std::vector<int64_t>{down, across},
        bytes_of(scales));
    f32_.add(module + ".weight", "F32", {rows, cols}, bytes_of(numbers));
  }

  nlohmann::json scales_config() const {
    nlohmann::json config = {{"quant_method", "fp8"}, {"activation_scheme", "dynamic"}};
    if (scales_ == Fp8Scales::Block) config["weight_block_size"] = {kBlock, kBlock};
    return {{"quantization_config", config}};
  }

  static OpenedModel open(const Tensors& tensors, const nlohmann::json& more) {
    nlohmann::json config = {{"architectures", {"LlamaForCausalLM"}},
                             {"model_type", "llama"},
                             {"vocab_size", kVocab},
                             {"hidden_size", kDim},
                             {"intermediate_size", kHidden},
                             {"num_hidden_layers", 1},
                             {"num_attention_heads", 2},
                             {"num_key_value_heads", 1},
                             {"head_dim", kDim / 2},
                             {"hidden_act", "silu"},
                             {"rms_norm_eps", 1e-5},
                             {"rope_theta", 10000.0},
                             {"max_position_embeddings", 64},
                             {"tie_word_embeddings", false},
                             {"torch_dtype", "float32"}};
    config.update(more);
    TempFolder temp;
    temp.write("m/config.json", config.dump());
    temp.write("m/model.safetensors", safetensors(tensors.header.dump(), tensors.data));
    return open_model(temp.path() / "m");  // has mapped the file
  }

  Fp8Scales scales_;
  bool nan_;
  std::mt19937 random_{17};
  std::uniform_real_distribution<float> unit_{-1, 1};
  Tensors fp8_, f32_;
};

inline const char* text(Fp8Scales scales) {
  return scales == Fp8Scales::Matrix ? "matrix" : scales == Fp8Scales::Row ? "row" : "block";
}

}  // namespace skald::test
