#include "app/chat/screen.h"

#include <cstdio>

#include "app/files/input.h"

namespace skald {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

}  // namespace

ChatScreen::ChatScreen(ScreenOptions options)
    : options_(std::move(options)), terminal_(out_.is_terminal()) {}

std::string ChatScreen::visible(std::string_view text) const {
  return for_terminal(options_.traits, printable_text(text));
}

void ChatScreen::write(std::string_view text) {
  if (text.empty()) return;
  out_.write(!terminal_ || options_.raw ? text : visible(text));
  line_open_ = !text.ends_with('\n');
}

void ChatScreen::set_dim(bool dim) {
  if (dim == dim_ || !terminal_ || !options_.traits.colour) return;
  out_.write(dim ? "\x1b[2m" : "\x1b[0m");
  dim_ = dim;
}

void ChatScreen::end_line() {
  set_dim(false);
  if (line_open_) write("\n");
}

void ChatScreen::begin_answer(std::string_view prompt) {
  splitter_.emplace(prompt);
  thinking_.clear();
  shown_ = false;
  at_begin_ = true;
}

void ChatScreen::answer(std::string_view piece) {
  for (const ThinkingPart& part : splitter_->feed(piece)) show(part);
}

void ChatScreen::end_answer() {
  for (const ThinkingPart& part : splitter_->flush()) show(part);
  end_thinking();
  if (!shown_) line_open_ = true;  // an empty answer is a line too
  end_line();
  if (interactive()) write("\n");
}

void ChatScreen::end_thinking() {
  if (!hiding_) return;
  hiding_ = false;
  write(", /thinking shows it]\n");
  set_dim(false);
}

void ChatScreen::show(const ThinkingPart& part) {
  if (part.thinking) thinking_ += part.text;
  if (part.thinking && options_.hide_thinking) {
    if (!interactive() || hiding_) return;
    set_dim(true);
    write("[thinking");
    hiding_ = shown_ = true;
    return;
  }
  end_thinking();
  std::string_view text = part.text;
  if (at_begin_) {  // many models begin an answer with a space or a newline
    text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  }
  if (text.empty()) return;
  shown_ = true;
  at_begin_ = false;
  set_dim(part.thinking);
  write(text);
}

void ChatScreen::put_line(std::string_view text, bool dim) {
  end_line();
  if (!interactive()) {
    std::fprintf(stderr, "%s%s", printable_text(text).c_str(), text.ends_with('\n') ? "" : "\n");
    return;
  }
  set_dim(dim);
  out_.write(visible(text));
  set_dim(false);
  if (!text.ends_with('\n')) out_.write("\n");
}

void ChatScreen::say(std::string_view text) { put_line(text, false); }
void ChatScreen::say_dimmed(std::string_view text) { put_line(text, true); }
void ChatScreen::notice(std::string_view text) { say("skald: " + std::string(text)); }

}  // namespace skald
