#include "app/generate/answer_text.h"

#include <algorithm>
#include <utility>

namespace skald {
namespace {

// Enough of a prompt's end to find a tag and the white space behind it.
std::string end_of(const Tokenizer& tokenizer, std::span<const int32_t> prompt) {
  constexpr size_t kTokens = 32;
  return tokenizer.decode(prompt.last(std::min(prompt.size(), kTokens)), /*show_control=*/true);
}

void append_message(std::string& text, std::string_view piece, bool begins) {
  if (begins && !text.empty()) text += "\n\n";
  text += piece;
}

}  // namespace

AnswerText::AnswerText(const Tokenizer& tokenizer, AnswerTextOptions options)
    : tokenizer_(tokenizer),
      stream_(std::in_place, tokenizer, options.begin),
      stops_(std::move(options.stops)),
      shown_(std::move(options.shown)) {
  if (options.channels && ChannelReader::fits(tokenizer, options.prompt)) {
    channels_.emplace(tokenizer, options.prompt);
    if (channels_->in_message()) begin_message();
  } else if (options.tags) {
    tags_.emplace(end_of(tokenizer, options.prompt));
  }
}

std::vector<AnswerPart> AnswerText::feed(int32_t token) {
  if (stopped()) return {};
  if (channels_) {
    feed_channels(token);
    return take_parts();
  }
  const ThinkingTag tag = tags_ && tokenizer_.is_control(token)
                              ? thinking_tag(tokenizer_.piece(token))
                              : ThinkingTag::None;
  if (tag == ThinkingTag::None) {
    std::string text = stream_->feed(token);
    if (std::find(shown_.begin(), shown_.end(), token) != shown_.end()) {
      text += tokenizer_.piece(token);
    }
    put(stops_.feed(std::move(text)));
    return take_parts();
  }
  flush_text();
  if (stopped()) return take_parts();
  put_tagged(tokenizer_.piece(token));
  if (tag == ThinkingTag::End) tagged_text_.clear();
  return take_parts();
}

void AnswerText::feed_channels(int32_t token) {
  if (channels_->is_text(token)) {
    const std::string piece = stream_->feed(token);
    if (channels_->kind() == AnswerPart::Kind::ToolCall) {
      arguments_ += piece;
    } else {
      put(stops_.feed(piece));
    }
    return;
  }
  if (channels_->in_message()) flush_text();
  if (stopped()) return;
  channels_->feed(token);
  if (channels_->in_message()) begin_message();
}

void AnswerText::begin_message() {
  stream_.emplace(tokenizer_, TextStream::Begin::Continuation);
  begins_ = true;
  has_final_ |= channels_->kind() == AnswerPart::Kind::Answer;
}

// Gives all text that is held back. Ends a tool call.
void AnswerText::flush_text() {
  if (channels_ && channels_->kind() == AnswerPart::Kind::ToolCall) {
    calls_.push_back({channels_->tool(), std::exchange(arguments_, {}) + stream_->flush()});
    put_part(AnswerPart::Kind::ToolCall, calls_.back().text());
    return;
  }
  put(stops_.feed(stream_->flush()));
  put(stops_.flush());
  stream_.emplace(tokenizer_, TextStream::Begin::Continuation);
  if (!stopped()) stops_.restart();
}

void AnswerText::put(std::string text) {
  if (text.empty()) return;
  if (tags_) {
    tagged_text_ += text;
    put_tagged(text);
  } else {
    put_part(channels_ ? channels_->kind() : AnswerPart::Kind::Answer, std::move(text));
  }
}

void AnswerText::put_tagged(std::string_view text) {
  for (ThinkingPart& part : tags_->feed(text)) {
    put_part(part.thinking ? AnswerPart::Kind::Thinking : AnswerPart::Kind::Answer,
             std::move(part.text));
  }
}

void AnswerText::put_part(AnswerPart::Kind kind, std::string text) {
  const bool begins = std::exchange(begins_, false);
  switch (kind) {
    case AnswerPart::Kind::Thinking:
      append_message(thinking_, text, begins);
      break;
    case AnswerPart::Kind::Preamble:
      append_message(preamble_, text, begins);
      break;
    case AnswerPart::Kind::Answer:
      append_message(text_, text, begins);
      break;
    case AnswerPart::Kind::ToolCall:
      break;
  }
  parts_.push_back({kind, std::move(text), channels_.has_value(), begins});
}

std::vector<AnswerPart> AnswerText::end() {
  if (stopped()) return {};
  if (!channels_ || channels_->in_message()) {
    flush_text();
  } else if (std::string text = channels_->text_without_channel(); !text.empty()) {
    put(stops_.feed(text));
    put(stops_.flush());
  }
  if (tags_) {
    for (ThinkingPart& part : tags_->flush()) {
      put_part(part.thinking ? AnswerPart::Kind::Thinking : AnswerPart::Kind::Answer,
               std::move(part.text));
    }
  }
  return take_parts();
}

std::vector<AnswerPart> AnswerText::take_parts() { return std::exchange(parts_, {}); }

std::string AnswerText::content() const {
  if (channels_) return has_final_ || preamble_.empty() ? text_ : preamble_;
  if (!tags_ || thinking_.empty()) return text_;
  return text_.substr(std::min(text_.find_first_not_of(kThinkingSpace), text_.size()));
}

std::string AnswerText::reasoning() const {
  return tags_ ? std::string(without_tags(thinking_)) : thinking_;
}

std::string AnswerText::kept() const {
  if (tags_) return tagged_text_;
  std::string text = content();
  for (const ToolCall& call : calls_) append_message(text, call.text(), true);
  return text;
}

}  // namespace skald
