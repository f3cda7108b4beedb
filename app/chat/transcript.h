// A dialogue's messages as JSON, in the form that chat programs and `skald template` read:
// {"messages": [{"role": "user", "content": "Hi"}, …]}.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/chat/dialogue.h"

namespace skald {

std::string transcript(const std::vector<Message>& messages);

// Also a list alone. Contents are texts; a system message comes first, if at all. Throws
// Error(Exit::Failed) with `name` for anything else.
std::vector<Message> read_transcript(std::string_view json, const std::string& name);

}  // namespace skald
