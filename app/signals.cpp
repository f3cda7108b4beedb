#include "app/signals.h"

#include <signal.h>
#include <unistd.h>

#include <string_view>

#include "engine/error.h"

namespace skald {
namespace {

volatile sig_atomic_t stop_signal = 0;

void on_stop(int signal) {
  if (stop_signal != 0) _exit(128 + signal);
  stop_signal = signal;
}

// A mapped model file that another program cuts short cannot be read any more.
void on_bus_error(int) {
  constexpr std::string_view kMessage =
      "skald: error: a model file was truncated while it was in use; copy it again\n";
  if (write(STDERR_FILENO, kMessage.data(), kMessage.size()) < 0) _exit(1);
  _exit(static_cast<int>(Exit::Model));
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigaction(signal, &action, nullptr);
}

}  // namespace

void install_signal_handlers() {
  handle(SIGINT, on_stop);
  handle(SIGTERM, on_stop);
  handle(SIGBUS, on_bus_error);
  handle(SIGPIPE, SIG_IGN);  // write() reports these two instead
  handle(SIGXFSZ, SIG_IGN);
}

int interrupted_by() { return stop_signal; }

}  // namespace skald
