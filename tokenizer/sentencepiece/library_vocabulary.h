// From a Vocabulary as a file gives it to what the sentencepiece library can be trusted with.
#pragma once

#include "tokenizer/sentencepiece/sentencepiece.h"
#include "tokenizer/sentencepiece/sentencepiece_model.h"

namespace skald {

// Checks the vocabulary and completes it in place: types and scores are there for every piece, unk
// is known. The library's pieces have the same ids; one may come behind them.
LibraryModel library_vocabulary(Vocabulary& vocabulary);

}  // namespace skald
