// Models with a byte-level BPE tokenizer, for tests of the program. A one-layer model with weights
// of 0 and the vocabulary of tests/data/tokenizer, as a GGUF.
#pragma once

#include <nlohmann/json.hpp>

#include "tests/small_models.h"

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

// The keys that llama.cpp's converter writes for a tokenizer.json.
inline GgufBpe gguf_bpe_of(const nlohmann::json& json) {
  GgufBpe out;
  const auto put = [&](const std::string& piece, size_t id, int32_t type) {
    if (id >= out.pieces.size()) out.pieces.resize(id + 1);
    out.types.resize(out.pieces.size(), 5);  // unused
    out.pieces[id] = piece;
    out.types[id] = type;
  };
  for (const auto& [piece, id] : json["model"]["vocab"].items()) put(piece, id, 1);
  for (const auto& merge : json["model"]["merges"]) {
    out.merges.push_back(merge.is_string()
                             ? merge.get<std::string>()
                             : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  for (const auto& added : json["added_tokens"]) {
    put(added["content"], added["id"], added["special"] ? 3 : 4);
  }
  return out;
}

inline std::string bpe_gguf(const GgufBpe& bpe) {
  GgufWriter w;
  add_flat_keys(w, 512);
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
  add_flat_weights(w, bpe.pieces.size());
  return w.file();
}

}  // namespace skald::test
