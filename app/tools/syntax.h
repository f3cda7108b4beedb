// A model's format of calls together with its tokenizer, where some marks are control tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/generate/thinking.h"
#include "app/tools/format.h"
#include "engine/grammar/rules.h"
#include "tokenizer/text/tokenizer.h"

namespace skald {

class ToolSyntax {
 public:
  // format() is nullptr if tool_format() does not know the template, or if the template is gpt-oss'
  // and the tokenizer lacks the tokens of gpt-oss' channels.
  ToolSyntax(const Tokenizer& tokenizer, std::string_view chat_template);

  const ToolFormat* format() const { return format_; }
  // The control tokens that belong to calls: AnswerTextOptions::shown.
  const std::vector<int32_t>& shown() const { return shown_; }
  // The tags between which the model may think before it answers.
  const std::optional<ThinkingTags>& thinking() const { return thinking_; }

  bool is_control(std::string_view piece) const;
  // What the format writes, as a grammar: text, but control tokens as tokens.
  grammar::NodeId literal(grammar::Rules& rules, std::string_view text) const;

 private:
  const ToolFormat* format_;
  std::optional<ThinkingTags> thinking_;
  std::vector<int32_t> shown_;
  std::vector<std::string> controls_;  // of calls and of thinking; longest first
};

}  // namespace skald
