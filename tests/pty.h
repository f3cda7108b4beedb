// Runs the built program on a pseudo-terminal, as a person meets it: stdin, stdout and stderr are
// the terminal. Type "\x03" for Ctrl-C, "\x04" for Ctrl-D. The terminal's output contains the typed
// keys, and its lines end in "\r\n".
#pragma once

#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "tests/process.h"

namespace skald::test {

// A dialogue: type keys, wait for output, type again. The destructor kills the program.
class Terminal {
 public:
  // Uses the invocation's arguments, environment and time limit alone.
  explicit Terminal(const Invocation& invocation, int columns = 80, int rows = 24)
      : limit_(invocation.seconds) {
    fd_ = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (fd_ < 0 || ::grantpt(fd_) || ::unlockpt(fd_)) throw std::runtime_error("no terminal");
    resize(columns, rows);
    const std::string name = ::ptsname(fd_);
    child_ = ::fork();
    if (child_ != 0) return;
    ::setsid();
    const int tty = ::open(name.c_str(), O_RDWR);
    ::ioctl(tty, TIOCSCTTY, 0);
    ::dup2(tty, 0), ::dup2(tty, 1), ::dup2(tty, 2);
    if (tty > 2) ::close(tty);
    exec_program(invocation);
  }
  ~Terminal() {
    if (child_ > 0) ::kill(child_, SIGKILL), ::waitpid(child_, nullptr, 0);
    ::close(fd_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(std::string_view keys) { write_all(fd_, keys); }

  // True once `text` appears behind the text of the last successful wait.
  bool wait_for(std::string_view text, double seconds = 20) {
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    while (true) {
      const size_t at = shown_.find(text, seen_);
      if (at != std::string::npos) {
        seen_ = at + text.size();
        return true;
      }
      if (closed_ || Clock::now() > end) return false;
      read_some();
    }
  }

  void resize(int columns, int rows = 24) {  // sends SIGWINCH to the program
    const winsize size = {static_cast<unsigned short>(rows), static_cast<unsigned short>(columns),
                          0, 0};
    ::ioctl(fd_, TIOCSWINSZ, &size);
  }

  termios mode() const {  // the terminal's settings, also after the program's end
    termios mode = {};
    ::tcgetattr(fd_, &mode);
    return mode;
  }

  const std::string& shown() const { return shown_; }
  pid_t process() const { return child_; }

  // Waits for the program's end. Outcome::out is everything that the terminal showed.
  Outcome finish() {
    while (!closed_) read_some();
    Outcome outcome;
    int status = 0;
    ::waitpid(std::exchange(child_, -1), &status, 0);
    outcome.out = shown_;
    if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
    return outcome;
  }

 private:
  using Clock = std::chrono::steady_clock;

  void read_some() {
    if (Clock::now() - start_ > std::chrono::duration<double>(limit_)) ::kill(child_, SIGKILL);
    pollfd ready = {fd_, POLLIN, 0};
    if (::poll(&ready, 1, 50) == 0) return;
    char part[4096];
    const ssize_t count = ::read(fd_, part, sizeof part);
    closed_ = count <= 0;  // EIO once the program has closed its side
    if (count > 0) shown_.append(part, static_cast<size_t>(count));
  }

  int fd_ = -1;
  pid_t child_ = -1;
  double limit_;
  Clock::time_point start_ = Clock::now();
  std::string shown_;
  size_t seen_ = 0;
  bool closed_ = false;
};

// Runs the program once; types `keys` after 0.3 seconds.
inline Outcome run_on_terminal(const std::vector<std::string>& arguments, int columns = 80,
                               const std::string& keys = "", double seconds = kHangs) {
  Invocation invocation{arguments, ""};
  invocation.seconds = seconds;
  Terminal terminal(invocation, columns);
  if (!keys.empty()) {
    ::usleep(300000);
    terminal.type(keys);
  }
  return terminal.finish();
}

}  // namespace skald::test
