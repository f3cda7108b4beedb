#include "app/terminal/question.h"

#include <signal.h>

#include <cctype>

#include "app/files/signals.h"

namespace skald {
namespace {

// Returns the line without spaces, in small letters.
std::string simplified(const std::string& line) {
  std::string text;
  for (const char c : line) {
    const auto byte = static_cast<unsigned char>(c);
    if (!std::isspace(byte)) text += static_cast<char>(std::tolower(byte));
  }
  return text;
}

}  // namespace

std::optional<bool> yes_or_no(const std::string& line, bool enter) {
  const std::string reply = simplified(line);
  if (reply.empty()) return enter;
  if (reply == "y" || reply == "yes") return true;
  if (reply == "n" || reply == "no") return false;
  return {};
}

bool ask_yes_no(LineSource& lines, const std::string& question, bool enter) {
  while (true) {
    std::string line;
    const auto got = lines.read(question + (enter ? " [Y/n] " : " [y/N] "), line);
    if (got == LineSource::Got::Interrupted && interrupted_by() == SIGINT) forget_interrupt();
    if (got != LineSource::Got::Line) return false;
    if (const auto answer = yes_or_no(line, enter)) return *answer;
  }
}

}  // namespace skald
