#include "app/batch/sample_text.h"

#include <algorithm>
#include <utility>

namespace skald {

SampleText::SampleText(const SampleTextOptions& options) : options_(options) {
  if (!options.tokenizer) return;
  answer_.emplace(*options.tokenizer, AnswerTextOptions{.begin = options.begin,
                                                        .stops = *options.stops,
                                                        .channels = options.channels,
                                                        .tags = options.tags,
                                                        .prompt = options.prompt});
}

bool SampleText::feed(Picked picked) {
  if (ended_) return false;
  const int32_t token = picked.token;
  ++tokens_;
  if (options_.keep_picks) picks_.push_back(std::move(picked));
  const auto& ends = *options_.stop_ids;
  const bool ends_text = std::find(ends.begin(), ends.end(), token) != ends.end();
  if (!answer_ || ends_text) return true;
  answer_->feed(token);
  if (!answer_->stopped()) return true;
  stopped_ = ended_ = true;
  return false;
}

void SampleText::end(Ending ending) {
  if (ended_) return;
  ended_ = true;
  stopped_ = ending == Ending::Stop;
  if (!answer_) return;
  answer_->end();
  stopped_ |= answer_->stopped();
}

std::span<const ToolCall> SampleText::calls() const {
  return answer_ ? std::span<const ToolCall>(answer_->calls()) : std::span<const ToolCall>();
}

std::string_view SampleText::finish_reason() const {
  if (!stopped_) return "length";
  return calls().empty() ? "stop" : "tool_calls";
}

}  // namespace skald
