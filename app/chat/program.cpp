#include "app/chat/program.h"

#include <signal.h>

#include <cctype>
#include <cstdio>
#include <optional>
#include <utility>

#include "app/chat/commands.h"
#include "app/files/signals.h"
#include "app/generate/guess_flags.h"
#include "app/terminal/question.h"
#include "engine/base/counted.h"
#include "engine/base/error.h"

namespace skald {
namespace {

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

bool is_command(std::string_view line) {
  return line.size() > 1 && line[0] == '/' &&
         (std::isalpha(static_cast<unsigned char>(line[1])) || line == "/?");
}

}  // namespace

ChatProgram::ChatProgram(const ChatParts& parts, ChatSettings s)
    : settings(std::move(s)), parts_(parts) {}

int ChatProgram::run() {
  if (interrupted_by()) return 128 + interrupted_by();  // while the model was loading
  const auto save_all = [&] {
    take_time_to_end();
    if (parts_.session) parts_.session->save(dialogue());
  };
  int code = 0;
  try {
    code = talk();
  } catch (...) {
    try {
      save_all();
    } catch (const Error&) {  // the first one is what matters
    }
    throw;
  }
  save_all();
  return code;
}

int ChatProgram::talk() {
  const bool person = screen().interactive();
  while (!done_) {
    if (interrupted_by() == SIGTERM || (interrupted_by() && !person)) return 128 + interrupted_by();
    forget_interrupt();
    std::string message;
    bool repaired = false;
    const auto got =
        read_message(parts_.lines, person ? "> " : "", person ? ". " : "", message, repaired);
    if (got == LineSource::Got::Interrupted) continue;
    if (got == LineSource::Got::End) break;
    if (repaired) screen().notice("bytes that are no UTF-8 were replaced by U+FFFD");
    if (is_blank(message)) continue;
    if (parts_.history) parts_.history->add(message);
    try {
      take(message);
    } catch (const Error& error) {
      if (!person || error.code() == Exit::Closed) throw;
      screen().notice(error.what());
    }
  }
  return 0;
}

void ChatProgram::take(const std::string& line) {
  if (is_command(line)) {
    run_chat_command(*this, line);
  } else {
    send(line);
  }
}

void ChatProgram::attach(const std::string& text) {
  if (!attached_.empty()) attached_ += "\n\n";
  attached_ += text;
}

void ChatProgram::send(const std::string& message) {
  if (dialogue().awaits_answer()) {
    fail(Exit::Failed,
         "the last message has no answer yet: /retry answers it, /undo takes it back");
  }
  dialogue().say(attached_.empty() ? message : attached_ + "\n\n" + message);
  attached_.clear();
  const auto take_back = [&] {
    if (dialogue().awaits_answer()) dialogue().undo();
  };
  try {
    answer();
  } catch (...) {
    take_back();
    throw;
  }
  take_back();
  save();
}

void ChatProgram::retry() {
  const std::vector<Message> before = dialogue().messages();
  if (!dialogue().take_back_answer()) fail(Exit::Failed, "there is no message to answer yet");
  const auto restore = [&] {
    if (dialogue().awaits_answer()) dialogue().replace(before);
  };
  try {
    answer();
  } catch (...) {
    restore();
    throw;
  }
  restore();
  save();
}

bool ChatProgram::interrupted() {
  if (parts_.terminal && take_suspended()) parts_.terminal->suspend();
  return interrupted_by() != 0;
}

void ChatProgram::answer() {
  AnswerOptions options;
  options.sampling = sampling_params(settings.sampling, executor().program().vocab());
  options.stops = stops;
  options.most_tokens = settings.most_tokens;
  options.masks = parts_.masks;
  options.part = [&](const AnswerPart& part) { screen().answer(part); };
  options.interrupted = [&] { return interrupted(); };
  options.drop_turns = [&](const Room& room) { return may_drop(room); };
  screen().begin_answer();
  const Answer answer = dialogue().answer(options);
  const bool begun = !dialogue().awaits_answer();
  if (begun) {
    screen().end_answer();
    last_answer_ = answer;
    ++answers_;
    tokens_ += answer.generated.tokens;
  }
  if (answer.generated.reason == FinishReason::Context) {
    if (!screen().interactive()) fail_full(begun);
    screen().notice(begun ? "the answer ends here: the context is full"
                          : "the message is taken back: the context is full; /clear and /undo make "
                            "room");
  }
  if (answer.generated.reason == FinishReason::Interrupted && screen().interactive()) {
    screen().say_dimmed(begun ? "[interrupted]" : "[interrupted: the message is taken back]");
  }
  const std::string ended_by = dialogue().session().guesses_ended_by();
  if (!ended_by.empty() && !std::exchange(guesses_ended_, true)) {
    screen().notice(concat("no tokens are guessed any more: ", ended_by));
  }
  if (show_stats && begun) screen().say_dimmed(stats());
}

void ChatProgram::fail_full(bool begun) const {
  fail(Exit::Failed, "the context of ", executor().context(), " tokens is full",
       begun ? ", the last answer is cut off" : "",
       context_full == ContextFull::Drop
           ? ", and there is no turn left to drop"
           : "; --context-full drop goes on without the oldest turns, -c asks for a larger one");
}

bool ChatProgram::may_drop(const Room& room) {
  const std::string full =
      concat("the context is full: ", room.needed, " tokens are needed, it holds ", room.context);
  const std::string count = room.drop == 1 ? "" : concat(room.drop, " ");
  const std::string turns =
      concat("the oldest ", count, "of ", counted(dialogue().turns(), "turn"));
  if (context_full == ContextFull::Drop) {
    screen().notice(concat(full, "; without ", turns, " it goes on"));
    return true;
  }
  if (context_full == ContextFull::Stop || !screen().interactive()) return false;
  screen().notice(full);
  return ask(concat("Drop ", turns, "?"), true);
}

bool ChatProgram::ask(const std::string& question, bool enter) {
  return ask_yes_no(parts_.lines, question, enter);
}

void ChatProgram::save() {
  if (parts_.session) parts_.session->save_messages(dialogue());
}

std::string ChatProgram::stats() const {
  if (!last_answer_) return "no answer yet";
  const Generated& generated = last_answer_->generated;
  char text[256];
  std::snprintf(
      text, sizeof text, "prompt of %s, %lld of them from the cache; first token after %.3f s; %s",
      counted(last_answer_->prompt, "token").c_str(), static_cast<long long>(last_answer_->reused),
      generated.prompt_seconds(), counted(generated.tokens, "new token").c_str());
  std::string line = text;
  if (generated.tokens > 1) {
    std::snprintf(text, sizeof text, ", %.1f tokens/s", generated.tokens_per_second());
    line += text;
  }
  const std::string guesses = guesses_text(parts_.dialogue.session().guesses());
  return guesses.empty() ? line : concat(line, "; so far ", guesses);
}

}  // namespace skald
