#include "app/hub/question.h"

#include <unistd.h>

#include <cstdio>

#include "app/files/signals.h"
#include "app/terminal/output.h"
#include "app/terminal/question.h"
#include "engine/base/error.h"

namespace skald {

bool can_ask() { return stdin_is_terminal() && stderr_is_terminal(); }

bool ask(const std::string& question) {
  while (true) {
    std::fprintf(stderr, "skald: %s [Y/n] ", question.c_str());
    std::string line;
    char c = '\0';
    while (c != '\n') {
      if (!wait_readable(STDIN_FILENO)) {
        std::fputc('\n', stderr);
        fail_interrupted("");
      }
      if (::read(STDIN_FILENO, &c, 1) <= 0) return false;  // the end of the input is no yes
      if (c != '\n') line += c;
    }
    if (const auto answer = yes_or_no(line, true)) return *answer;
  }
}

}  // namespace skald
