// Converts a Vocabulary from a file to a LibraryModel that is safe for the sentencepiece library.
#pragma once

#include "tokenizer/sentencepiece/sentencepiece.h"
#include "tokenizer/sentencepiece/sentencepiece_model.h"

namespace skald {

// Checks the vocabulary and completes it in place: afterwards each piece has a type and a score,
// and unk is set. The pieces of the result have the same ids; one extra piece may follow them.
LibraryModel library_vocabulary(Vocabulary& vocabulary);

}  // namespace skald
