// How far two lists of ids say the same. Ids may differ where texts do not: what a model wrote
// token by token is often not how a tokenizer would cut the same text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tokenizer/text/tokenizer.h"

namespace skald {

struct CommonText {
  size_t a = 0, b = 0;  // the first a ids of one and the first b of the other are the same text
};

// The longest beginnings that are the same text, byte for byte and control token for control token.
CommonText common_text(const Tokenizer& tokenizer, std::span<const int32_t> a,
                       std::span<const int32_t> b);

}  // namespace skald
