// A tokenizer's hash: names it in results. It covers what a tokenizer does, not the file that it
// came from: every token's piece and kind, the special tokens and whether they are added, and the
// ids of a fixed text (words, numbers, blanks, scripts, emoji, bytes that are no UTF-8) and of 512
// pieces of the vocabulary, spaces between them. The same vocabulary in a GGUF and in a folder
// therefore has one hash; ids that a model pads its vocabulary with are in it as the file has them.
#pragma once

#include <string>

#include "tokenizer/text/tokenizer.h"

namespace skald {

std::string tokenizer_hash(const Tokenizer& tokenizer);  // 64 hexadecimal digits

}  // namespace skald
