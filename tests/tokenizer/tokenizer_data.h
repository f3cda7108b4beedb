// Shared by tests of tokenizers: checks against goldens, and random ids.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/paths.h"
#include "tokenizer/sentencepiece/sentencepiece.h"

namespace skald::test {

inline std::filesystem::path tokenizer_data(const std::string& name) {
  return data_dir() / "tokenizer" / name;
}

inline std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in.good());
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// Checks every case of a golden. "decodings" are further ids that no text encodes to.
inline void check_goldens(const Tokenizer& tokenizer, const std::filesystem::path& path) {
  const auto golden = nlohmann::json::parse(read_bytes(path));
  EncodeOptions plain;
  plain.add_bos = false;
  plain.add_eos = false;
  CHECK(golden["cases"].size() > 100);
  for (const auto& item : golden["cases"]) {
    const std::string text = item["text"];
    CAPTURE(path.filename(), text);
    const std::vector<int32_t> ids = item["ids"];
    CHECK(tokenizer.encode(text, plain) == ids);
    CHECK(tokenizer.decode(ids) == item["decoded"].get<std::string>());
  }
  for (const auto& item : golden.value("decodings", nlohmann::json::array())) {
    const std::vector<int32_t> ids = item["ids"];
    CAPTURE(path.filename(), ids);
    CHECK(tokenizer.decode(ids) == item["decoded"].get<std::string>());
  }
}

// The vocabulary as a GGUF stores it: pieces, scores, types and ids, without the normalizer's
// rules.
inline skald::Vocabulary as_gguf_holds_it(const skald::Vocabulary& v) {
  skald::Vocabulary out;
  out.source = "test.gguf";
  out.unigram = v.unigram;
  out.pieces = v.pieces;
  out.scores = v.scores;
  out.types = v.types;
  out.bos = v.bos;
  out.eos = v.eos;
  out.unk = v.unk;
  out.add_space_prefix = v.add_space_prefix;
  out.remove_extra_whitespaces = v.remove_extra_whitespaces;
  return out;
}

// Random ids, with many bytes, control tokens and spaces.
inline std::vector<int32_t> random_ids(const Tokenizer& t, std::mt19937& random) {
  std::vector<int32_t> ids(random() % 20);
  const uint32_t size = static_cast<uint32_t>(t.vocab_size());
  const int32_t space = t.find("\xE2\x96\x81");
  for (int32_t& id : ids) {
    const uint32_t pick = random() % 8;
    id = static_cast<int32_t>(random() % (pick < 4 ? std::min(size, 270u) : size));
    if (pick == 7 && space >= 0) id = space;
  }
  return ids;
}

}  // namespace skald::test
