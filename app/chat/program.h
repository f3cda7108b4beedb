// skald chat between its flags and its parts: takes messages and commands in turn, has the dialogue
// answered and shown, and keeps the session's file up to date. What the commands
// (app/chat/commands.h) act on.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/chat/dialogue.h"
#include "app/chat/screen.h"
#include "app/chat/session.h"
#include "app/chat/settings.h"
#include "app/terminal/line_source.h"
#include "engine/grammar/masks.h"

namespace skald {

// What to do when the context is full: Ask a person, else it is an error.
enum class ContextFull { Ask, Drop, Stop };

struct ChatParts {  // all of them outlive the program
  Dialogue& dialogue;
  ChatScreen& screen;
  LineSource& lines;
  const Tokenizer& tokenizer;
  const Executor& executor;
  TerminalMode* terminal;  // nullptr: in a pipe
  LineHistory* history;    // nullptr: none
  ChatSession* session;    // nullptr: none
  // What every answer is written by; nullptr: answers are free.
  std::shared_ptr<grammar::Masks> masks;
};

class ChatProgram {
 public:
  ChatProgram(const ChatParts& parts, ChatSettings settings);

  // Until the end of the input, /exit or a signal; the exit code. In a pipe the first Error ends
  // it, before a person it is said and forgotten.
  int run();

  std::vector<std::string> stops;
  ContextFull context_full = ContextFull::Ask;
  bool show_stats = false;

  // For the commands.
  Dialogue& dialogue() { return parts_.dialogue; }
  ChatScreen& screen() { return parts_.screen; }
  const Tokenizer& tokenizer() const { return parts_.tokenizer; }
  const Executor& executor() const { return parts_.executor; }
  ChatSettings settings;
  void attach(std::string text);  // goes before the next message
  const std::string& attached() const { return attached_; }
  void retry();
  void exit() { done_ = true; }
  void save();  // the session's messages, after they have changed
  std::string stats() const;

 private:
  int talk();
  void take(const std::string& line);
  void send(const std::string& message);
  void answer();
  bool may_drop(const Room& room);
  [[noreturn]] void fail_full(bool begun) const;
  bool interrupted();

  ChatParts parts_;
  std::string attached_;
  std::optional<Answer> last_;
  int64_t answers_ = 0, tokens_ = 0;  // in all
  bool done_ = false;
};

}  // namespace skald
