// The loop of every command that writes text: takes tokens from a session and gives their text,
// piece by piece, until something ends it. The session has the settings and, by feed(), the prompt;
// app/generate/answer_text.h has the text.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/generate/answer_text.h"
#include "engine/schedule/generation.h"
#include "engine/schedule/session.h"

namespace skald {

// Context: the context was full before the text had ended.
enum class FinishReason { Stop, Length, Context, Interrupted };
std::string_view name(FinishReason reason);  // "stop", "length", "context", "interrupted"

struct GenerateOptions {
  std::span<const int32_t> stop_ids;  // end the text, and add no text
  int64_t most_tokens = -1;           // -1: no limit
  TokenFilter* filter = nullptr;      // which tokens may come; the text stops when none may
  bool score_forced = false;          // the model is asked for tokens that the filter forces too

  // These may be empty.
  std::function<void(const AnswerPart&)> part;  // called with each part of the text
  std::function<void(const Picked&)> token;     // called for every token, before its text
  std::function<bool()> interrupted;            // asked before every step
  std::function<bool()> make_room;  // asked when the context is full; true: the session is shorter
                                    // now, and the text goes on
};

struct Generated {
  using Clock = std::chrono::steady_clock;

  FinishReason reason = FinishReason::Length;
  std::string stop;      // the stop string that was found, or ""
  int32_t stop_id = -1;  // the token that ended the text, or -1
  int64_t tokens = 0;    // new tokens, with the one that ended the text; all are in the session
  int64_t forced = 0;    // tokens among them for which the model was not asked
  Clock::time_point begin, first, last;  // the call, its first token and its last

  double prompt_seconds() const;     // to the first token
  double tokens_per_second() const;  // after the first token; 0: there was no second one
};

// `text` is new. Exceptions of `part` pass through; session and text then have all tokens that were
// picked.
Generated generate(Session& session, AnswerText& text, const GenerateOptions& options);

}  // namespace skald
