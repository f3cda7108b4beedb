// What has to be known of a grammar before an automaton is made of it.
#pragma once

#include <string>
#include <vector>

#include "engine/grammar/rules.h"

namespace skald::grammar {

struct Analysis {
  // Of nodes.
  std::vector<bool> can_end;   // some text of bytes is derived from it
  std::vector<bool> nullable;  // the empty text is
  std::vector<bool> fills;     // a text that is not empty is
  // Of rules.
  std::vector<bool> reached;         // from the root
  std::vector<bool> copied;          // small or called once, and free of recursion: no call needed
  std::vector<bool> left_recursive;  // may begin with itself, or stands between such rules
};

// Throws Error(Exit::Usage) when the root cannot end, or (without rules.drop_endless) any rule that
// it needs.
Analysis analyse(const Rules& rules);

}  // namespace skald::grammar
