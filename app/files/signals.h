// Ctrl-C, closed pipes and vanished files. The first SIGINT or SIGTERM only sets a flag, so that a
// command can finish its line; the second ends the program at once.
#pragma once

namespace skald {

void install_signal_handlers();
int interrupted_by();     // SIGINT or SIGTERM once one came, else 0
void forget_interrupt();  // the next one is the first again

// Waits until something can be read from fd, or its end; false: a signal came first. None is lost,
// whichever thread got it.
bool wait_readable(int fd);

// For a command that has the terminal in another mode: `restore` runs before a signal ends the
// program and may do only what is async-signal-safe; Ctrl-Z and a change of the window are told
// instead of acted on. nullptr: back to normal.
void guard_terminal(void (*restore)());
bool take_suspended();  // Ctrl-Z came since the last call
bool take_resized();    // the window changed since the last call

}  // namespace skald
