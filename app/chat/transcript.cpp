#include "app/chat/transcript.h"

#include "app/files/json.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "tokenizer/text/json_problem.h"

namespace skald {
namespace {

// Far more than a dialogue needs. Deeper JSON could exhaust the stack.
constexpr int kMostDepth = 32;

Json parse(std::string_view text, const std::string& name) {
  const auto shallow = [&](int depth) {
    if (depth > kMostDepth) fail(Exit::Failed, name, ": is nested too deep for a dialogue");
  };
  try {
    return parse_json(text, shallow);
  } catch (const Json::exception&) {
    fail(Exit::Failed, name, ": is not valid JSON: ", json_problem(text));
  }
}

}  // namespace

std::string transcript(const std::vector<Message>& messages) {
  Json list = Json::array();
  for (const Message& message : messages) {
    list.push_back({{"role", message.role}, {"content", message.content}});
  }
  return dump({{"messages", list}}) + "\n";
}

std::vector<Message> read_transcript(std::string_view text, const std::string& name) {
  Json json = parse(text, name);
  if (json.is_object() && json.contains("messages")) json = Json(json["messages"]);
  if (!json.is_array()) {
    fail(Exit::Failed, name, ": expected a list of messages, or an object with \"messages\"");
  }
  std::vector<Message> messages;
  for (const Json& one : json) {
    const size_t number = messages.size() + 1;
    const auto text_of = [&](const char* key) {
      if (!one.is_object() || !one.contains(key) || !one[key].is_string()) {
        fail(Exit::Failed, name, ": message ", number, ": expected a text as \"", key, "\"");
      }
      return one[key].get<std::string>();
    };
    Message message{text_of("role"), text_of("content")};
    const bool known = message.role == "user" || message.role == "assistant" ||
                       (message.role == "system" && number == 1);
    if (!known) {
      fail(Exit::Failed, name, ": message ", number, ": role '", printable(message.role),
           "', expected user or assistant, or system for the first");
    }
    messages.push_back(std::move(message));
  }
  return messages;
}

}  // namespace skald
