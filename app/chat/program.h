// The loop of skald chat: reads messages and commands, lets the dialogue answer, shows answers, and
// keeps the session's file up to date. The commands (app/chat/commands.h) act on a ChatProgram.
#pragma once

#include <filesystem>
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

// What happens when the context is full. Ask: ask the person; without a person it is an error.
enum class ContextFull { Ask, Drop, Stop };

struct ChatParts {  // the references and pointers outlive the program
  Dialogue& dialogue;
  ChatScreen& screen;
  LineSource& lines;
  const Tokenizer& tokenizer;
  const Executor& executor;
  TerminalMode* terminal;  // nullptr: in a pipe
  LineHistory* history;    // nullptr: no history
  ChatSession* session;    // nullptr: no --session
  // The grammar of every answer; nullptr: answers are free.
  std::shared_ptr<grammar::Masks> masks;
};

class ChatProgram {
 public:
  ChatProgram(const ChatParts& parts, ChatSettings settings);

  // Runs until the end of the input, /exit or a signal, and returns the exit code. In a pipe the
  // first Error ends the program; for a person it is printed, and the dialogue goes on.
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
  void attach(const std::string& text);  // goes before the next message
  const std::string& attached() const { return attached_; }
  void retry();
  void exit() { done_ = true; }
  bool ask(const std::string& question, bool enter);  // yes or no; see app/terminal/question.h
  std::filesystem::path saved_to;                     // the last file of /save
  void save();                                        // saves the messages in the session's file
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
  std::optional<Answer> last_answer_;
  int64_t answers_ = 0, tokens_ = 0;  // in the whole run
  bool guesses_ended_ = false;        // the user has been notified
  bool done_ = false;
};

}  // namespace skald
