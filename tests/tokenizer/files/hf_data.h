// The tokenizer.json files of tests/data, and variants of them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tests/tokenizer/tokenizer_data.h"
#include "tokenizer/files/hf_tokenizer.h"

namespace skald::test {

using Json = nlohmann::json;

// `base` is "byte" or "spm".
inline Json hf_json(const std::string& base) {
  return Json::parse(read_bytes(tokenizer_data(base + ".tokenizer.json")));
}

inline std::unique_ptr<Tokenizer> make_hf(const Json& json, const HfTokenizerConfig& config = {}) {
  auto vocabulary = parse_hf_tokenizer(json.dump(), "tokenizer.json", config);
  REQUIRE(vocabulary);
  return make_bpe(std::move(*vocabulary));
}

inline EncodeOptions bare(bool parse_special) {
  EncodeOptions options;
  options.add_bos = options.add_eos = false;
  options.parse_special = parse_special;
  return options;
}

}  // namespace skald::test
