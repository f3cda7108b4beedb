// One sample of a batch: the text of its tokens as they come, until something ends it. Without a
// tokenizer only the tokens are kept. Borrows tokenizer and settings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <optional>

#include "app/generate/stop_text.h"
#include "engine/schedule/generation.h"
#include "tokenizer/text/text_stream.h"

namespace skald {

struct SampleTextOptions {
  const Tokenizer* tokenizer = nullptr;
  TextStream::Begin begin = TextStream::Begin::Continuation;
  const std::vector<std::string>* stops = nullptr;
  const std::vector<int32_t>* stop_ids = nullptr;
  bool keep_picks = false;  // for log-probabilities and ids; otherwise tokens are only counted
};

class SampleText {
 public:
  explicit SampleText(const SampleTextOptions& options);

  // False: the text has a stop string, and later tokens do not count.
  bool feed(Picked picked);
  void end(Ending ending);

  const std::string& text() const { return text_; }
  int64_t tokens() const { return tokens_; }
  const std::vector<Picked>& picks() const { return picks_; }
  bool ended() const { return ended_; }
  std::string_view finish_reason() const { return stopped_ ? "stop" : "length"; }

 private:
  SampleTextOptions options_;
  std::optional<TextStream> stream_;
  std::optional<StopText> stop_;
  std::string text_;
  std::vector<Picked> picks_;
  int64_t tokens_ = 0;
  bool stopped_ = false, ended_ = false;
};

}  // namespace skald
