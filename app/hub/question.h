// A question with the answers yes and no.
#pragma once

#include <string>

namespace skald {

bool can_ask();  // stdin and stderr are terminals

// Asks on stderr; Enter means yes. Throws Error(Exit::Interrupted) on Ctrl-C.
bool ask(const std::string& question);

}  // namespace skald
