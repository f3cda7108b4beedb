// Encodes a conversation. Control tokens that the template writes become control tokens. The same
// text inside a message remains text, so nobody can end a turn or speak for another role by writing
// "</s>" into a message.
#pragma once

#include <cstdint>
#include <vector>

#include "tokenizer/chat/chat_template.h"
#include "tokenizer/text/tokenizer.h"

namespace skald {

// Begins with one BOS if the tokenizer adds it or the template writes it.
std::vector<int32_t> encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                 const Conversation& conversation,
                                 const jinja::RenderOptions& options = {});

}  // namespace skald
