// From the texts of a request to token ids.
#pragma once

#include <cstdint>
#include <vector>

#include "app/embed/choice.h"
#include "app/embed/request.h"
#include "tokenizer/text/tokenizer.h"

namespace skald {

// The ids of text `index`, with the prompt before it and the tokens that the tokenizer puts around
// every text. Ids that the line gives stay as they are. tokenizer: nullptr where the model has
// none. Throws LineError.
std::vector<int32_t> embed_ids(const EmbedRequest& request, size_t index,
                               const Tokenizer* tokenizer, const EmbedChoice& choice);

// Throws LineError where the model's vectors, of `dim` numbers, are shorter than the line asks for.
void check_dimensions(const EmbedRequest& request, int64_t dim);

}  // namespace skald
