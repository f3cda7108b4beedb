#include "app/batch/sample_text.h"

#include <algorithm>
#include <utility>

namespace skald {

SampleText::SampleText(const SampleTextOptions& options) : options_(options) {
  if (!options.tokenizer) return;
  answer_.emplace(
      *options.tokenizer,
      AnswerTextOptions{.begin = options.begin,
                        .stops = *options.stops,
                        .channels = options.channels,
                        .tags = options.tags || may_call(),
                        .shown = may_call() ? options.syntax->shown() : std::vector<int32_t>(),
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
  read_answer();
  return false;
}

void SampleText::end(Ending ending) {
  if (ended_) return;
  ended_ = true;
  stopped_ = ending == Ending::Stop;
  if (!answer_) return;
  answer_->end();
  stopped_ |= answer_->stopped();
  read_answer();
}

// Calls stand behind the thinking, which stays content unless it is separated.
void SampleText::read_answer() {
  if (!may_call() || answer_->in_channels()) return;
  read_ = read_calls(options_.tags ? answer_->content() : answer_->answer(),
                     *options_.syntax->format(), *options_.tools);
  if (!options_.tags) read_->content.insert(0, answer_->thinking());
}

std::string SampleText::text() const {
  if (read_) return read_->content;
  return answer_ ? answer_->content() : "";
}

std::string SampleText::reasoning() const {
  if (!answer_ || (read_ && !options_.tags)) return "";
  return answer_->reasoning();
}

std::span<const ToolCall> SampleText::calls() const {
  if (read_) return read_->calls;
  return answer_ ? std::span<const ToolCall>(answer_->calls()) : std::span<const ToolCall>();
}

std::string_view SampleText::finish_reason() const {
  if (!stopped_) return "length";
  return calls().empty() ? "stop" : "tool_calls";
}

}  // namespace skald
