#include "app/batch/sample_text.h"

#include <algorithm>
#include <utility>

namespace skald {

SampleText::SampleText(const SampleTextOptions& options) : options_(options) {
  if (!options.tokenizer) return;
  stream_.emplace(*options.tokenizer, options.begin);
  if (!options.stops->empty()) stop_.emplace(*options.stops);
}

bool SampleText::feed(Picked picked) {
  if (ended_) return false;
  const int32_t token = picked.token;
  ++tokens_;
  if (options_.keep_picks) picks_.push_back(std::move(picked));
  const auto& ends = *options_.stop_ids;
  const bool ends_text = std::find(ends.begin(), ends.end(), token) != ends.end();
  if (!stream_ || ends_text) return true;
  const std::string piece = stream_->feed(token);
  text_ += stop_ ? stop_->feed(piece) : piece;
  if (!stop_ || !stop_->found()) return true;
  stopped_ = ended_ = true;
  return false;
}

void SampleText::end(Ending ending) {
  if (ended_) return;
  ended_ = true;
  stopped_ = ending == Ending::Stop;
  if (!stream_) return;
  const std::string rest = stream_->flush();
  text_ += stop_ ? stop_->feed(rest) : rest;
  if (!stop_) return;
  stopped_ |= stop_->found();
  if (!stop_->found()) text_ += stop_->flush();
}

}  // namespace skald
