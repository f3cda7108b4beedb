// skald tokenize --check: compares skald's token ids with those of another tokenizer.
#pragma once

#include <string>

#include "tokenizer/text/tokenizer.h"

namespace skald {

// `file` ("-": stdin) has lines {"text": "...", "ids": [...]}; other members are ignored. Prints
// the first texts whose ids differ and the number of differing texts. Returns exit code 1 if any
// differ.
int check_ids(const std::string& file, const Tokenizer& tokenizer, const EncodeOptions& options);

}  // namespace skald
