// A question before a download, on stderr: stdout may belong to a script that reads the answer of a
// model. Questions within chat: app/terminal/question.h.
#pragma once

#include <string>

namespace skald {

bool can_ask();  // stdin and stderr are terminals

// Asks on stderr; Enter means yes. Throws Error(Exit::Interrupted) on Ctrl-C.
bool ask(const std::string& question);

}  // namespace skald
