// Models with a byte-level BPE tokenizer, for tests of the program. A one-layer model with weights
// of 0 and the vocabulary of tests/data/tokenizer, as a GGUF.
#pragma once

#include <nlohmann/json.hpp>

#include "tests/app/models.h"

namespace skald::test {

inline nlohmann::json byte_tokenizer() {
  return nlohmann::json::parse(read_file(data_dir() / "tokenizer" / "byte.tokenizer.json"));
}

// The keys of a byte-level BPE in a GGUF.
struct GgufBpe {
  std::string pre = "llama-bpe";
  std::vector<std::string> pieces, merges;
  std::vector<int32_t> types;
  std::optional<bool> add_bos = false;
  int32_t bos = 0, eos = 2;
};

inline GgufBpe gguf_bpe_of(const nlohmann::json& json) {
  GgufBpe out;
  out.pieces.resize(json["model"]["vocab"].size());
  for (const auto& [piece, id] : json["model"]["vocab"].items()) out.pieces[id] = piece;
  for (const auto& merge : json["model"]["merges"]) {
    out.merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  out.types.resize(out.pieces.size(), 1);
  for (const auto& added : json["added_tokens"]) out.types[added["id"]] = 3;
  return out;
}

inline std::string bpe_gguf(const GgufBpe& bpe) {
  constexpr uint32_t kDim = 32;
  GgufWriter w;
  w.text("general.architecture", "llama");
  w.u32("llama.block_count", 1);
  w.u32("llama.context_length", 512);
  w.u32("llama.embedding_length", kDim);
  w.u32("llama.feed_forward_length", kDim);
  w.u32("llama.attention.head_count", 1);
  w.f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  w.text("tokenizer.ggml.model", "gpt2");
  if (!bpe.pre.empty()) w.text("tokenizer.ggml.pre", bpe.pre);
  w.strings("tokenizer.ggml.tokens", bpe.pieces);
  w.strings("tokenizer.ggml.merges", bpe.merges);
  std::string types;
  for (const int32_t type : bpe.types) types += raw(type);
  w.array("tokenizer.ggml.token_type", 5, bpe.types.size(), types);
  if (bpe.bos >= 0) w.i32("tokenizer.ggml.bos_token_id", bpe.bos);
  if (bpe.eos >= 0) w.i32("tokenizer.ggml.eos_token_id", bpe.eos);
  if (bpe.add_bos) w.boolean("tokenizer.ggml.add_bos_token", *bpe.add_bos);
  const uint64_t vocab = bpe.pieces.size();
  const auto tensor = [&](const std::string& name, uint64_t rows, float value) {
    std::string data;
    for (uint64_t i = 0; i < rows * kDim; ++i) data += raw(value);
    w.tensors.push_back(
        {name, rows == 1 ? std::vector<uint64_t>{kDim} : std::vector<uint64_t>{kDim, rows}, 0,
         data});
  };
  tensor("token_embd.weight", vocab, 0);
  for (const char* name :
       {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}) {
    tensor(std::string("blk.0.") + name + ".weight", kDim, 0);
  }
  tensor("blk.0.attn_norm.weight", 1, 1);
  tensor("blk.0.ffn_norm.weight", 1, 1);
  tensor("output_norm.weight", 1, 1);
  tensor("output.weight", vocab, 0);
  return w.file();
}

}  // namespace skald::test
