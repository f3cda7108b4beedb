// The hash that names a tokenizer in results. It covers the tokenizer's behaviour, not its file:
// every token's piece and kind, the special tokens and whether they are added, and the ids of two
// texts. One text is fixed (words, numbers, blanks, scripts, emoji, invalid UTF-8); the other has
// 512 pieces of the vocabulary, separated by spaces. Therefore the same vocabulary in a GGUF and in
// a folder has the same hash. Padding tokens count if the file has them.
#pragma once

#include <string>

#include "tokenizer/text/tokenizer.h"

namespace skald {

std::string tokenizer_hash(const Tokenizer& tokenizer);  // 64 hexadecimal digits

}  // namespace skald
