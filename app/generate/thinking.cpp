#include "app/generate/thinking.h"

#include <algorithm>

namespace skald {
namespace {

constexpr ThinkingTags kTags[] = {
    {"<think>", "</think>"},
    {"<thinking>", "</thinking>"},
    {"<thought>", "</thought>"},
    {"<reasoning>", "</reasoning>"},
    {"<seed:think>", "</seed:think>"},
    {"[THINK]", "[/THINK]"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
    {"<|begin_of_thought|>", "<|end_of_thought|>"},
};

std::string_view trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kThinkingSpace), text.size()));
  return text.substr(0, text.find_last_not_of(kThinkingSpace) + 1);
}

// The number of bytes at the end of `text` that could begin `tag`.
size_t begun(std::string_view text, std::string_view tag) {
  size_t length = std::min(text.size(), tag.size() - 1);
  while (!text.ends_with(tag.substr(0, length))) --length;
  return length;
}

}  // namespace

ThinkingSplitter::ThinkingSplitter(std::string_view prompt) {
  if (const auto tags = open_tags(prompt)) {
    state_ = State::Thinking;
    end_tag_ = tags->end;
  }
}

// Appends the parts that are certain. False: the rest needs more text.
bool ThinkingSplitter::step(std::vector<ThinkingPart>& parts) {
  const auto put = [&](size_t length) {
    if (length == 0) return;
    parts.push_back({state_ == State::Thinking, pending_text_.substr(0, length)});
    pending_text_.erase(0, length);
  };
  if (state_ == State::Begin) {
    const size_t first = pending_text_.find_first_not_of(kThinkingSpace);
    if (first == std::string::npos) return false;
    const std::string_view text = std::string_view(pending_text_).substr(first);
    bool may_begin = false;
    for (const ThinkingTags& tags : kTags) {
      may_begin |= tags.begin.starts_with(text.substr(0, tags.begin.size()));
      if (!text.starts_with(tags.begin)) continue;
      state_ = State::Thinking;
      end_tag_ = tags.end;
      put(first + tags.begin.size());
      return true;
    }
    if (may_begin) return false;
    state_ = State::Answer;
  }
  if (state_ == State::Thinking) {
    const size_t end = pending_text_.find(end_tag_);
    if (end == std::string::npos) {
      put(pending_text_.size() - begun(pending_text_, end_tag_));
      return false;
    }
    put(end + end_tag_.size());
    state_ = State::Answer;
  }
  put(pending_text_.size());
  return false;
}

std::vector<ThinkingPart> ThinkingSplitter::feed(std::string_view piece) {
  pending_text_ += piece;
  std::vector<ThinkingPart> parts;
  while (step(parts)) {
  }
  return parts;
}

std::vector<ThinkingPart> ThinkingSplitter::flush() {
  std::vector<ThinkingPart> parts;
  if (!pending_text_.empty()) {
    parts.push_back({state_ == State::Thinking, std::move(pending_text_)});
  }
  pending_text_.clear();
  return parts;
}

std::optional<ThinkingTags> open_tags(std::string_view prompt) {
  prompt = prompt.substr(0, prompt.find_last_not_of(kThinkingSpace) + 1);
  for (const ThinkingTags& tags : kTags) {
    if (prompt.ends_with(tags.begin)) return tags;
  }
  return std::nullopt;
}

std::optional<ThinkingTags> tags_in(std::string_view chat_template) {
  for (const ThinkingTags& tags : kTags) {
    if (chat_template.find(tags.end) != std::string_view::npos) return tags;
  }
  return std::nullopt;
}

std::string_view without_tags(std::string_view thinking) {
  thinking = trimmed(thinking);
  for (const ThinkingTags& tags : kTags) {
    if (thinking.starts_with(tags.begin)) thinking.remove_prefix(tags.begin.size());
    if (thinking.ends_with(tags.end)) thinking.remove_suffix(tags.end.size());
  }
  return trimmed(thinking);
}

ThinkingTag thinking_tag(std::string_view piece) {
  for (const ThinkingTags& tags : kTags) {
    if (piece == tags.begin) return ThinkingTag::Begin;
    if (piece == tags.end) return ThinkingTag::End;
  }
  return ThinkingTag::None;
}

}  // namespace skald
