// Signals: Ctrl-C, closed pipes, and mapped files that vanish. The first SIGINT or SIGTERM only
// sets a flag, so that a command can finish its line. The second one ends the program at once.
#pragma once

namespace skald {

void install_signal_handlers();
int interrupted_by();     // SIGINT or SIGTERM if one came, else 0
void forget_interrupt();  // the next signal counts as the first

// Waits until fd has bytes or has ended. False: a signal came first. No signal is lost, whichever
// thread it came to.
bool wait_readable(int fd);

// For a command that changes the terminal's mode. `restore` runs before a signal ends the program;
// it must be async-signal-safe. Until guard_terminal(nullptr), Ctrl-Z and a change of the window
// only set flags, for take_suspended() and take_resized().
void guard_terminal(void (*restore)());
bool take_suspended();  // whether Ctrl-Z came since the last call
bool take_resized();    // whether the window changed since the last call

}  // namespace skald
