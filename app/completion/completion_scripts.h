// Makes the completion scripts of bash, zsh and fish from skald's commands and flags.
#pragma once

#include <string>
#include <vector>

#include "app/completion/command_line.h"

namespace skald {

std::string bash_completion(const std::vector<CommandData>& commands);
std::string zsh_completion(const std::vector<CommandData>& commands);
std::string fish_completion(const std::vector<CommandData>& commands);

}  // namespace skald
