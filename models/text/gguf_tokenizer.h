// Writes the tokenizer and the chat templates of a Hugging Face folder into the head of a GGUF, and
// reads them back to check that texts get the same tokens.
#pragma once

#include <string>
#include <vector>

#include "models/files/gguf_head.h"
#include "models/open.h"

namespace skald {

// Returns notes for the user about what a GGUF cannot express. Throws Error(Exit::Model) if a text
// would get other tokens. `head` must contain the architecture, and no tensors yet.
std::vector<std::string> put_tokenizer(const OpenedModel& folder, GgufHead& head);

}  // namespace skald
