// A random EAGLE-3 head for the bundled model, as a folder.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <utility>

#include "tests/gguf_writer.h"
#include "tests/safetensors_writer.h"

namespace skald::test {

// What tests change of it.
struct Eagle3Changes {
  std::string more_keys = {};  // of config.json
  int taps_width = 768;
  int64_t first_offset = 0;  // d2t's first number, if it is not 0
  bool offsets = true;       // the file has d2t

  // The residual stream is the norm of what the head is given, or that itself.
  static Eagle3Changes norm_before(bool before) {
    Eagle3Changes changes;
    if (before) changes.more_keys = R"(, "norm_before_residual": true)";
    return changes;
  }
};

class Eagle3Folder {
 public:
  static constexpr int kDim = 256, kFfn = 96, kHeads = 4, kKvHeads = 2, kHeadDim = 64;
  static constexpr int kVocab = 2048, kOwnVocab = 100;

  explicit Eagle3Folder(Eagle3Changes changes = {}) : changes_(std::move(changes)) {}

  // The token of the model that the head's token means.
  static int32_t token_of(int own) { return 3 * own + 5; }

  void write(const std::filesystem::path& folder) {
    std::filesystem::create_directories(folder);
    const std::string config = R"({"architectures": ["LlamaForCausalLMEagle3"],
      "model_type": "llama", "hidden_size": 256, "intermediate_size": 96, "vocab_size": 2048,
      "draft_vocab_size": 100, "num_hidden_layers": 1, "num_attention_heads": 4,
      "num_key_value_heads": 2, "head_dim": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
      "max_position_embeddings": 64, "hidden_act": "silu"})";
    put(folder / "config.json", config.substr(0, config.size() - 1) + changes_.more_keys + "}");
    tensor("fc.weight", kDim, changes_.taps_width);
    norm("midlayer.hidden_norm.weight"), norm("midlayer.input_layernorm.weight");
    norm("midlayer.post_attention_layernorm.weight"), norm("norm.weight");
    tensor("midlayer.self_attn.q_proj.weight", kHeads * kHeadDim, 2 * kDim);
    tensor("midlayer.self_attn.k_proj.weight", kKvHeads * kHeadDim, 2 * kDim);
    tensor("midlayer.self_attn.v_proj.weight", kKvHeads * kHeadDim, 2 * kDim);
    tensor("midlayer.self_attn.o_proj.weight", kDim, kHeads * kHeadDim);
    tensor("midlayer.mlp.gate_proj.weight", kFfn, kDim);
    tensor("midlayer.mlp.up_proj.weight", kFfn, kDim);
    tensor("midlayer.mlp.down_proj.weight", kDim, kFfn);
    tensor("lm_head.weight", kOwnVocab, kDim);
    if (changes_.offsets) {
      std::string bytes;
      for (int own = 0; own < kOwnVocab; ++own) bytes += raw<int64_t>(token_of(own) - own);
      if (changes_.first_offset != 0) bytes.replace(0, 8, raw(changes_.first_offset));
      add("d2t", "I64", "[100]", bytes);
    }
    add("t2d", "BOOL", "[2048]", std::string(kVocab, '\0'));
    put(folder / "model.safetensors", safetensors(header_ + "}", data_));
  }

 private:
  static void put(const std::filesystem::path& path, const std::string& bytes);

  void add(const std::string& name, const std::string& type, const std::string& shape,
           const std::string& bytes) {
    const size_t begin = data_.size();
    data_ += bytes;
    header_ += (header_.size() > 1 ? ", \"" : "\"") + name + R"(": {"dtype": ")" + type +
               R"(", "shape": )" + shape + R"(, "data_offsets": [)" + std::to_string(begin) + ", " +
               std::to_string(data_.size()) + "]}";
  }
  void tensor(const std::string& name, int rows, int cols) {
    const float size = 1.2f / std::sqrt(static_cast<float>(cols));
    std::string bytes;
    for (int i = 0; i < rows * cols; ++i) bytes += raw<float>(size * normal_(random_));
    add(name, "F32", "[" + std::to_string(rows) + ", " + std::to_string(cols) + "]", bytes);
  }
  void norm(const std::string& name) {
    std::string bytes;
    for (int i = 0; i < kDim; ++i) bytes += raw<float>(1 + 0.1f * normal_(random_));
    add(name, "F32", "[256]", bytes);
  }

  Eagle3Changes changes_;
  std::string header_ = "{", data_;
  std::mt19937_64 random_{11};
  std::normal_distribution<float> normal_;
};

inline void Eagle3Folder::put(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace skald::test
