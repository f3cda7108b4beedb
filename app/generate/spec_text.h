// The file of --spec-text: a text whose pieces answers may repeat.
#pragma once

#include <memory>

#include "app/generate/guess_flags.h"
#include "engine/speculate/ngram.h"
#include "tokenizer/text/tokenizer.h"

namespace skald {

// The file's tokens, which n-gram guesses search; nullptr: the flags name no file, or guess by
// something else. `tokenizer` is nullptr for a model without one. Throws Error(Exit::Usage) for a
// file that is no text.
std::shared_ptr<const NgramText> read_spec_text(const GuessFlags& flags,
                                                const Tokenizer* tokenizer);

}  // namespace skald
