// Renders messages to a prompt with a chat template: the model's own, one from a user's file, or
// one built into skald. A ChatTemplate is immutable: any number of threads may use it.
//
// Renders as transformers does, plus what other programs support: arguments of a tool call may be
// JSON in a string, as OpenAI's clients send them, and contents in parts are joined for a template
// that supports only strings.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/jinja/template.h"

namespace skald {

// The source of a built-in template is this and its name.
inline constexpr std::string_view kBuiltInSource = "built in: ";

struct NamedTemplate {
  std::string name;    // "default", "tool_use": a model may have several
  std::string source;  // "tokenizer_config.json", "built in: chatml"
  std::string text;
};

// The texts of special tokens for templates. Unset: the template sees no such variable.
struct SpecialTexts {
  std::optional<std::string> bos, eos, unk, pad;
};

struct Conversation {
  jinja::Value messages;  // a list of dicts with a role
  jinja::Value tools;     // a list, or None
  jinja::Dict more = {};  // further variables, such as enable_thinking
  bool generation_prompt = true;
};

// Reads a list of messages, or {"messages": [...], "tools": [...], "documents": [...],
// "reasoning_effort": "low", "chat_template_kwargs": {...}}. Throws Error(Exit::Usage) that begins
// with `name` otherwise.
Conversation read_conversation(std::string_view json, std::string_view name);
jinja::Value read_tools(std::string_view json, std::string_view name);

class ChatTemplate {
 public:
  // A model with several templates uses "default", or "tool_use" for a conversation with tools.
  // Throws Error(Exit::Model) if a template cannot be parsed.
  ChatTemplate(std::vector<NamedTemplate> templates, SpecialTexts special);

  // Throws Error(Exit::Failed) with the template's line if the template refuses the messages.
  std::string render(const Conversation& conversation,
                     const jinja::RenderOptions& options = {}) const;

  const std::string& source() const { return source_; }  // source of the default template
  // The text of the template for conversations with tools.
  const std::string& text_for_tools() const { return text_for_tools_; }
  // False: tools of a conversation have no effect on the prompt.
  bool knows_tools() const { return tools_place_ != ToolsPlace::Nowhere; }

 private:
  // The place where a template expects tools: its variable, or a JSON text in the system message
  // (Phi-4-mini).
  enum class ToolsPlace { Nowhere, Variable, SystemMessage };

  ToolsPlace find_tools_place() const;
  std::string render_one(const jinja::Template& chosen, const Conversation& conversation,
                         const jinja::RenderOptions& options) const;
  bool takes_parts(const jinja::Template& chosen) const;

  SpecialTexts special_;
  std::string source_, text_for_tools_;
  jinja::Template default_;
  std::optional<jinja::Template> for_tools_;
  ToolsPlace tools_place_ = ToolsPlace::Nowhere;
};

// Reads the templates of a Hugging Face folder: chat_template.jinja, "chat_template" of
// tokenizer_config.json (a string or a list of named ones), chat_template.json. Empty if it has
// none.
std::vector<NamedTemplate> read_chat_templates(const std::filesystem::path& folder);
SpecialTexts read_special_texts(const std::filesystem::path& folder);

// Templates built into skald.
std::vector<std::string_view> builtin_template_names();
std::optional<NamedTemplate> builtin_template(std::string_view name);

}  // namespace skald
