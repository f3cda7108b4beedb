#include "app/batch/tools.h"

#include <algorithm>

#include "app/files/json.h"
#include "app/jobs/earlier_results.h"
#include "app/tools/call_rules.h"
#include "engine/base/error.h"

namespace skald {
namespace {

void shorten(Json& object, const char* name) {
  if (!object.is_object() || !object.contains(name) || !object[name].is_string()) return;
  object[name] = short_call_id(object[name].get<std::string>());
}

}  // namespace

BatchTools::BatchTools(const Tokenizer& tokenizer, const ChatTemplate& chat_template)
    : tokenizer_(tokenizer),
      chat_template_(chat_template),
      syntax_(tokenizer, chat_template.text_for_tools()) {}

void BatchTools::check(const BatchRequest& request) const {
  if (!request.tools) return;
  if (!chat_template_.knows_tools()) {
    fail_request(concat("field 'tools': the chat template (", chat_template_.source(),
                        ") does not know tools; leave them out, or give a template that does "
                        "with --chat-template"));
  }
  const bool required = request.tools->choice == Tools::Choice::Required;
  if (request.tools->constrained() && !syntax_.format()) {
    fail_request(concat("field '", required ? "tool_choice" : "tools",
                        "': skald does not know how this model's template (",
                        chat_template_.source(), ") writes calls, so it cannot force one; use ",
                        required ? "\"auto\"" : "functions without \"strict\""));
  }
  if (required && !request.response_format.empty()) {
    fail_request("field 'response_format': the answer is a call by 'tool_choice'; leave one out");
  }
}

bool BatchTools::template_has(std::string_view variable) const {
  return chat_template_.text_for_tools().find(variable) != std::string::npos;
}

std::string BatchTools::conversation(const BatchRequest& request) const {
  const std::string& text = request.conversation;
  const bool has_calls = text.find("\"tool_call") != std::string::npos;
  if (!syntax_.format() || !syntax_.format()->short_ids || !has_calls) return text;
  Json conversation = parse_json(text);
  if (!conversation["messages"].is_array()) return text;
  for (Json& message : conversation["messages"]) {
    shorten(message, "tool_call_id");
    if (!message.is_object() || !message.contains("tool_calls")) continue;
    if (!message["tool_calls"].is_array()) continue;
    for (Json& call : message["tool_calls"]) shorten(call, "id");
  }
  return dump(conversation);
}

bool BatchTools::reads_calls() const {
  return syntax_.format() && syntax_.format()->arguments != ToolFormat::Arguments::Channels;
}

bool BatchTools::constrains(const BatchRequest& request) const {
  if (!request.tools) return false;
  return request.tools->constrained() || (!request.response_format.empty() && reads_calls());
}

std::string BatchTools::prompt_end(std::span<const int32_t> prompt) const {
  constexpr size_t kTokens = 32;
  const std::string text = tokenizer_.decode(prompt.last(std::min(prompt.size(), kTokens)),
                                             /*show_control=*/true);
  if (const auto open = open_tags(text)) return std::string(open->begin);
  const std::optional<ThinkingTags>& tags = syntax_.thinking();
  const bool closed = tags && text.find(tags->end) != std::string::npos;
  return closed ? std::string(tags->end) : "";
}

std::string BatchTools::grammar_key(const BatchRequest& request,
                                    const std::string& prompt_end) const {
  const Tools& tools = *request.tools;
  std::string key = concat("tools ", static_cast<int>(tools.choice), tools.parallel ? "+" : "-");
  for (const Tool& tool : tools.all) {
    key += concat("\n", tool.name, tool.strict ? " strict " : " ", dump(tool.parameters));
  }
  return concat(key, "\n", request.response_format, "\n", prompt_end);
}

SchemaRules BatchTools::rules(const BatchRequest& request, const std::string& prompt_end) const {
  CallRulesOptions options{.syntax = syntax_, .tools = *request.tools, .prompt_end = prompt_end};
  std::optional<SchemaRules> answer;
  if (!request.response_format.empty()) {
    answer = response_format_rules(parse_json(request.response_format), "response_format");
    options.answer = &answer->rules;
  }
  SchemaRules rules;
  try {
    rules = call_rules(options);
  } catch (const Json::exception& problem) {
    fail_request(concat("field 'tools': a schema cannot be read: ", problem.what()));
  }
  if (answer) rules.notes.insert(rules.notes.end(), answer->notes.begin(), answer->notes.end());
  return rules;
}

std::string short_call_id(const std::string& id) {
  constexpr size_t kLength = 9;
  constexpr std::string_view kDigits =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  const auto usual = [&](char c) { return kDigits.find(c) != std::string_view::npos; };
  if (id.size() == kLength && std::all_of(id.begin(), id.end(), usual)) return id;
  uint64_t hash = name_hash(id)[0];
  std::string text;
  for (size_t i = 0; i < kLength; ++i) {
    text += kDigits[hash % kDigits.size()];
    hash /= kDigits.size();
  }
  return text;
}

}  // namespace skald
