// Models for tests of the program: small GGUFs with a vocabulary of bytes and a few words, and
// Hugging Face folders made of a golden's weights and a tokenizer from tests/data.
#pragma once

#include <filesystem>
#include <string>

#include "tests/gguf_writer.h"
#include "tests/paths.h"
#include "tests/temp_folder.h"

namespace skald::test {

inline std::string small_gguf() { return (data_dir() / "gguf" / "kq256.q8_0.gguf").string(); }

// The tokenizer's first pieces, after three control tokens, are the 256 bytes: token id = byte + 3.
inline constexpr int kFirstByteToken = 3;

// A one-layer model whose weights are 0, norms excepted: all logits are equal, so that --logit-bias
// alone decides which token follows.
struct FlatModel {
  uint32_t context = 512;
  float embedding = 0;
  std::string extra_piece = "x";  // the text of the last token, id 259
  bool extra_is_control = false;
  std::string chat_template = {};  // none
};

inline constexpr uint32_t kFlatDim = 32;

// The keys of a Llama of one layer.
inline void add_flat_keys(GgufWriter& w, uint32_t context) {
  w.text("general.architecture", "llama");
  w.u32("llama.block_count", 1);
  w.u32("llama.context_length", context);
  w.u32("llama.embedding_length", kFlatDim);
  w.u32("llama.feed_forward_length", kFlatDim);
  w.u32("llama.attention.head_count", 1);
  w.f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
}

// The weights of a Llama of one layer: norms of 1, the embedding's value, and 0.
inline void add_flat_weights(GgufWriter& w, uint64_t vocab, float embedding = 0) {
  const auto tensor = [&](const std::string& name, uint64_t rows, float value) {
    std::string data;
    for (uint64_t i = 0; i < rows * kFlatDim; ++i) data += raw(value);
    std::vector<uint64_t> dims{kFlatDim};
    if (rows > 1) dims.push_back(rows);
    w.tensors.push_back({name, dims, 0, data});
  };
  tensor("token_embd.weight", vocab, embedding);
  for (const char* name :
       {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}) {
    tensor(std::string("blk.0.") + name + ".weight", kFlatDim, 0);
  }
  tensor("blk.0.attn_norm.weight", 1, 1);
  tensor("blk.0.ffn_norm.weight", 1, 1);
  tensor("output_norm.weight", 1, 1);
  tensor("output.weight", vocab, 0);
}

// A vocabulary of three control tokens, the 256 bytes and one further piece.
inline constexpr uint32_t kByteVocab = 260;
inline void add_byte_vocabulary(GgufWriter& w, const std::string& extra_piece,
                                bool extra_is_control = false) {
  std::vector<std::string> pieces{"<unk>", "<s>", "</s>"};
  std::string types = raw<int32_t>(2) + raw<int32_t>(3) + raw<int32_t>(3);
  std::string scores = raw(0.0f) + raw(0.0f) + raw(0.0f);
  for (int byte = 0; byte < 256; ++byte) {
    char piece[16];
    std::snprintf(piece, sizeof piece, "<0x%02X>", byte);
    pieces.push_back(piece);
    types += raw<int32_t>(6);
    scores += raw(0.0f);
  }
  pieces.push_back(extra_piece);
  types += raw<int32_t>(extra_is_control ? 3 : 1);
  scores += raw(-1.0f);
  w.text("tokenizer.ggml.model", "llama");
  w.strings("tokenizer.ggml.tokens", pieces);
  w.array("tokenizer.ggml.scores", 6, kByteVocab, scores);
  w.array("tokenizer.ggml.token_type", 5, kByteVocab, types);
  w.u32("tokenizer.ggml.bos_token_id", 1);
  w.u32("tokenizer.ggml.eos_token_id", 2);
  w.boolean("tokenizer.ggml.add_space_prefix", false);
}

inline std::string flat_gguf(const FlatModel& model) {
  GgufWriter w;
  add_flat_keys(w, model.context);
  add_byte_vocabulary(w, model.extra_piece, model.extra_is_control);
  if (!model.chat_template.empty()) w.text("tokenizer.chat_template", model.chat_template);
  add_flat_weights(w, kByteVocab, model.embedding);
  return w.file();
}

// Makes a folder with the golden's weights and the tokenizer of tests/data/tokenizer.
inline void make_folder(const std::filesystem::path& folder, const std::string& golden) {
  namespace fs = std::filesystem;
  fs::create_directories(folder);
  for (const char* file : {"config.json", "model.safetensors"}) {
    fs::copy_file(data_dir() / "goldens" / golden / file, folder / file);
  }
  fs::copy_file(data_dir() / "tokenizer" / "unigram.model", folder / "tokenizer.model");
}

}  // namespace skald::test
