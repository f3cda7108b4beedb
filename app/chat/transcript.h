// A dialogue's messages as JSON, in the form of other chat programs and of `skald template`:
// {"messages": [{"role": "user", "content": "Hi"}, …]}.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/chat/dialogue.h"

namespace skald {

std::string transcript(const std::vector<Message>& messages);

// Reads the same form, or the list of messages alone. Contents must be strings; only the first
// message may have the role "system". Throws Error(Exit::Failed) with `name` for anything else.
std::vector<Message> read_transcript(std::string_view json, const std::string& name);

}  // namespace skald
