// What a model's template and tokenizer make possible of the tools that lines offer. Any thread may
// call.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "app/batch/request.h"
#include "app/schema/json_schema.h"
#include "app/tools/syntax.h"
#include "tokenizer/chat/chat_template.h"

namespace skald {

class BatchTools {
 public:
  BatchTools(const Tokenizer& tokenizer, const ChatTemplate& chat_template);  // borrows both

  // Throws LineError where the request asks for what this model's template has no form for.
  void check(const BatchRequest& request) const;
  bool template_has(std::string_view variable) const;

  // For read_conversation(): the ids of calls in the form that the template takes.
  std::string conversation(const BatchRequest& request) const;

  const ToolSyntax& syntax() const { return syntax_; }
  // True if calls stand in the answers' text.
  bool reads_calls() const;

  // True if the answer must follow a grammar that has calls in it.
  bool constrains(const BatchRequest& request) const;
  // rules() makes that grammar, grammar_key() a name for it. prompt_end(): the tag of thinking at
  // the prompt's end, or "".
  std::string prompt_end(std::span<const int32_t> prompt) const;
  std::string grammar_key(const BatchRequest& request, const std::string& prompt_end) const;
  SchemaRules rules(const BatchRequest& request, const std::string& prompt_end) const;

 private:
  const Tokenizer& tokenizer_;
  const ChatTemplate& chat_template_;
  ToolSyntax syntax_;
};

// An id of 9 letters and digits, as Mistral's templates want it: the same one for the same id.
std::string short_call_id(const std::string& id);

}  // namespace skald
