// The text of an answer from its tokens: in pieces for a reader, and whole. Finds stop strings, and
// separates thinking, answer and tool calls where the model marks them:
//   channels   gpt-oss' messages (app/generate/channel_reader.h); headers are no text
//   tags       thinking between <think> and </think> or similar tags (app/generate/thinking.h)
// Without such marks everything is the answer.
//
// A piece has whole characters, which cannot be part of a stop string. Text that is held back never
// crosses the border of a message or a tag. Stop strings are searched in each message of thinking
// or answer on its own, and not in the arguments of a tool call. One AnswerText is for one answer.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/generate/channel_reader.h"
#include "app/generate/stop_text.h"
#include "app/generate/thinking.h"
#include "tokenizer/text/text_stream.h"

namespace skald {

struct ToolCall {
  std::string name, arguments;  // as the model writes the arguments, usually JSON

  std::string text() const { return name + "(" + arguments + ")"; }
};

struct AnswerPart {
  using Kind = ChannelReader::Kind;

  Kind kind;
  std::string text;      // not empty; ToolCall: the whole call, as ToolCall::text()
  bool channel = false;  // the part of a message in a channel
  bool begins = false;   // channel: the first part of its message
};

struct AnswerTextOptions {
  TextStream::Begin begin = TextStream::Begin::Continuation;
  std::vector<std::string> stops;
  bool channels = false, tags = false;  // the marks to look for; channels come first
  std::vector<int32_t> shown = {};      // control tokens whose names are text of the answer
  std::span<const int32_t> prompt;      // for channels and tags; read by the constructor alone
};

class AnswerText {
 public:
  AnswerText(const Tokenizer& tokenizer, AnswerTextOptions options);  // borrows the tokenizer

  // A token that does not end the text. The result may be empty. Nothing comes after a stop string.
  std::vector<AnswerPart> feed(int32_t token);
  std::vector<AnswerPart> end();  // the rest; to be called once. It may have a stop string.

  bool stopped() const { return stops_.found(); }
  const std::string& stop() const { return stops_.stop(); }  // the one that was found

  // The answer alone. With channels: the final message, or the preambles (texts in the commentary
  // channel) if there is no final message.
  std::string content() const;
  std::string reasoning() const;  // without tags
  bool in_channels() const { return channels_.has_value(); }
  // With tags: both parts of the text as they were written, thinking with its tags.
  const std::string& thinking() const { return thinking_; }
  const std::string& answer() const { return text_; }
  const std::vector<ToolCall>& calls() const { return calls_; }

  // The message as a conversation keeps it. With channels: content and tool calls. With tags: the
  // whole text, because templates look for the tags; but tags that are control tokens would come
  // back as plain text, so such a thinking part is dropped.
  std::string kept() const;

 private:
  void feed_channels(int32_t token);
  void begin_message();
  void put(std::string text);
  void put_tagged(std::string_view text);
  void put_part(AnswerPart::Kind kind, std::string text);
  void flush_text();
  std::vector<AnswerPart> take_parts();

  const Tokenizer& tokenizer_;
  std::optional<TextStream> stream_;
  StopText stops_;
  std::optional<ChannelReader> channels_;
  std::optional<ThinkingSplitter> tags_;
  std::vector<int32_t> shown_;
  std::vector<AnswerPart> parts_;           // not returned yet
  std::string thinking_, preamble_, text_;  // text_: the answer
  std::string tagged_text_;                 // thinking and answer as they were written, with tags
  std::string arguments_;                   // of the tool call in progress
  std::vector<ToolCall> calls_;
  bool begins_ = false;     // the next part is the first one of its message
  bool has_final_ = false;  // a message of Kind::Answer has begun
};

}  // namespace skald
