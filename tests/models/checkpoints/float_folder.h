// A small Llama in FP8 or NVFP4 whose rows are whole blocks of the format, with random weights, and
// the same weights in float32.
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

// The format, and what has a scale of its own (FP8), or how the matrix's scale is meant (NVFP4).
enum class FloatKind { Fp8Matrix, Fp8Row, Fp8Block, Nvfp4Times, Nvfp4Over };
inline constexpr FloatKind kFloatKinds[] = {FloatKind::Fp8Matrix, FloatKind::Fp8Row,
                                            FloatKind::Fp8Block, FloatKind::Nvfp4Times,
                                            FloatKind::Nvfp4Over};
inline const char* text(FloatKind kind) {
  constexpr const char* kTexts[] = {"FP8, a scale for a matrix", "FP8, a scale for a row",
                                    "FP8, a scale for a block", "NVFP4, multiplied",
                                    "NVFP4, divided"};
  return kTexts[static_cast<int>(kind)];
}

class FloatFolder {
 public:
  static constexpr int64_t kDim = 256, kHidden = 512, kVocab = 48, kBlock = 128, kGroup = 16;

  // `nan`: one number of a feed-forward is none.
  explicit FloatFolder(FloatKind kind, bool nan = false) : kind_(kind), nan_(nan) {
    add_plain("model.embed_tokens", kVocab, kDim);
    add_plain("lm_head", kVocab, kDim);
    add_ones("model.norm");
    const std::string layer = "model.layers.0.";
    add_ones(layer + "input_layernorm");
    add_ones(layer + "post_attention_layernorm");
    for (const char* name : {"q_proj", "o_proj"}) add(layer + "self_attn." + name, kDim, kDim);
    for (const char* name : {"k_proj", "v_proj"}) add(layer + "self_attn." + name, kDim / 2, kDim);
    for (const char* name : {"gate_proj", "up_proj"}) add(layer + "mlp." + name, kHidden, kDim);
    add(layer + "mlp.down_proj", kDim, kHidden);
  }

  DType format() const { return is_fp8() ? DType::FP8 : DType::NVFP4; }
  OpenedModel open() const { return open(quantized_folder_, quantized_, quantization()); }
  OpenedModel open_in_f32() const { return open(f32_folder_, f32_, nlohmann::json::object()); }

 private:
  struct Tensors {
    nlohmann::json header = nlohmann::json::object();
    std::string data;

    template <class T>
    void add(const std::string& name, const char* type, const std::vector<int64_t>& shape,
             const std::vector<T>& numbers) {
      const size_t bytes = numbers.size() * sizeof(T);
      header[name] = {
          {"dtype", type}, {"shape", shape}, {"data_offsets", {data.size(), data.size() + bytes}}};
      data.append(reinterpret_cast<const char*>(numbers.data()), bytes);
    }
  };
  using Floats = std::vector<float>;
  using Bytes = std::vector<uint8_t>;

  bool is_fp8() const { return kind_ != FloatKind::Nvfp4Times && kind_ != FloatKind::Nvfp4Over; }

  void add_floats(const std::string& module, const std::vector<int64_t>& shape,
                  const Floats& numbers) {
    for (Tensors* tensors : {&quantized_, &f32_}) {
      tensors->add(module + ".weight", "F32", shape, numbers);
    }
  }
  void add_ones(const std::string& module) { add_floats(module, {kDim}, Floats(kDim, 1)); }
  void add_plain(const std::string& module, int64_t rows, int64_t cols) {
    Floats numbers(static_cast<size_t>(rows * cols));
    for (float& number : numbers) number = unit_(random_);
    add_floats(module, {rows, cols}, numbers);
  }

  void add(const std::string& module, int64_t rows, int64_t cols) {
    const bool damaged = nan_ && module.ends_with("up_proj");
    const Floats numbers =
        is_fp8() ? add_fp8(module, rows, cols, damaged) : add_nvfp4(module, rows, cols, damaged);
    f32_.add(module + ".weight", "F32", {rows, cols}, numbers);
  }

  // A number that differs from 1 as the scales of a real model do.
  float spread() { return std::exp2(2 * unit_(random_)); }
  Bytes random_bytes(int64_t count) {
    Bytes bytes(static_cast<size_t>(count));
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random_());
    return bytes;
  }

  Floats add_fp8(const std::string& module, int64_t rows, int64_t cols, bool damaged) {
    const bool block = kind_ == FloatKind::Fp8Block, row = kind_ == FloatKind::Fp8Row;
    const int64_t down = row ? rows : block ? rows / kBlock : 1, across = block ? cols / kBlock : 1;
    Floats scales(static_cast<size_t>(down * across));
    for (float& scale : scales) scale = 4e-4F * spread();  // random codes are some hundreds
    Bytes codes = random_bytes(rows * cols);
    for (uint8_t& code : codes) code = is_e4m3_nan(code) ? 0 : code;
    if (damaged) codes[0] = 0x7f;
    Floats numbers(codes.size());
    for (size_t i = 0; i < codes.size(); ++i) {
      const auto r = static_cast<int64_t>(i) / cols, c = static_cast<int64_t>(i) % cols;
      const int64_t at = row ? r : block ? r / kBlock * across + c / kBlock : 0;
      numbers[i] = e4m3_to_f32(codes[i]) * scales[static_cast<size_t>(at)];
    }
    std::vector<int64_t> shape;
    if (row || block) shape = {down, across};
    quantized_.add(module + ".weight", "F8_E4M3", {rows, cols}, codes);
    quantized_.add(module + (block ? ".weight_scale_inv" : ".weight_scale"), "F32", shape, scales);
    return numbers;
  }

  Floats add_nvfp4(const std::string& module, int64_t rows, int64_t cols, bool damaged) {
    const bool over = kind_ == FloatKind::Nvfp4Over;
    const float matrix = over ? 4999 * spread() : 2e-4F * spread();
    const Bytes codes = random_bytes(rows * cols / 2);
    Bytes groups = random_bytes(rows * cols / kGroup);
    for (uint8_t& group : groups) group = static_cast<uint8_t>(0x60 + group % 24);  // 32 to 240
    if (damaged) groups[0] = 0x7f;
    Floats numbers(static_cast<size_t>(rows * cols));
    for (size_t i = 0; i < numbers.size(); ++i) {
      const float group = e4m3_to_f32(groups[i / kGroup]);
      numbers[i] =
          e2m1_to_f32(codes[i / 2] >> (i % 2 * 4) & 15) * (over ? group / matrix : group * matrix);
    }
    quantized_.add(module + (over ? ".weight_packed" : ".weight"), "U8", {rows, cols / 2}, codes);
    quantized_.add(module + ".weight_scale", "F8_E4M3", {rows, cols / kGroup}, groups);
    quantized_.add(module + (over ? ".weight_global_scale" : ".weight_scale_2"), "F32",
                   over ? std::vector<int64_t>{1} : std::vector<int64_t>{}, Floats{matrix});
    return numbers;
  }

  nlohmann::json quantization() const {
    const char* of_golden = kind_ == FloatKind::Fp8Block     ? "fp8"
                            : is_fp8()                       ? "ct-fp8"
                            : kind_ == FloatKind::Nvfp4Times ? "modelopt-nvfp4"
                                                             : "ct-nvfp4";
    const auto config = read_json(data_dir() / "checkpoints" / of_golden / "config.json");
    return {{"quantization_config", config.at("quantization_config")}};
  }

  static OpenedModel open(const TempFolder& folder, const Tensors& tensors,
                          const nlohmann::json& more) {
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
    folder.write("config.json", config.dump());
    folder.write("model.safetensors", safetensors(tensors.header.dump(), tensors.data));
    return open_model(folder.path());
  }

  FloatKind kind_;
  bool nan_;
  std::mt19937 random_{17};
  std::uniform_real_distribution<float> unit_{-1, 1};
  Tensors quantized_, f32_;
  TempFolder quantized_folder_, f32_folder_;
};

}  // namespace skald::test
