// Writes the tokenizer and the chat templates of a Hugging Face folder into a GGUF's head, and
// reads them back to see that texts get the same tokens.
#pragma once

#include <string>
#include <vector>

#include "models/files/gguf_head.h"
#include "models/open.h"

namespace skald {

// Returns what a user should know: what the file cannot say. Throws Error(Exit::Model) where a text
// would get other tokens. The head has its architecture and no tensors yet.
std::vector<std::string> put_tokenizer(const OpenedModel& folder, GgufHead& head);

}  // namespace skald
