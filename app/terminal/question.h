// Asks a person who sits at a terminal.
#pragma once

#include <string>

#include "app/terminal/line_source.h"

namespace skald {

// Shows the question with " [Y/n] " or " [y/N] ": Enter alone means `enter`. Asks again until the
// line is y, yes, n or no, in any case. Ctrl-C and the end of the input mean no.
bool ask_yes_no(LineSource& lines, const std::string& question, bool enter);

}  // namespace skald
