// Compares two lists of ids by the text that they stand for. Equal texts may have different ids:
// the tokens that a model generated are often not the tokens that a tokenizer makes of the same
// text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tokenizer/text/tokenizer.h"

namespace skald {

struct CommonText {
  // The first a ids of one list and the first b of the other are the same text
  size_t a = 0, b = 0;
};

// The longest common prefix as text: byte by byte, and control token by control token.
CommonText common_text(const Tokenizer& tokenizer, std::span<const int32_t> a,
                       std::span<const int32_t> b);

}  // namespace skald
