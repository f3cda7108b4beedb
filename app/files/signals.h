// Signals: Ctrl-C, closed pipes, and mapped files that vanish. The first SIGINT or SIGTERM sets a
// flag, so that a command can finish its line. A command that has not begun to end within a second
// is ended: what its files hold is whole at any moment. The second signal ends the program at once.
#pragma once

#include <string_view>

namespace skald {

void install_signal_handlers();
int interrupted_by();     // SIGINT or SIGTERM if one came, else 0
void forget_interrupt();  // the next signal counts as the first

// The command ends and saves what it has, however long that takes. A signal from now on only sets
// the flag, as long as it is the first.
void take_time_to_end();

// Between two looks at whether a signal came, where nothing wakes the program.
inline constexpr int kPollMilliseconds = 100;

// Throws Error with the exit code of the signal: "interrupted while reading a.txt".
[[noreturn]] void fail_interrupted(std::string_view doing);

// Waits until fd has bytes or has ended. False: a signal came first. No signal is lost, whichever
// thread it came to.
bool wait_readable(int fd);

// For a command that changes the terminal's mode. `restore` runs before a signal ends the program;
// it must be async-signal-safe. Until guard_terminal(nullptr), Ctrl-Z and a change of the window
// only set flags, for take_suspended() and take_resized(), and Ctrl-C ends no command, since a
// person there ends an answer with it.
void guard_terminal(void (*restore)());
bool take_suspended();  // whether Ctrl-Z came since the last call
bool take_resized();    // whether the window changed since the last call

}  // namespace skald
