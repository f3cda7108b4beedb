// The input is an answer with tool calls: its first line stands for the chat template, which
// decides the format; the answer follows. Or the input is a request's list of tools, as JSON.
#include <string>
#include <string_view>

#include "app/files/json.h"
#include "app/tools/read_calls.h"
#include "engine/base/error.h"
#include "tests/fuzz/driver.h"

namespace {

using namespace skald;

const Tools& some_tools() {
  static const Tools tools = read_request_tools(
      parse_json(R"([{"type": "function", "function": {"name": "get_weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"},
        "place": {"$ref": "#/$defs/place"}, "note": {"type": ["string", "null"]}},
        "$defs": {"place": {"type": "object"}}}}}])"),
      nullptr);
  return tools;
}

void read_tools(std::string_view text) {
  const Json json = parse_json_or_null(text);
  const Tools tools = read_request_tools(json, nullptr);
  for (const Tool& tool : tools.all) {
    for (const char* name : {"city", "a", ""}) {
      if (const Json* schema = argument_schema(tool, name)) types_of(*schema, tool.parameters);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    if (text.starts_with('[') && text.find('\n') == std::string_view::npos) {
      read_tools(text);
      return 0;
    }
    const size_t line = text.find('\n');
    if (line == std::string_view::npos) return 0;
    const ToolFormat* format = tool_format(text.substr(0, line));
    if (!format || format->arguments == ToolFormat::Arguments::Channels) return 0;
    const ReadAnswer read = read_calls(text.substr(line + 1), *format, some_tools());
    for (const ToolCall& call : read.calls) {
      check(parse_json_or_null(call.arguments).is_object(), "arguments are an object");
    }
  } catch (const Error&) {
  }
  return 0;
}
