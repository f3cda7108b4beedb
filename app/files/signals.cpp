#include "app/files/signals.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string_view>

#include "engine/base/error.h"

namespace skald {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kPatienceMilliseconds = 30000;  // everything takes much longer
#else
constexpr int kPatienceMilliseconds = 800;
#endif

// Handlers write them, and any thread reads them.
static_assert(std::atomic<int>::is_always_lock_free &&
              std::atomic<void (*)()>::is_always_lock_free);
std::atomic<int> stop_signal = 0, ending = 0, suspended = 0, resized = 0;
std::atomic<void (*)()> restore_terminal = nullptr;

// Every handled signal writes a byte here, which wakes wait_readable() even if the signal came just
// before the call, or to another thread.
int wake_pipe[2] = {-1, -1};

// The code that a handler interrupts may be about to read errno.
struct KeepErrno {
  const int saved = errno;
  ~KeepErrno() { errno = saved; }
};

void wake() {
  if (write(wake_pipe[1], "", 1) < 0) return;  // a full pipe wakes the reader too
}

[[noreturn]] void end_at_once(int code) {
  if (const auto restore = restore_terminal.load()) restore();
  _exit(code);
}

void set_alarm(int milliseconds) {  // 0: none
  const itimerval time = {{}, {milliseconds / 1000, milliseconds % 1000 * 1000}};
  setitimer(ITIMER_REAL, &time, nullptr);
}

void on_stop(int signal) {
  const KeepErrno keep;
  if (stop_signal != 0) end_at_once(128 + signal);
  stop_signal = signal;
  if (!ending && !(restore_terminal && signal == SIGINT)) set_alarm(kPatienceMilliseconds);
  wake();
}

void on_alarm(int) {
  const KeepErrno keep;
  if (stop_signal == 0 || ending) return;
  constexpr std::string_view kMessage = "\nskald: interrupted\n";
  if (write(STDERR_FILENO, kMessage.data(), kMessage.size()) < 0) _exit(128 + stop_signal);
  end_at_once(128 + stop_signal);
}

// Another program has cut a mapped model file short, so that it cannot be read any more.
void on_bus_error(int) {
  constexpr std::string_view kMessage =
      "skald: error: a model file was truncated while it was in use; copy it again\n";
  if (write(STDERR_FILENO, kMessage.data(), kMessage.size()) < 0) _exit(1);
  end_at_once(static_cast<int>(Exit::Model));
}

void on_suspend(int) {
  const KeepErrno keep;
  suspended = 1;
  wake();
}

void on_resize(int) {
  const KeepErrno keep;
  resized = 1;
  wake();
}

void on_death(int signal) {  // SA_RESETHAND: raising it again ends the program
  if (const auto restore = restore_terminal.load()) restore();
  raise(signal);
}

void handle(int signal, void (*handler)(int), int flags = 0) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(signal, &action, nullptr);
}

bool take(std::atomic<int>& flag) { return flag.exchange(0) != 0; }

}  // namespace

void install_signal_handlers() {
  if (wake_pipe[0] < 0 && pipe2(wake_pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
    fail(Exit::Failed, "the system has no file descriptor left");
  }
  handle(SIGINT, on_stop);
  handle(SIGTERM, on_stop);
  handle(SIGALRM, on_alarm, SA_RESTART);
  handle(SIGBUS, on_bus_error);
  handle(SIGPIPE, SIG_IGN);  // write() reports these two instead
  handle(SIGXFSZ, SIG_IGN);
}

int interrupted_by() { return stop_signal; }

void forget_interrupt() {
  stop_signal = 0;
  set_alarm(0);
}

void take_time_to_end() {
  ending = 1;
  set_alarm(0);
}

void fail_interrupted(std::string_view doing) {
  const int stopped_by = stop_signal, signal = stopped_by != 0 ? stopped_by : SIGINT;
  const bool word = !doing.empty() && doing.front() != ';';
  fail(static_cast<Exit>(128 + signal), "interrupted", word ? " " : "", doing);
}

bool wait_readable(int fd) {
  pollfd ready[2] = {{fd, POLLIN, 0}, {wake_pipe[0], POLLIN, 0}};
  while (poll(ready, 2, -1) < 0) {
    if (errno != EINTR) return true;  // read() says what is wrong
  }
  if (ready[1].revents == 0) return true;
  char bytes[64];
  while (read(wake_pipe[0], bytes, sizeof bytes) > 0) {
  }
  return false;
}

void guard_terminal(void (*restore)()) {
  restore_terminal = restore;
  handle(SIGTSTP, restore ? on_suspend : SIG_DFL);
  handle(SIGWINCH, restore ? on_resize : SIG_DFL);
  for (const int signal : {SIGHUP, SIGQUIT, SIGABRT, SIGSEGV, SIGILL, SIGFPE}) {
    handle(signal, restore ? on_death : SIG_DFL, SA_RESETHAND | SA_NODEFER);
  }
}

bool take_suspended() { return take(suspended); }
bool take_resized() { return take(resized); }

}  // namespace skald
