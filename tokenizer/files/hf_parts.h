// Reads the parts of a tokenizer.json into a BpeVocabulary. For hf_tokenizer.cpp.
#pragma once

#include "tokenizer/bpe/bpe.h"
#include "tokenizer/text/json_value.h"

namespace skald {

void read_hf_normalizer(const JsonPlace& json, Normalizer& out);

// Returns true if BPE merges bytes (the pre-tokenizer contains ByteLevel).
bool read_hf_pre_tokenizer(const JsonPlace& json, PreTokenizer& out);

// Returns true for the byte-level decoder.
bool read_hf_decoder(const JsonPlace& json, BpeDecoder& out);

// The names of the tokens that a template puts before and after a text; "": none.
struct HfTemplate {
  std::string before, after;
};
HfTemplate read_hf_post_processor(const JsonPlace& json);

[[noreturn]] void unknown_hf_part(const JsonPlace& json, std::string_view type);

}  // namespace skald
