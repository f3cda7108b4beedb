// skald tokenize --check: ids of a reference, compared with ours.
#pragma once

#include <string>

#include "tokenizer/text/tokenizer.h"

namespace skald {

// file ("-": stdin) has lines {"text": "...", "ids": [...]}; other members are welcome. Prints the
// first texts whose ids differ and how many do. The exit code: 1 for any.
int check_ids(const std::string& file, const Tokenizer& tokenizer, const EncodeOptions& options);

}  // namespace skald
