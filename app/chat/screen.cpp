#include "app/chat/screen.h"

#include <cstdio>

#include "app/files/input.h"

namespace skald {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

}  // namespace

ChatScreen::ChatScreen(ScreenOptions options) : options_(options), terminal_(out_.is_terminal()) {}

std::string ChatScreen::visible(std::string_view text) const {
  return for_terminal(options_.traits, printable_text(text));
}

bool ChatScreen::wraps() const {
  return options_.wrap && interactive() && !options_.raw && !options_.traits.dumb;
}

void ChatScreen::write(std::string_view text) {
  if (text.empty()) return;
  if (wraps()) {
    out_.write(wrap_.next(visible(text), terminal_columns()));
  } else {
    out_.write(!terminal_ || options_.raw ? text : visible(text));
  }
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

void ChatScreen::begin_answer() {
  wrap_.line_ended();  // by what the person typed
  thinking_.clear();
  preamble_.clear();
  shown_ = false;
  at_begin_ = true;
}

void ChatScreen::end_answer() {
  end_thinking();
  if (!shown_) write(preamble_);
  if (!shown_ && preamble_.empty()) line_open_ = true;  // an empty answer is a line too
  end_line();
  if (interactive()) write("\n");
}

void ChatScreen::end_thinking() {
  if (!hiding_) return;
  hiding_ = false;
  write(", /thinking shows it]\n");
  set_dim(false);
}

// A blank line stands between two messages of an answer.
void ChatScreen::begin_message(const AnswerPart& part) {
  if (part.kind == AnswerPart::Kind::Thinking && !thinking_.empty()) thinking_ += "\n\n";
  if (part.kind == AnswerPart::Kind::Preamble && !preamble_.empty()) preamble_ += "\n\n";
  if (at_begin_ || !is_shown(part)) return;
  end_line();
  write("\n");
  at_begin_ = true;
}

// In a pipe, what a reader of the answer wants: messages of thinking and preambles are left out.
bool ChatScreen::is_shown(const AnswerPart& part) const {
  return terminal_ || !part.channel || part.kind == AnswerPart::Kind::Answer ||
         part.kind == AnswerPart::Kind::ToolCall;
}

void ChatScreen::answer(const AnswerPart& part) {
  const bool thinking = part.kind == AnswerPart::Kind::Thinking;
  if (part.begins) begin_message(part);
  if (thinking) thinking_ += part.text;
  if (part.kind == AnswerPart::Kind::Preamble) preamble_ += part.text;
  if (!is_shown(part)) return;
  if (thinking && options_.hide_thinking) {
    if (!interactive() || hiding_) return;
    set_dim(true);
    write("[thinking");
    hiding_ = shown_ = true;
    return;
  }
  end_thinking();
  std::string_view text = part.text;
  if (at_begin_) {  // many models begin an answer with a space or a newline
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  }
  if (text.empty()) return;
  shown_ = true;
  at_begin_ = false;
  set_dim(thinking);
  write(text);
}

void ChatScreen::put_line(std::string_view text, bool dim) {
  end_line();
  if (!interactive()) {
    std::fprintf(stderr, "%s%s", printable_text(text).c_str(), text.ends_with('\n') ? "" : "\n");
    return;
  }
  set_dim(dim);
  out_.write(wraps() ? wrapped(visible(text), terminal_columns()) : visible(text));
  set_dim(false);
  if (!text.ends_with('\n')) out_.write("\n");
}

void ChatScreen::say(std::string_view text) { put_line(text, false); }
void ChatScreen::say_dimmed(std::string_view text) { put_line(text, true); }
void ChatScreen::notice(std::string_view text) { say("skald: " + std::string(text)); }

}  // namespace skald
