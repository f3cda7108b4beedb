// Cuts a long text so that its parts, tokenized one by one, give the ids of the whole text.
#pragma once

#include <cstddef>
#include <string_view>

#include "tokenizer/text/tokenizer.h"

namespace skald {

// Options for a part from the middle of a text: no BOS, no EOS, no prefix of a text's start.
EncodeOptions inside_text();

// Returns the length of a first part of `text`, as long as possible; 0 if there is no place to cut.
// At a place to cut, the tokenizer gives the same ids for the 256 bytes on each side, cut or not.
// Places between a letter and a blank are tried first, then before any blank, then between any two
// characters. A tokenizer could depend on more than 256 bytes; no published one is known to.
// Therefore a text of up to kWholeTextBytes is never cut (token_stream.h).
size_t cut_text(std::string_view text, const Tokenizer& tokenizer);

}  // namespace skald
