#include "app/tools/syntax.h"

#include <algorithm>

#include "tokenizer/chat/channels.h"

namespace skald {

ToolSyntax::ToolSyntax(const Tokenizer& tokenizer, std::string_view chat_template)
    : format_(tool_format(chat_template)), thinking_(tags_in(chat_template)) {
  const bool channels = format_ && format_->arguments == ToolFormat::Arguments::Channels;
  if (channels && !has_channels(tokenizer)) format_ = nullptr;
  if (!format_) return;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (!tokenizer.is_control(id)) continue;
    const std::string_view piece = tokenizer.piece(id);
    const bool of_calls = format_->writes(piece);
    if (of_calls && !channels) shown_.push_back(id);
    if (of_calls || channels || thinking_tag(piece) != ThinkingTag::None) {
      controls_.emplace_back(piece);
    }
  }
  std::sort(controls_.begin(), controls_.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() > b.size() : a < b;
  });
}

bool ToolSyntax::is_control(std::string_view piece) const {
  return std::find(controls_.begin(), controls_.end(), piece) != controls_.end();
}

grammar::NodeId ToolSyntax::literal(grammar::Rules& rules, std::string_view text) const {
  std::vector<grammar::NodeId> parts;
  std::string plain;
  const auto put = [&] {
    if (!plain.empty()) parts.push_back(rules.text(plain));
    plain.clear();
  };
  while (!text.empty()) {
    const auto control = std::find_if(
        controls_.begin(), controls_.end(),
        [&](const std::string& piece) { return !piece.empty() && text.starts_with(piece); });
    if (control == controls_.end()) {
      plain += text.front();
      text.remove_prefix(1);
    } else {
      put();
      parts.push_back(rules.token({.name = *control}));
      text.remove_prefix(control->size());
    }
  }
  put();
  return rules.sequence(parts);
}

}  // namespace skald
