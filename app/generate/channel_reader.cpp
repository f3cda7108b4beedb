#include "app/generate/channel_reader.h"

#include <algorithm>
#include <string_view>

#include "tokenizer/chat/channels.h"

namespace skald {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

// Returns the recipient of a message: in "commentary to=functions.weather json", it is
// "functions.weather".
std::string_view recipient(std::string_view header) {
  constexpr std::string_view kMark = "to=";
  for (size_t at = header.find(kMark); at != std::string_view::npos;
       at = header.find(kMark, at + 1)) {
    if (at > 0 && kSpace.find(header[at - 1]) == std::string_view::npos) continue;
    const std::string_view name = header.substr(at + kMark.size());
    return name.substr(0, name.find_first_of(kSpace));
  }
  return {};
}

std::string_view first_word(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  return text.substr(0, text.find_first_of(kSpace));
}

}  // namespace

bool ChannelReader::fits(const Tokenizer& tokenizer, std::span<const int32_t> prompt) {
  if (!has_channels(tokenizer)) return false;
  const int32_t start = channel_token(tokenizer, kMessageStart);
  return std::find(prompt.begin(), prompt.end(), start) != prompt.end();
}

ChannelReader::ChannelReader(const Tokenizer& tokenizer, std::span<const int32_t> prompt)
    : tokenizer_(tokenizer),
      start_(channel_token(tokenizer, kMessageStart)),
      channel_token_(channel_token(tokenizer, kChannel)),
      message_(channel_token(tokenizer, kMessageText)),
      end_(channel_token(tokenizer, kMessageEnd)),
      return_(channel_token(tokenizer, kAnswerEnd)),
      call_(channel_token(tokenizer, kCallEnd)) {
  const auto last = std::find(prompt.rbegin(), prompt.rend(), start_);
  const size_t behind = static_cast<size_t>(last - prompt.rbegin());
  for (const int32_t token : prompt.last(std::min(behind + 1, prompt.size()))) feed(token);
  controlled_ = place_ != Place::Role;
  if (!controlled_) role_.clear();
}

bool ChannelReader::begins_header(int32_t token) const {
  return token == start_ || token == channel_token_ || token == end_ || token == return_ ||
         token == call_;
}

bool ChannelReader::is_text(int32_t token) const {
  return in_message() && token != message_ && !begins_header(token);
}

void ChannelReader::feed(int32_t token) {
  if (is_text(token)) return;
  if (token == message_) {
    begin_message();
  } else if (begins_header(token)) {
    begin_header(token == channel_token_ ? Place::Channel : Place::Role);
  } else if (tokenizer_.is_control(token)) {  // <|constrain|>
    place_ = Place::ContentType;
  } else if (place_ != Place::ContentType) {
    (place_ == Place::Role ? role_ : channel_) += tokenizer_.piece_bytes(token);
  }
}

void ChannelReader::begin_header(Place place) {
  controlled_ = true;
  channel_.clear();
  if (place == Place::Role || place_ == Place::Message) role_.clear();
  place_ = place;
  kind_ = Kind::Answer;
  tool_.clear();
}

void ChannelReader::begin_message() {
  controlled_ = true;
  constexpr std::string_view kFunctions = "functions.";
  std::string_view to = recipient(channel_);
  if (to.empty()) to = recipient(role_);
  if (to.starts_with(kFunctions)) to.remove_prefix(kFunctions.size());
  const std::string_view name = first_word(channel_);
  kind_ = !to.empty()            ? Kind::ToolCall
          : name == "analysis"   ? Kind::Thinking
          : name == "commentary" ? Kind::Preamble
                                 : Kind::Answer;
  tool_ = to;
  place_ = Place::Message;
}

}  // namespace skald
