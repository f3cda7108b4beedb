#include "tokenizer/chat/chat_template.h"

#include <algorithm>

#include "engine/base/error.h"
#include "tokenizer/jinja/context.h"
#include "tokenizer/jinja/print.h"

namespace skald {
namespace {

using jinja::Dict;
using jinja::None;
using jinja::Value;

bool is_list(const Value& value) {
  return value.as_sequence() && value.as_sequence()->kind == jinja::SequenceKind::List;
}

// Returns the dict with one entry replaced or added.
Value with(const Dict& dict, std::string_view key, Value value) {
  Dict changed = dict;
  changed.set(key, std::move(value));
  return Value::dict(std::move(changed));
}

// Returns the list with each element changed, or the same list if `change` changes none.
template <class Change>
Value each(const Value& list, const Change& change) {
  std::vector<Value> items;
  bool changed = false;
  for (const Value& item : list.as_sequence()->items) {
    std::optional<Value> other = change(item);
    changed |= other.has_value();
    items.push_back(other ? *std::move(other) : item);
  }
  return changed ? Value::list(std::move(items)) : list;
}

std::optional<Value> object_of(const Value& text) {
  if (!text.as_text()) return std::nullopt;
  try {
    Value value = jinja::from_json(text.as_text()->bytes, "arguments");
    if (value.as_dict()) return value;
  } catch (const Error&) {  // not JSON: the value stays as it is
  }
  return std::nullopt;
}

// Changes {"function": {"name": …, "arguments": "{\"x\": 1}"}} so that the arguments are a dict.
std::optional<Value> with_arguments(const Value& call) {
  const Dict* dict = call.as_dict();
  const Value* function = dict ? dict->find("function") : nullptr;
  if (!function || !function->as_dict()) return std::nullopt;
  const Value* arguments = function->as_dict()->find("arguments");
  std::optional<Value> object = arguments ? object_of(*arguments) : std::nullopt;
  if (!object) return std::nullopt;
  return with(*dict, "function", with(*function->as_dict(), "arguments", *std::move(object)));
}

std::optional<Value> with_call_arguments(const Value& message) {
  const Value* calls = message.as_dict()->find("tool_calls");
  if (!calls || !is_list(*calls)) return std::nullopt;
  Value changed = each(*calls, with_arguments);
  if (changed.is_same(*calls)) return std::nullopt;
  return with(*message.as_dict(), "tool_calls", std::move(changed));
}

// Joins a list of parts of type "text" to one string.
std::optional<Value> with_joined_parts(const Value& message) {
  const Value* content = message.as_dict()->find("content");
  if (!content || !is_list(*content)) return std::nullopt;
  std::string all;
  for (const Value& part : content->as_sequence()->items) {
    const Dict* dict = part.as_dict();
    const Value* text = dict ? dict->find("text") : nullptr;
    if (!text || !text->as_text()) {
      fail(Exit::Failed, "the chat template supports only text, but a message has other parts");
    }
    if (&part != content->as_sequence()->items.data()) all += '\n';
    all += text->as_text()->bytes;
  }
  return with(*message.as_dict(), "content", Value::text(std::move(all)));
}

Dict message_of(std::string_view role, Value content) {
  Dict message;
  message.set("role", Value::text(std::string(role)));
  message.set("content", std::move(content));
  return message;
}

// The functions of the tools as a JSON text in the system message, which is added if there is none.
Value with_tools_in_system(const Value& messages, const Value& tools) {
  const auto function_of = [](const Value& tool) -> std::optional<Value> {
    const Value* function = tool.as_dict() ? tool.as_dict()->find("function") : nullptr;
    return function ? std::optional(*function) : std::nullopt;
  };
  jinja::Context context("tools", {});
  Value text = Value::text(jinja::to_json(context, each(tools, function_of), {}));
  std::vector<Value> all = messages.as_sequence()->items;
  const Value* role = all.front().as_dict()->find("role");
  if (!role->as_text() || role->as_text()->bytes != "system") {
    all.insert(all.begin(), Value::dict(message_of("system", Value::text(""))));
  }
  if (!all.front().as_dict()->find("tools")) {
    all.front() = with(*all.front().as_dict(), "tools", std::move(text));
  }
  return Value::list(std::move(all));
}

bool has_parts(const Value& messages) {
  const auto& all = messages.as_sequence()->items;
  return std::any_of(all.begin(), all.end(), [](const Value& message) {
    const Value* content = message.as_dict()->find("content");
    return content && is_list(*content);
  });
}

void check_messages(const Value& messages, std::string_view name) {
  if (!is_list(messages)) fail(Exit::Usage, name, ": expected a list of messages");
  size_t number = 0;
  for (const Value& message : messages.as_sequence()->items) {
    ++number;
    const Value* role = message.as_dict() ? message.as_dict()->find("role") : nullptr;
    if (!role || !role->as_text()) {
      fail(Exit::Usage, name, ": message ", number, ": expected an object with a \"role\"");
    }
  }
  if (number == 0)
    fail(Exit::Usage, name, ": the list of messages is empty; expected at least one");
}

const NamedTemplate* find(const std::vector<NamedTemplate>& all, std::string_view name) {
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const NamedTemplate& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

const NamedTemplate& default_of(const std::vector<NamedTemplate>& all) {
  check(!all.empty(), "a chat template has a text");
  const NamedTemplate* named = find(all, "default");
  return named ? *named : all.front();
}

}  // namespace

Value read_tools(std::string_view json, std::string_view name) {
  Value tools = jinja::from_json(json, name);
  if (const Dict* dict = tools.as_dict(); dict && dict->find("tools")) tools = *dict->find("tools");
  if (!is_list(tools)) fail(Exit::Usage, name, ": expected a list of tools");
  return tools;
}

Conversation read_conversation(std::string_view json, std::string_view name) {
  const Value given = jinja::from_json(json, name);
  Conversation conversation;
  conversation.messages = given;
  if (const Dict* dict = given.as_dict()) {
    const auto get = [&](std::string_view key) {
      const Value* found = dict->find(key);
      return found ? *found : Value(None{});
    };
    conversation.messages = get("messages");
    conversation.tools = get("tools");
    if (!conversation.tools.is_none() && !is_list(conversation.tools)) {
      fail(Exit::Usage, name, ": \"tools\" is a ", conversation.tools.type_name(),
           ", expected a list");
    }
    for (const std::string_view name : {"documents", "reasoning_effort"}) {
      if (const Value* value = dict->find(name)) conversation.more.set(name, *value);
    }
    const Value more = get("chat_template_kwargs");
    if (!more.is_none() && !more.as_dict()) {
      fail(Exit::Usage, name, ": \"chat_template_kwargs\" is a ", more.type_name(),
           ", expected an object");
    }
    if (more.as_dict()) {
      for (const Dict::Entry& entry : more.as_dict()->entries()) {
        conversation.more.set(entry.key, entry.value);
      }
    }
  }
  check_messages(conversation.messages, name);
  return conversation;
}

ChatTemplate::ChatTemplate(std::vector<NamedTemplate> templates, SpecialTexts special)
    : special_(std::move(special)),
      source_(default_of(templates).source),
      default_(source_, default_of(templates).text) {
  text_for_tools_ = default_of(templates).text;
  if (const NamedTemplate* tools = find(templates, "tool_use")) {
    for_tools_.emplace(tools->source, tools->text);
    text_for_tools_ = tools->text;
  }
  tools_place_ = find_tools_place();
}

// Renders a tool, and looks for its name.
ChatTemplate::ToolsPlace ChatTemplate::find_tools_place() const {
  if (text_for_tools_.find("tools") == std::string::npos) return ToolsPlace::Nowhere;
  constexpr std::string_view kName = "a_tool_to_find_again";
  Dict parameters, function, tool;
  parameters.set("type", Value::text("object"));
  parameters.set("properties", Value::dict({}));
  function.set("name", Value::text(std::string(kName)));
  function.set("description", Value::text("Finds"));
  function.set("parameters", Value::dict(std::move(parameters)));
  tool.set("type", Value::text("function"));
  tool.set("function", Value::dict(std::move(function)));
  Conversation probe;
  probe.messages = Value::list({Value::dict(message_of("user", Value::text("Hi")))});
  probe.tools = Value::list({Value::dict(std::move(tool))});
  const jinja::Template& chosen = for_tools_ ? *for_tools_ : default_;
  const auto has_name = [&] {
    return render_one(chosen, probe, {}).find(kName) != std::string::npos;
  };
  try {
    if (has_name()) return ToolsPlace::Variable;
    probe.messages = with_tools_in_system(probe.messages, probe.tools);
    return has_name() ? ToolsPlace::SystemMessage : ToolsPlace::Nowhere;
  } catch (const Error&) {  // the template refuses this conversation, but may accept others
    return ToolsPlace::Variable;
  }
}

std::string ChatTemplate::render_one(const jinja::Template& chosen,
                                     const Conversation& conversation,
                                     const jinja::RenderOptions& options) const {
  Dict variables;
  variables.set("messages", conversation.messages);
  variables.set("tools", conversation.tools);
  variables.set("documents", None{});
  variables.set("add_generation_prompt", conversation.generation_prompt);
  const auto set = [&](std::string_view name, const std::optional<std::string>& text) {
    if (text) variables.set(name, Value::text(*text));
  };
  set("bos_token", special_.bos);
  set("eos_token", special_.eos);
  set("unk_token", special_.unk);
  set("pad_token", special_.pad);
  for (const Dict::Entry& entry : conversation.more.entries()) {
    variables.set(entry.key, entry.value);
  }
  return chosen.render(variables, options);
}

// True if the template prints a content in parts as text, not as Python would print a list.
bool ChatTemplate::takes_parts(const jinja::Template& chosen) const {
  constexpr std::string_view kProbe = "a text to find again";
  Dict part;
  part.set("type", Value::text("text"));
  part.set("text", Value::text(std::string(kProbe)));
  Conversation probe;
  probe.messages =
      Value::list({Value::dict(message_of("user", Value::list({Value::dict(std::move(part))})))});
  try {
    const std::string text = render_one(chosen, probe, {});
    return text.find(kProbe) != std::string::npos && text.find("'text'") == std::string::npos;
  } catch (const Error&) {
    return false;
  }
}

std::string ChatTemplate::render(const Conversation& conversation,
                                 const jinja::RenderOptions& options) const {
  const bool tools = for_tools_ && !conversation.tools.is_none();
  const jinja::Template& chosen = tools ? *for_tools_ : default_;
  Conversation given = conversation;
  if (tools_place_ == ToolsPlace::SystemMessage && !given.tools.is_none()) {
    given.messages = with_tools_in_system(given.messages, given.tools);
  }
  if (has_parts(given.messages) && !takes_parts(chosen)) {
    given.messages = each(given.messages, with_joined_parts);
  }
  Conversation parsed = given;
  parsed.messages = each(given.messages, with_call_arguments);
  if (parsed.messages.is_same(given.messages)) return render_one(chosen, given, options);
  try {
    return render_one(chosen, parsed, options);
  } catch (const Error&) {
    // A few templates expect the arguments as a string.
    return render_one(chosen, given, options);
  }
}

}  // namespace skald
