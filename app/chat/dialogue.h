// A dialogue with a model: its messages, and the session that holds the messages as tokens. Knows
// no terminal and no files; app/chat/program.h does.
//
// Before each answer the model's template renders all messages, and the result is compared with the
// tokens in the KV cache. The longest common prefix stays in the cache, and the rest is computed.
// So a turn costs only its own tokens, undoing and repeating cost nothing, and a template may
// rewrite earlier messages (many drop the thinking of earlier answers).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "app/generate/generate.h"
#include "engine/grammar/masks.h"
#include "engine/schedule/session.h"
#include "tokenizer/chat/chat_template.h"

namespace skald {

struct Message {
  std::string role, content;  // "system" (the first alone), "user", "assistant"
};

struct DialogueModel {  // the references outlive the dialogue
  Executor& executor;
  const Tokenizer& tokenizer;
  const ChatTemplate& chat_template;
  std::vector<int32_t> stop_ids;
  jinja::Dict variables;  // for the template, from --chat-template-kwargs
};

// The context that the next token needs: prompt, answer so far, and the token.
struct Room {
  int64_t needed = 0, context = 0;
  int drop = 0;              // the turns to drop, the oldest first, if `needed` is too much
  int64_t needed_after = 0;  // the context that is needed without these turns

  bool fits() const { return needed_after <= context; }
};

struct AnswerOptions {
  SamplingParams sampling;
  std::vector<std::string> stops;
  int64_t most_tokens = -1;                     // -1: no limit
  std::shared_ptr<grammar::Masks> masks;        // the grammar of the answer; nullptr: none
  std::function<void(const AnswerPart&)> part;  // the answer, as GenerateOptions::part
  std::function<bool()> interrupted;            // may be empty
  std::function<bool(const Room&)> drop_turns;  // asked when the context is full; empty: no
};

struct Answer {
  Generated generated;
  int64_t prompt = 0, reused = 0;  // tokens of the prompt; tokens of it that the cache had
};

class Dialogue {
 public:
  explicit Dialogue(DialogueModel model);

  const std::vector<Message>& messages() const { return messages_; }
  std::string_view system() const;  // the system message, or ""
  int turns() const;                // the number of the user's messages
  bool awaits_answer() const;       // the last message is the user's

  // If the template refuses the messages, set_system() and say() throw Error and change nothing.
  void set_system(std::string text);  // "": no system message
  void say(std::string text);         // only if !awaits_answer()
  bool undo();                        // drops the last turn; false: there is none
  bool take_back_answer();            // drops the last answer; false: there is none
  void clear();                       // drops all but the system message
  void replace(std::vector<Message> messages);

  // Answers the last message. If the answer is interrupted, or `part` throws, the text so far
  // becomes the answer; without a single token, the message still awaits its answer. A full context
  // ends the answer with FinishReason::Context, unless drop_turns makes room. Throws
  // Error(Exit::Failed) if the last message alone is too long.
  Answer answer(const AnswerOptions& options);

  std::string prompt() const;  // as the template writes it
  int64_t tokens() const;      // the length of the prompt

  // For saving the cache in a file. Call trim() first: it drops tokens that are no longer in the
  // messages.
  Session& session() { return session_; }
  const Session& session() const { return session_; }
  void trim();

 private:
  struct Plan {
    int64_t keep;               // how many of the session's tokens stay
    std::vector<int32_t> feed;  // the tokens to feed after them
    int64_t length() const { return keep + std::ssize(feed); }
  };

  Conversation conversation(const std::vector<Message>& messages) const;
  void check_renders(const std::vector<Message>& messages) const;
  std::vector<Message> without_oldest(int turns) const;
  Plan plan(int dropped_turns) const;  // how the session gets the tokens of the messages
  Room room() const;
  bool make_room(const AnswerOptions& options);

  DialogueModel model_;
  Session session_;
  std::vector<Message> messages_;
  std::vector<int32_t> answer_ids_;  // the tokens of the answer in progress
  int64_t answers_ = 0;              // answers begun; each has its own random numbers
};

}  // namespace skald
