// The ids of a conversation. What the template writes as control tokens becomes control tokens;
// the same text inside a message stays text, so that nobody can end a turn or speak for another
// role by writing "</s>" into a message.
#pragma once

#include <cstdint>
#include <vector>

#include "tokenizer/chat/chat_template.h"
#include "tokenizer/text/tokenizer.h"

namespace skald {

// Begins with BOS where the tokenizer asks for it or the template writes it, once in either case.
std::vector<int32_t> encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                 const Conversation& conversation,
                                 const jinja::RenderOptions& options = {});

}  // namespace skald
