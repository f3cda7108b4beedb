// The parts of a tokenizer.json, each from its JSON into the BpeVocabulary. For hf_tokenizer.cpp.
#pragma once

#include "tokenizer/bpe/bpe.h"
#include "tokenizer/text/json_value.h"

namespace skald {

void read_hf_normalizer(const JsonPlace& json, Normalizer& out);

// Returns whether the parts' bytes are what is merged (a ByteLevel is there).
bool read_hf_pre_tokenizer(const JsonPlace& json, PreTokenizer& out);

// Returns whether it is the byte-level one.
bool read_hf_decoder(const JsonPlace& json, BpeDecoder& out);

// The tokens that a template puts around a text, by name; "" for none.
struct HfTemplate {
  std::string before, after;
};
HfTemplate read_hf_post_processor(const JsonPlace& json);

[[noreturn]] void unknown_hf_part(const JsonPlace& json, std::string_view type);

}  // namespace skald
