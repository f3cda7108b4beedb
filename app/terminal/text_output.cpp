#include "app/terminal/text_output.h"

#include <signal.h>
#include <unistd.h>

#include "app/files/input.h"
#include "app/files/signals.h"

namespace skald {
namespace {

constexpr std::string_view kDim = "\x1b[2m", kPlain = "\x1b[0m";

void make_plain() {
  if (::write(STDOUT_FILENO, kPlain.data(), kPlain.size()) < 0) return;
}

// Gives the terminal its plain colour back, even if a second Ctrl-C ends the program in a prompt.
class PlainAtTheEnd {
 public:
  PlainAtTheEnd() { guard_terminal(make_plain); }
  ~PlainAtTheEnd() {
    guard_terminal(nullptr);
    if (take_suspended()) ::raise(SIGTSTP);
  }
};

}  // namespace

TextOutput::TextOutput(bool raw) : terminal_(out_.is_terminal()), raw_(raw) {
  if (terminal_) traits_ = find_terminal_traits();
}

void TextOutput::write(std::string_view text) {
  if (!terminal_ || raw_) return out_.write(text);
  out_.write(for_terminal(traits_, printable_text(text)));
}

void TextOutput::write_dimmed(std::string_view text) {
  if (!terminal_ || !traits_.colour) return write(text);
  const PlainAtTheEnd guard;
  out_.write(kDim);
  write(text);
  out_.write(kPlain);
}

}  // namespace skald
