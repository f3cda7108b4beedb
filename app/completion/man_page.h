// Manual pages, made from the options: skald(1), and skald-run(1) of each command.
#pragma once

#include <string>
#include <vector>

#include "app/completion/command_line.h"

namespace skald {

std::string man_page_name(const CommandData& command);  // "skald", "skald-run"

// In troff; `commands` are those of describe_program().
std::string man_page(const CommandData& command, const std::vector<CommandData>& commands);

}  // namespace skald
