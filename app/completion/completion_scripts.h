// Scripts by which shells complete skald's command line, made from its options.
#pragma once

#include <string>
#include <vector>

#include "app/completion/command_line.h"

namespace skald {

std::string bash_completion(const std::vector<CommandData>& commands);
std::string zsh_completion(const std::vector<CommandData>& commands);
std::string fish_completion(const std::vector<CommandData>& commands);

}  // namespace skald
