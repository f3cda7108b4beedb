// Asks a person who sits at a terminal.
#pragma once

#include <optional>
#include <string>

#include "app/terminal/line_source.h"

namespace skald {

// What a line answers: y and yes, n and no, in any case; an empty line means `enter`. Empty:
// neither.
std::optional<bool> yes_or_no(const std::string& line, bool enter);

// Shows the question with " [Y/n] " or " [y/N] ". Asks again until the line is an answer. Ctrl-C
// and the end of the input mean no.
bool ask_yes_no(LineSource& lines, const std::string& question, bool enter);

}  // namespace skald
