// Ctrl-C, closed pipes and vanished files. The first SIGINT or SIGTERM only sets a flag, so that a
// command can finish its line; the second ends the program at once.
#pragma once

namespace skald {

void install_signal_handlers();
int interrupted_by();  // SIGINT or SIGTERM once one came, else 0

}  // namespace skald
