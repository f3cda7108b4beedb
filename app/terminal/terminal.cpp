#include "app/terminal/terminal.h"

#include <langinfo.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <climits>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cwchar>

#include "app/files/signals.h"
#include "tokenizer/text/utf8.h"

namespace skald {
namespace {

termios first_mode = {};
volatile sig_atomic_t mode_is_known = 0;

// Ends bracketed paste and dim letters, which are not part of the terminal's mode.
constexpr std::string_view kResetTerminal = "\x1b[?2004l\x1b[0m";
bool plain_needed = false;

void restore() {
  if (!mode_is_known) return;
  tcsetattr(STDIN_FILENO, TCSANOW, &first_mode);
  if (plain_needed && write(STDOUT_FILENO, kResetTerminal.data(), kResetTerminal.size()) < 0)
    return;
}

int window_columns(int fd) {
  winsize size = {};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value && *value;
}

}  // namespace

TerminalTraits find_terminal_traits() {
  TerminalTraits traits;
  const char* term = std::getenv("TERM");
  traits.dumb = !term || !*term || std::string_view(term) == "dumb";
  traits.colour = !traits.dumb && !is_set("NO_COLOR");
  const bool named = is_set("LC_ALL") || is_set("LC_CTYPE") || is_set("LANG");
  if (!named || !std::setlocale(LC_CTYPE, "")) std::setlocale(LC_CTYPE, "C.UTF-8");
  traits.utf8 = std::string_view(nl_langinfo(CODESET)) == "UTF-8";
  plain_needed = !traits.dumb;
  return traits;
}

std::string for_terminal(const TerminalTraits& traits, std::string_view utf8) {
  if (traits.utf8) return std::string(utf8);
  std::string out;
  while (!utf8.empty()) {
    const std::string_view character = utf8.substr(0, std::max<size_t>(utf8_length(utf8), 1));
    utf8.remove_prefix(character.size());
    if (character.size() == 1) {
      out += character;
      continue;
    }
    const char32_t code = utf8_code_point(character);
    char bytes[MB_LEN_MAX];
    std::mbstate_t state = {};
    const size_t length = std::wcrtomb(bytes, static_cast<wchar_t>(code), &state);
    if (length != static_cast<size_t>(-1)) {
      out.append(bytes, length);
    } else {
      char escaped[16];
      std::snprintf(escaped, sizeof escaped, code > 0xffff ? "\\U%08x" : "\\u%04x",
                    static_cast<unsigned>(code));
      out += escaped;
    }
  }
  return out;
}

int terminal_columns() { return window_columns(STDOUT_FILENO); }
int stderr_columns() { return window_columns(STDERR_FILENO); }

TerminalMode::TerminalMode() {
  mode_is_known = tcgetattr(STDIN_FILENO, &first_mode) == 0;
  guard_terminal(restore);
}

TerminalMode::~TerminalMode() {
  restore();
  guard_terminal(nullptr);
  mode_is_known = 0;
}

void TerminalMode::hide_keys() {
  if (!mode_is_known) return;
  termios quiet = first_mode;
  quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO);
  quiet.c_cc[VEOF] = _POSIX_VDISABLE;
  tcsetattr(STDIN_FILENO, TCSADRAIN, &quiet);
}

void TerminalMode::show_keys() {
  if (mode_is_known) tcsetattr(STDIN_FILENO, TCSADRAIN, &first_mode);
}

void TerminalMode::suspend() {
  termios mode = {};
  const bool known = tcgetattr(STDIN_FILENO, &mode) == 0;
  restore();
  raise(SIGSTOP);
  if (known) tcsetattr(STDIN_FILENO, TCSADRAIN, &mode);
}

}  // namespace skald
