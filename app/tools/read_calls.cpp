#include "app/tools/read_calls.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "app/tools/cursor.h"
#include "app/tools/gemma_arguments.h"
#include "app/tools/json_text.h"
#include "engine/base/error.h"

namespace skald {
namespace {

std::string_view trimmed_end(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kCallSpace) + 1);
}

std::string_view trimmed_call_text(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kCallSpace), text.size()));
  return trimmed_end(text);
}

// A value between two tags: one line end beside each tag belongs to the tag.
std::string_view without_line_ends(std::string_view value) {
  if (value.starts_with('\n')) value.remove_prefix(1);
  if (value.ends_with('\n')) value.remove_suffix(1);
  return value;
}

bool is_type(const Json& value, const std::string& type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "array") return value.is_array();
  return type == "object" && value.is_object();
}

// The JSON of a value that stands between tags. The schema says whether it is a text; where it says
// nothing, only objects and lists are JSON.
std::string value_json(std::string_view value, const Json* schema, const Json& root) {
  const std::vector<std::string> types = schema && !schema->empty()
                                             ? types_of(*schema, root)
                                             : std::vector<std::string>{"array", "object"};
  std::string word(trimmed_call_text(value));
  Json parsed = parse_json_or_null(word);
  if (parsed.is_null()) {  // some templates write values as Python does
    word = json_of_python(word);
    parsed = parse_json_or_null(word);
  }
  const bool is_json = !parsed.is_null() || word == "null";
  const bool fits = is_json && std::any_of(types.begin(), types.end(),
                                           [&](const auto& type) { return is_type(parsed, type); });
  return fits ? word : dump(Json(std::string(value)));
}

class CallReader {
 public:
  CallReader(std::string_view text, const ToolFormat& format, const Tools& tools)
      : format_(format), tools_(tools), text_(text), cursor_(text) {}

  // False: a call is broken.
  bool read(ReadAnswer& answer) {
    if (format_.bare && !trimmed_call_text(text_).empty()) {
      CallCursor begin = cursor_;
      if (cursor_.next("{") && bare_calls(answer)) return true;
      cursor_ = begin;
      answer = {};
    }
    std::string_view before;
    while (cursor_.take_until(format_.begin, before)) {
      add_content(answer, before);
      if (!block(answer)) return false;
    }
    add_content(answer, cursor_.rest());
    return true;
  }

 private:
  static void add_content(ReadAnswer& answer, std::string_view text) {
    // White space beside a call belongs to the format.
    text = answer.calls.empty() ? trimmed_end(text) : trimmed_call_text(text);
    if (text.empty()) return;
    if (!answer.content.empty()) answer.content += '\n';
    answer.content += text;
  }

  // The whole answer is calls of known tools; another JSON object is an answer.
  bool bare_calls(ReadAnswer& answer) {
    if (!objects(answer) || !trimmed_call_text(cursor_.rest()).empty()) return false;
    return std::all_of(answer.calls.begin(), answer.calls.end(),
                       [&](const ToolCall& call) { return tools_.find(call.name) != nullptr; });
  }

  // Reads on behind the mark that a call or a block begins with.
  bool block(ReadAnswer& answer) {
    const bool json = cursor_.next("{") || cursor_.next("[");
    if (format_.objects && json) return objects(answer) && end(format_.end);
    if (format_.short_ids) return mistral_calls(answer);
    if (format_.objects) return false;
    CallCursor back(text_, cursor_.at() - format_.begin.size());
    if (!back.take(format_.block_begin)) return false;
    do {
      if (!back.take(format_.call_begin)) return false;
      cursor_ = back;
      if (!named_call(answer) || !end(format_.call_end)) return false;
      back = cursor_;
    } while (back.next(format_.call_begin));
    return format_.block_end.empty() || end(format_.block_end);
  }

  bool end(std::string_view words) { return words.empty() || cursor_.take_end(words); }

  // NAME[ARGS]{…}, NAME[CALL_ID]ID[ARGS]{…} or NAME{…}.
  bool mistral_calls(ReadAnswer& answer) {
    if (cursor_.next("{") || cursor_.next("[{")) return objects(answer);
    cursor_.skip_space();
    const std::string_view name = cursor_.take_name();
    std::string_view id;
    if (cursor_.take(kMistralId))
      return cursor_.take_until(kMistralArguments, id) && json(answer, name);
    cursor_.take(kMistralArguments);
    return json(answer, name);
  }

  bool json(ReadAnswer& answer, std::string_view name) {
    cursor_.skip_space();
    const auto arguments = json_at_begin(cursor_.rest());
    if (name.empty() || !arguments || !arguments->starts_with('{')) return false;
    cursor_.skip(arguments->size());
    answer.calls.push_back({std::string(name), std::string(*arguments)});
    return true;
  }

  bool named_call(ReadAnswer& answer) {
    cursor_.skip_space();
    const std::string_view name = cursor_.take_name();
    if (name.empty()) return false;
    // GLM's calls without arguments leave the line end out.
    if (!cursor_.take(format_.name_end)) return false;
    switch (format_.arguments) {
      case ToolFormat::Arguments::Json:
        return json(answer, name);
      case ToolFormat::Arguments::Tags:
        return tags(answer, name);
      case ToolFormat::Arguments::Gemma: {
        const std::optional<Json> arguments = read_gemma_arguments(cursor_);
        if (arguments) answer.calls.push_back({std::string(name), dump(*arguments)});
        return arguments.has_value();
      }
      case ToolFormat::Arguments::Channels:
        break;
    }
    return false;
  }

  bool tags(ReadAnswer& answer, std::string_view name) {
    const Tool* tool = tools_.find(name);
    // The first of the texts behind a name ends it; what else stands there comes before the value.
    const std::string_view key_end = trimmed_end(format_.key_end);
    const size_t first = std::min(key_end.find_first_of(kCallSpace), key_end.size());
    std::string arguments;
    while (cursor_.take(format_.key_begin)) {
      std::string_view key, value;
      if (!cursor_.take_until(key_end.substr(0, first), key)) return false;
      if (first < key_end.size() && !cursor_.take(key_end.substr(first))) return false;
      if (!cursor_.take_until(trimmed_call_text(format_.value_end), value)) return false;
      const std::string key_text(trimmed_call_text(key));
      arguments += concat(
          arguments.empty() ? "" : ", ", dump(Json(key_text)), ": ",
          value_json(without_line_ends(value), tool ? argument_schema(*tool, key_text) : nullptr,
                     tool ? tool->parameters : Json()));
    }
    answer.calls.push_back({std::string(name), concat("{", arguments, "}")});
    return true;
  }

  // An object or a list of them. Some models write several objects with a ; or a , between them.
  bool objects(ReadAnswer& answer) {
    do {
      cursor_.skip_space();
      const auto value = json_at_begin(cursor_.rest());
      if (!value) return false;
      cursor_.skip(value->size());
      const bool list = value->starts_with('[');
      for (const std::string_view one :
           list ? json_elements(*value) : std::vector<std::string_view>{*value}) {
        if (!object(answer, one)) return false;
      }
    } while (cursor_.take(";") || cursor_.take(",") || cursor_.next("{"));
    return true;
  }

  static bool object(ReadAnswer& answer, std::string_view text) {
    const auto members = json_members(text);
    if (!members) return false;
    std::optional<std::string> name;
    std::optional<std::string_view> arguments;
    for (const auto& [key, value] : *members) {
      if (key == "name" || key == "tool_name") {
        const Json read = parse_json_or_null(value);
        if (read.is_string()) name = read.get<std::string>();
      } else if (key == "arguments" || key == "parameters") {
        arguments = value;
      }
    }
    if (!name || name->empty() || !arguments) return false;
    std::string written(*arguments);
    // Some models write the object once more as a text.
    if (written.starts_with('"')) written = parse_json_or_null(written).get<std::string>();
    if (!written.starts_with('{') || json_at_begin(written) != written) return false;
    answer.calls.push_back({*std::move(name), std::move(written)});
    return true;
  }

  const ToolFormat& format_;
  const Tools& tools_;
  std::string_view text_;
  CallCursor cursor_;
};

}  // namespace

ReadAnswer read_calls(std::string_view answer, const ToolFormat& format, const Tools& tools) {
  ReadAnswer read;
  const bool good = CallReader(answer, format, tools).read(read);
  if (!good || read.calls.empty()) return {std::string(answer), {}};
  if (!tools.parallel) read.calls.resize(1);
  return read;
}

}  // namespace skald
