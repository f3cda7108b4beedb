// Where a long text can be cut so that its parts, tokenized one by one, give the ids of the whole.
#pragma once

#include <cstddef>
#include <string_view>

#include "tokenizer/text/tokenizer.h"

namespace skald {

// For a part of a text that another part goes before or after.
EncodeOptions inside_text();

// The length of a first part of `text`, as long as possible; 0 where no place was found. It is a
// place before a blank after a letter, else before any blank, else between any two characters, at
// which the tokenizer gives the same ids for the 256 bytes on each side whether they are cut or
// not. Merges and patterns that look further than that are not known in any published tokenizer,
// but nothing excludes them: a text of up to kWholeTextBytes is never cut (token_stream.h).
size_t cut_text(std::string_view text, const Tokenizer& tokenizer);

}  // namespace skald
