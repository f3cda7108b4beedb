// The flags for commands that may guess tokens (engine/speculate).
#pragma once

#include <string>

#include "engine/schedule/session.h"

namespace skald {

class Command;

struct GuessFlags {
  std::string by = "off";
  int most = 7;  // guesses of a step
};

void add_guess_flags(Command& command, GuessFlags& flags);
void start_guessing(Session& session, const GuessFlags& flags);

// "12 steps guessed 40 tokens, of which 31 were right"; empty if there were none.
std::string guesses_text(const GuessCounts& counts);

}  // namespace skald
