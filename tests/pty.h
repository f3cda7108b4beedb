// Runs the built program on a pseudo-terminal, as a person meets it: stdin, stdout and stderr are
// the terminal.
#pragma once

#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "tests/process.h"

namespace skald::test {

// `keys` are typed after a moment; "\x03" is Ctrl-C, "\x04" ends stdin. What the terminal shows,
// keys included, is in Outcome::out, with "\r\n" for line ends.
inline Outcome run_on_terminal(const std::vector<std::string>& arguments, int columns = 80,
                               const std::string& keys = "", double seconds = 60) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0 || ::grantpt(terminal) || ::unlockpt(terminal)) {
    throw std::runtime_error("no pseudo-terminal");
  }
  const winsize size = {24, static_cast<unsigned short>(columns), 0, 0};
  ::ioctl(terminal, TIOCSWINSZ, &size);
  const std::string name = ::ptsname(terminal);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    const int tty = ::open(name.c_str(), O_RDWR);
    ::ioctl(tty, TIOCSCTTY, 0);
    ::dup2(tty, 0), ::dup2(tty, 1), ::dup2(tty, 2);
    exec_program({arguments, ""});
  }
  Outcome outcome;
  const auto start = std::chrono::steady_clock::now();
  bool typed = keys.empty();
  while (true) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (elapsed.count() > seconds) ::kill(child, SIGKILL);
    if (!typed && elapsed.count() > 0.3) {
      write_all(terminal, keys);
      typed = true;
    }
    pollfd ready = {terminal, POLLIN, 0};
    if (::poll(&ready, 1, 100) == 0) continue;
    char part[4096];
    const ssize_t count = ::read(terminal, part, sizeof part);
    if (count <= 0) break;  // EIO once the program has closed its side
    outcome.out.append(part, static_cast<size_t>(count));
  }
  ::close(terminal);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  return outcome;
}

}  // namespace skald::test
