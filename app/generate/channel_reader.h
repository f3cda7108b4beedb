// Follows the messages of an answer in gpt-oss' format (tokenizer/chat/channels.h), token by token:
// which message a token belongs to, and whether it is text of the message or of a header. A header
// names role, channel and recipient:
//   assistant<|channel|>commentary to=functions.weather <|constrain|>json<|message|>
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tokenizer/text/tokenizer.h"

namespace skald {

class ChannelReader {
 public:
  // True if the tokenizer has channels, and the prompt consists of messages as gpt-oss' template
  // writes them. The answer to a prompt of another template has no channels.
  static bool fits(const Tokenizer& tokenizer, std::span<const int32_t> prompt);

  // Requires fits(). Begins where the prompt ends, usually in the answer's first header. Borrows
  // the tokenizer.
  ChannelReader(const Tokenizer& tokenizer, std::span<const int32_t> prompt);

  // True if the token would be text of the message in progress. Any other token begins or continues
  // a header, or ends a header and begins a message.
  bool is_text(int32_t token) const;
  void feed(int32_t token);

  enum class Kind { Thinking, Preamble, Answer, ToolCall };  // as AnswerPart::Kind
  bool in_message() const { return place_ == Place::Message; }
  // kind() and tool() describe the message in progress. A channel without a name has the answer,
  // and so has one that is neither "analysis" nor "commentary".
  Kind kind() const { return kind_; }
  const std::string& tool() const { return tool_; }  // without "functions."

  // The text of an answer that has no channel until now, although the prompt asks for one.
  std::string text_without_channel() const { return controlled_ ? "" : role_; }

 private:
  enum class Place { Role, Channel, ContentType, Message };

  bool begins_header(int32_t token) const;
  void begin_header(Place place);
  void begin_message();

  const Tokenizer& tokenizer_;
  int32_t start_, channel_token_, message_, end_, return_, call_;
  Place place_ = Place::Message;
  std::string role_, channel_;  // the header's text so far
  Kind kind_ = Kind::Answer;
  std::string tool_;
  bool controlled_ = false;  // the answer has a token of this format
};

}  // namespace skald
