// A small byte-level BPE with the rules of Falcon's first generation, and what the references make
// of texts. Some of its merges join what the rules cut, so that a missing cut changes the tokens.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/bpe/byte_alphabet.h"
#include "tokenizer/text/utf8.h"

namespace skald::test {

// "A B C" → {"A", "B", "C"}
inline std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c == ' ') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

// The published tokenizer.json's steps.
inline nlohmann::json falcon_steps() {
  return nlohmann::json::parse(R"([
      {"type": "Punctuation", "behavior": "Contiguous"},
      {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
      {"type": "Digits", "individual_digits": false},
      {"type": "Split", "pattern": {"Regex": "[0-9][0-9][0-9]"}, "behavior": "Isolated",
       "invert": false}])");
}

inline const std::vector<std::string> kFalconMerges = {
    "Ġ 1", "1 2", "12 3", "123 4", "Ã ²", "Ġ a", "a .",  ". .",   ", Ġ",   "$ 1", "Ġ (", "' s",
    "Ġ Ġ", "â Ģ", "! âĢ", "âĢ ľ",  "Ù £", "â ¹", "â¹ ĥ", "Ġ â¹ĥ", "â¹ĥ !", "Ġ Â", "½ 1"};

// A tokenizer.json: an end token, 256 bytes, and what the merges make.
inline nlohmann::json falcon_json(const std::vector<std::string>& merges,
                                  const nlohmann::json& steps) {
  std::vector<std::string> pieces = {"<|endoftext|>"};
  for (int byte = 0; byte < 256; ++byte) {
    utf8_append(byte_character(static_cast<uint8_t>(byte)), pieces.emplace_back());
  }
  nlohmann::json pairs = nlohmann::json::array();
  for (const std::string& merge : merges) {
    const std::vector<std::string> pair = words_of(merge);
    pairs.push_back(pair);
    pieces.push_back(pair[0] + pair[1]);
  }
  nlohmann::json vocab = nlohmann::json::object();
  for (size_t id = 0; id < pieces.size(); ++id) vocab[pieces[id]] = id;
  return {{"added_tokens", {{{"id", 0}, {"content", pieces[0]}, {"special", true}}}},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", steps}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", pairs}}}};
}

// `folder`: the pieces that Hugging Face's tokenizers gives for the tokenizer.json; `gguf`: those
// of llama.cpp for a GGUF that names the rules "falcon". They differ because only the folder's
// rules cut digits off in the byte alphabet, where some bytes of other characters are digits, and
// because its table of punctuation is that of Unicode 8.
struct FalconCase {
  std::string text, folder, gguf;
};

inline const std::vector<FalconCase> kFalconCases = {
    {"a 12345 1 12 1234", "a Ġ 123 4 5 Ġ 1 Ġ 12 Ġ 123 4", "a Ġ 123 4 5 Ġ1 Ġ1 2 Ġ 123 4"},
    {"òò² a²3", "Ã ² Ã ² Â ² Ġa Â ² 3", "Ã² Ã² Â ² Ġa Â ² 3"},
    {"a ⹃! a⹃", "a Ġ â ¹ ĥ ! Ġa â ¹ ĥ", "a Ġ â¹ĥ! Ġa â¹ĥ"},
    {"a...a, a (a) $12", "a .. . a , Ġa Ġ ( a ) Ġ $ 12", ""},
    {"a's 'a's", "a ' s Ġ ' a ' s", ""},
    {"  a \n a  ", "Ġ Ġa Ġ Ċ Ġa ĠĠ", ""},
    {"!“a”!“", "!âĢ ľ a âĢ Ŀ !âĢ ľ", ""},
    {"٣٤1234", "Ù£ Ù ¤ 123 4", ""},
    {"½1234½ ½", "Â ½ 123 4 Â ½ ĠÂ ½", ""},
    {"1,234.5", "1 , 2 3 4 . 5", ""},
    {"\u00a01\u200312", "Â ł 1 âĢ ĥ 12", ""},
    {"a\t12a34", "a ĉ 12 a 3 4", ""},
    {"1234567 1234", "123 4 5 6 7 Ġ 123 4", ""},
};

}  // namespace skald::test
