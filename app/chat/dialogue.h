// A dialogue with a model: its messages, and the session that holds them as tokens. No terminal
// and no files: app/chat/chat.cpp is the program around it.
//
// The messages are what counts. Before each answer they are rendered by the model's template and
// compared with what the cache holds: the cache keeps the longest beginning that says the same, the
// rest is computed. So a turn costs its own tokens; undoing and repeating cost nothing; and a
// template that rewrites what was said before (many drop the thinking of earlier answers) gets what
// it asks for.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "app/generate/generate.h"
#include "engine/schedule/session.h"
#include "tokenizer/chat/chat_template.h"

namespace skald {

struct Message {
  std::string role, content;  // "system" (the first alone), "user", "assistant"
};

struct DialogueModel {  // all of it outlives the dialogue
  Executor& executor;
  const Tokenizer& tokenizer;
  const ChatTemplate& chat_template;
  std::vector<int32_t> stop_ids;
  jinja::Dict variables;  // further ones for the template
};

// What the next token needs: the prompt, what is written of the answer, and one more.
struct Room {
  int64_t needed = 0, context = 0;
  int drop = 0;              // turns to drop, the oldest first, where that is too much
  int64_t needed_after = 0;  // without them

  bool fits() const { return needed_after <= context; }
};

struct AnswerOptions {
  SamplingParams sampling;
  std::vector<std::string> stops;
  int64_t most_tokens = -1;                     // -1: no limit
  TokenFilter* filter = nullptr;                // GenerateOptions::filter, new for each answer
  std::function<void(std::string_view)> text;   // the answer, as GenerateOptions::text
  std::function<bool()> interrupted;            // may be empty
  std::function<bool(const Room&)> drop_turns;  // asked when the context is full; empty: no
};

struct Answer {
  Generated generated;
  int64_t prompt = 0, reused = 0;  // tokens; of the prompt, those that the cache had
};

class Dialogue {
 public:
  explicit Dialogue(DialogueModel model);

  const std::vector<Message>& messages() const { return messages_; }
  std::string_view system() const;  // empty: none
  int turns() const;                // the user's messages
  bool awaits_answer() const;       // the last message is the user's

  // Throws Error, changing nothing, where the template refuses the result; so does say().
  void set_system(std::string text);  // empty: none
  void say(std::string text);         // !awaits_answer()
  bool undo();                        // the last turn; false: there is none
  bool take_back_answer();            // false: there is none
  void clear();                       // all but the system message
  void replace(std::vector<Message> messages);

  // Answers the last message. What was written stays, also where it was interrupted and where
  // `text` threw; without a single token the dialogue still awaits its answer. Context that is full
  // ends the answer as FinishReason::Context, unless drop_turns makes room. Throws
  // Error(Exit::Failed) where the last message alone is too long.
  Answer answer(const AnswerOptions& options);

  std::string prompt() const;  // as the template writes it
  int64_t tokens() const;      // of it

  // For keeping the cache in a file; before that, trim() makes it forget what is no longer said.
  Session& session() { return session_; }
  const Session& session() const { return session_; }
  void trim();

 private:
  struct Plan {
    int64_t keep;               // of the session's tokens
    std::vector<int32_t> feed;  // after them
    int64_t length() const { return keep + std::ssize(feed); }
  };

  Conversation conversation(const std::vector<Message>& messages) const;
  void check_renders(const std::vector<Message>& messages) const;
  std::vector<Message> without_oldest(int turns) const;
  Plan plan(int dropped_turns) const;  // to bring the session to what is said
  Room room() const;
  bool make_room(const AnswerOptions& options);

  DialogueModel model_;
  Session session_;
  std::vector<Message> messages_;
  std::vector<int32_t> answer_ids_;  // of the answer that is being written
  int64_t answers_ = 0;              // begun: each draws other random numbers
};

}  // namespace skald
