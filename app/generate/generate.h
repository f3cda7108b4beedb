// Text from a session, piece by piece, until something ends it: the loop under every command that
// writes text. Prompt and settings are the session's; feed it first.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/schedule/generation.h"
#include "engine/schedule/session.h"
#include "tokenizer/text/text_stream.h"

namespace skald {

// Context: it is full, and at least one more token was wanted.
enum class FinishReason { Stop, Length, Context, Interrupted };
std::string_view name(FinishReason reason);  // "stop", "length", "context", "interrupted"

struct GenerateOptions {
  std::span<const int32_t> stop_ids;  // end the text; have no text of their own
  std::vector<std::string> stops;     // app/generate/stop_text.h
  int64_t most_tokens = -1;           // -1: no limit
  TextStream::Begin begin = TextStream::Begin::Continuation;

  TokenFilter* filter =
      nullptr;  // says which tokens may come, and when nothing can: the text stops

  // Called with whole characters, never empty, as soon as it is sure that they are text.
  std::function<void(std::string_view)> text;
  std::function<void(const Picked&)> token;  // may be empty; every token that is picked, before its
                                             // text
  std::function<bool()> interrupted;         // may be empty; asked before every step
  std::function<bool()> make_room;  // may be empty; asked when the context is full. True: it has
                                    // made the session shorter, and the text goes on
};

struct Generated {
  using Clock = std::chrono::steady_clock;

  FinishReason reason = FinishReason::Length;
  std::string stop;      // the stop string that was found; empty: none
  int32_t stop_id = -1;  // the token that ended the text; -1: none did
  int64_t tokens = 0;    // picked, the one that ended the text among them; all are in the session
  Clock::time_point begin, first, last;  // the call, its first token and its last

  double prompt_seconds() const;     // to the first token
  double tokens_per_second() const;  // of those after the first; 0: there were none
};

// What `text` throws passes through; the session then has what was picked until then.
Generated generate(Session& session, const Tokenizer& tokenizer, const GenerateOptions& options);

}  // namespace skald
