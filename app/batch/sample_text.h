// One sample of a batch: the text of its tokens as they come, until something ends it. Without a
// tokenizer only the tokens are kept. Borrows tokenizer and settings; `prompt` is read by the
// constructor alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/generate/answer_text.h"
#include "app/tools/read_calls.h"
#include "app/tools/syntax.h"
#include "engine/schedule/generation.h"

namespace skald {

struct SampleTextOptions {
  const Tokenizer* tokenizer = nullptr;
  TextStream::Begin begin = TextStream::Begin::Continuation;
  const std::vector<std::string>* stops = nullptr;
  const std::vector<int32_t>* stop_ids = nullptr;
  bool channels = false, tags = false;  // AnswerTextOptions
  // The answer may have calls of `tools` in this syntax; nullptr: calls are not read.
  const ToolSyntax* syntax = nullptr;
  const Tools* tools = nullptr;
  std::span<const int32_t> prompt = {};
  bool keep_picks = false;  // for log-probabilities and ids; otherwise tokens are only counted
};

class SampleText {
 public:
  explicit SampleText(const SampleTextOptions& options);

  // Adds a token. False: the text has a stop string, and later tokens do not count.
  bool feed(Picked picked);
  void end(Ending ending);

  // Empty without a tokenizer.
  std::string text() const;
  std::string reasoning() const;
  std::span<const ToolCall> calls() const;

  // The model's template takes ids of calls that short_call_id() makes.
  bool short_call_ids() const { return may_call() && options_.syntax->format()->short_ids; }

  int64_t tokens() const { return tokens_; }
  const std::vector<Picked>& picks() const { return picks_; }
  bool ended() const { return ended_; }
  std::string_view finish_reason() const;  // "stop", "length", "tool_calls"

 private:
  bool may_call() const { return options_.syntax != nullptr; }
  void read_answer();

  SampleTextOptions options_;
  std::optional<AnswerText> answer_;
  std::optional<ReadAnswer> read_;  // the answer's calls, and what stands around them
  std::vector<Picked> picks_;
  int64_t tokens_ = 0;
  bool stopped_ = false, ended_ = false;
};

}  // namespace skald
