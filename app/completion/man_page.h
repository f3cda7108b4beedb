// Makes manual pages from skald's commands and flags: skald(1), skald-run(1) and so on.
#pragma once

#include <string>
#include <vector>

#include "app/completion/command_line.h"

namespace skald {

std::string man_page_name(const CommandData& command);  // "skald", "skald-run"

// Returns the page in troff. `commands` is the result of describe_program().
std::string man_page(const CommandData& command, const std::vector<CommandData>& commands);

}  // namespace skald
