// Grammars of calls: what a model may write where a call must or may come.
#include "app/tools/call_rules.h"

#include "app/model/open.h"
#include "app/tools/read_calls.h"
#include "tests/app/tools/tool_tools.h"
#include "tests/engine/grammar/grammar_tools.h"
#include "tests/error_text.h"
#include "tests/small_models.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

// Without control tokens: all marks are text.
struct PlainModel {
  TempFolder folder;
  std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(folder.write("flat.gguf", flat_gguf({})));
};

struct Asked {
  std::string format;
  Json tools = weather_tools();
  Json choice = "required";
  std::string prompt_end = {};
  bool parallel = true;
};

const char* template_of(const std::string& format) {
  for (const FormatTemplate& one : kFormatTemplates) {
    if (one.format == format) return one.text;
  }
  FAIL("no such format");
  return "";
}

grammar::Rules rules_for(const Asked& asked) {
  static const PlainModel model;
  const ToolSyntax syntax(*model.tokenizer, template_of(asked.format));
  Tools tools = read_request_tools(asked.tools, &asked.choice);
  tools.parallel = asked.parallel;
  return call_rules({.syntax = syntax, .tools = tools, .prompt_end = asked.prompt_end}).rules;
}

struct ForcedCase {
  const char* format;
  const char* whole;  // the call of get_weather in Oslo for two days
  const char* broken;
};

const ForcedCase kForced[] = {
    {"hermes",
     "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": "
     "2}}\n</tool_call>",
     "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"days\""},
    {"qwen-xml",
     "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</"
     "parameter>\n<parameter=days>\n2\n"
     "</parameter>\n</function>\n</tool_call>",
     "<tool_call>\n<function=get_weather>\n</function>"},
    {"glm",
     "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n<arg_key>days</"
     "arg_key>\n"
     "<arg_value>2</arg_value>\n</tool_call>",
     "<tool_call>get_weather\n<arg_key>days"},
    {"minimax",
     "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter "
     "name=\"city\">Oslo</parameter>\n"
     "<parameter name=\"days\">2</parameter>\n</invoke>\n</minimax:tool_call>",
     "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter "
     "name=\"city\">Oslo</parameter>\n<parameter name="
     "\"days\">many"},
    {"deepseek-v3",
     "<\uff5ctool\u2581calls\u2581begin\uff5c><\uff5ctool\u2581call\u2581begin\uff5c>function"
     "<\uff5ctool\u2581sep\uff5c>get_weather\n```json\n{\"city\": \"Oslo\", \"days\": 2}\n```"
     "<\uff5ctool\u2581call\u2581end\uff5c><\uff5ctool\u2581calls\u2581end\uff5c>",
     "<\uff5ctool\u2581calls\u2581begin\uff5c><\uff5ctool\u2581call\u2581begin\uff5c>function"
     "<\uff5ctool\u2581sep\uff5c>other"},
    {"deepseek-v3.1",
     "<\uff5ctool\u2581calls\u2581begin\uff5c><\uff5ctool\u2581call\u2581begin\uff5c>get_weather"
     "<\uff5ctool\u2581sep\uff5c>{\"city\": \"Oslo\", \"days\": "
     "2}<\uff5ctool\u2581call\u2581end\uff5c>"
     "<\uff5ctool\u2581calls\u2581end\uff5c>",
     "<\uff5ctool\u2581calls\u2581begin\uff5c><\uff5ctool\u2581calls\u2581end\uff5c>"},
    {"mistral",
     "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 2}}]",
     "[TOOL_CALLS][]"},
    {"mistral-args", "[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Oslo\", \"days\": 2}",
     "[TOOL_CALLS]get_weather{"},
    {"mistral-id",
     "[TOOL_CALLS]get_weather[CALL_ID]a1B2c3D4e[ARGS]{\"city\": \"Oslo\", \"days\": 2}",
     "[TOOL_CALLS]get_weather[CALL_ID]a1B2c3D4ee"},
    {"granite",
     "<|tool_call|>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 2}}]",
     "<|tool_call|>[{\"name\": \"get_weather\", \"arguments\": []"},
    {"phi-4-mini",
     "<|tool_call|>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": "
     "2}}]<|/tool_call|>",
     "<|tool_call|>{"},
    {"llama", "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Oslo\", \"days\": 2}}",
     "{\"name\": \"get_weather\", \"parameters\": {\"city\": 3"},
    {"gemma", "<|tool_call>call:get_weather{city:<|\"|>Oslo<|\"|>,days:2}<tool_call|>",
     "<|tool_call>call:get_weather{days"},
    {"seed",
     "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Oslo</"
     "parameter>\n<parameter=days>2</parameter>\n"
     "</function>\n</seed:tool_call>",
     "<seed:tool_call>\n<function=get_weather>\n<parameter=days"},
    {"command",
     "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", "
     "\"parameters\": "
     "{\"city\": \"Oslo\", \"days\": 2}}\n]<|END_ACTION|>",
     "<|START_ACTION|>[\n]"},
    {"functools",
     "functools[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 2}}]",
     "functools[]"},
};

TEST_CASE("where a call must come, each format's grammar has it, and what it has is read back") {
  const Tools tools = read_request_tools(weather_tools(), nullptr);
  for (const ForcedCase& one : kForced) {
    CAPTURE(one.format);
    const grammar::Rules rules = rules_for({.format = one.format});
    CHECK(read(rules, one.whole).whole);
    CHECK(!read(rules, one.broken).alive);
    CHECK(!read(rules, "It is").alive);
    const ReadAnswer answer = read_calls(one.whole, format_named(one.format), tools);
    REQUIRE(answer.calls.size() == 1);
    CHECK(parse_json(answer.calls[0].arguments) == Json({{"city", "Oslo"}, {"days", 2}}));
  }
}

TEST_CASE("a named function is the only one that can be called") {
  const Json choice = {{"type", "function"}, {"function", {{"name", "clock"}}}};
  const grammar::Rules rules = rules_for({.format = "hermes", .choice = choice});
  CHECK(read(rules, "<tool_call>\n{\"name\": \"clock\", \"arguments\": {}}\n</tool_call>").whole);
  CHECK(!read(rules, "<tool_call>\n{\"name\": \"g").alive);
}

TEST_CASE("several calls come only where they may be parallel") {
  const std::string call = "<tool_call>\n{\"name\": \"clock\", \"arguments\": {}}\n</tool_call>";
  CHECK(read(rules_for({.format = "hermes"}), call + "\n" + call).whole);
  CHECK(!read(rules_for({.format = "hermes", .parallel = false}), call + "\n" + call).alive);
  CHECK(read(rules_for({.format = "hermes", .parallel = false}), call).whole);
}

TEST_CASE("with the choice auto, only calls of strict functions follow their schemas") {
  Json tools = weather_tools();
  tools[0]["function"]["strict"] = true;
  for (const char* format : {"hermes", "llama", "qwen-xml", "gemma"}) {
    CAPTURE(format);
    const grammar::Rules rules = rules_for({.format = format, .tools = tools, .choice = "auto"});
    for (const ForcedCase& one : kForced) {
      if (one.format != std::string(format)) continue;
      CHECK(read(rules, one.whole).whole);
      CHECK(!read(rules, one.broken).alive);
    }
    CHECK(read(rules, "It is < 4 {}.").whole);
    CHECK(read(rules, "").whole);
  }
  const grammar::Rules rules = rules_for({.format = "hermes", .tools = tools, .choice = "auto"});
  CHECK(read(rules,
             "I look.\n<tool_call>\n{\"name\": \"clock\", \"arguments\": {\"zone\": "
             "[1]}}\n</tool_call>")
            .whole);
  CHECK(!read(rules, "<tool_call>\n{\"name\": \"other").alive);
}

TEST_CASE("a model may think before a call that must come, and must end what the prompt began") {
  const std::string call = "<tool_call>\n{\"name\": \"clock\", \"arguments\": {}}\n</tool_call>";
  static const PlainModel model;
  const std::string text = std::string(template_of("hermes")) + "<think></think>";
  const ToolSyntax syntax(*model.tokenizer, text);
  const Json choice = "required";
  const Tools tools = read_request_tools(weather_tools(), &choice);
  const auto rules = [&](std::string_view end) {
    return call_rules({.syntax = syntax, .tools = tools, .prompt_end = end}).rules;
  };
  CHECK(read(rules(""), call).whole);
  CHECK(read(rules(""), "<think>\n<tool_call> or not?\n</think>\n\n" + call).whole);
  CHECK(!read(rules(""), "<think>x</think>It").alive);
  CHECK(read(rules("<think>"), "Well.</think>\n\n" + call).whole);
  CHECK(!read(rules("<think>"), call).whole);
  CHECK(!read(rules("</think>"), "<think>").alive);
}

TEST_CASE("values between tags follow the types of their schema") {
  const Json tools = parse_json(R"([{"type": "function", "function": {"name": "f", "parameters": {
      "type": "object", "properties": {
        "kind": {"type": "string", "enum": ["a", "b c"]}, "text": {"type": "string"},
        "at": {"$ref": "#/$defs/point"}, "flag": {"type": "boolean"}},
      "required": ["kind", "at"],
      "$defs": {"point": {"type": "object", "properties": {"x": {"type": "integer"}},
                          "required": ["x"], "additionalProperties": false}}}}}])");
  const std::string begin = "<tool_call>f\n", end = "</tool_call>";
  const auto value = [](const std::string& key, const std::string& text) {
    return "<arg_key>" + key + "</arg_key>\n<arg_value>" + text + "</arg_value>\n";
  };
  const grammar::Rules rules = rules_for({.format = "glm", .tools = tools});
  const std::string kind = begin + value("kind", "b c");
  CHECK(read(rules, kind + value("at", "{\"x\": 1}") + end).whole);
  CHECK(read(rules, kind + value("text", "a <b>\n\"c") + value("at", "{\"x\": 1}") + end).whole);
  CHECK(read(rules, kind + value("at", "{\"x\": 1}") + value("flag", "true") + end).whole);
  CHECK(!read(rules, begin + value("kind", "c")).alive);
  CHECK(!read(rules, kind + value("at", "{\"y\": 1}")).alive);
  CHECK(!read(rules, kind + end).alive);
  CHECK(!read(rules, kind + value("at", "{\"x\": 1}") + value("flag", "yes")).alive);
}

TEST_CASE("Gemma's arguments follow their schema in Gemma's own syntax") {
  const Json tools = parse_json(R"([{"type": "function", "function": {"name": "f", "parameters": {
      "type": "object", "properties": {
        "kind": {"enum": ["a", 2]}, "list": {"type": "array", "items": {"type": "number"}},
        "deep": {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]},
        "any": {}},
      "required": ["list"]}}}])");
  const grammar::Rules rules = rules_for({.format = "gemma", .tools = tools});
  const auto call = [](const std::string& arguments) {
    return "<|tool_call>call:f{" + arguments + "}<tool_call|>";
  };
  CHECK(read(rules, call("list:[]")).whole);
  CHECK(read(rules, call("kind:<|\"|>a<|\"|>,list:[1,-2.5],deep:{on:true}")).whole);
  CHECK(read(rules, call("kind:2,list:[0],any:{x:<|\"|>{,}<|\"|>,y:[null]}")).whole);
  CHECK(!read(rules, call("")).alive);
  CHECK(!read(rules, call("kind:3")).alive);
  CHECK(!read(rules, call("list:[<|\"|>")).alive);
  CHECK(!read(rules, call("list:[],deep:{}")).alive);
}

// Requests come from strangers.
TEST_CASE("odd schemas of arguments are refused or read as far as they go") {
  const char* schemas[] = {
      R"({"properties": 3})",
      R"({"properties": {"a": true, "b": false, "c": {"$ref": "#/~2"}, "d": {"$ref": 3}}})",
      R"({"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#/$defs/none"}}, "required": "a"})",
      R"({"properties": {"a": {"enum": 3}, "b": {"type": [3]}, "c": {"type": "strange"}}})",
      R"({"anyOf": [{"$ref": "#"}, {"$ref": "#"}, {"$ref": "#"}, {"$ref": "#"}],
          "properties": {"a": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}, {"$ref": "#"}]}}})",
      R"({"type": "string"})"};
  for (const char* format : {"hermes", "glm", "gemma"}) {
    for (const char* schema : schemas) {
      CAPTURE(format, schema);
      const Json tools =
          Json::array({{{"type", "function"},
                        {"function", {{"name", "f"}, {"parameters", parse_json(schema)}}}}});
      try {
        const grammar::Rules rules = rules_for({.format = format, .tools = tools});
        CHECK(!read(rules, "It").alive);
      } catch (const Error& error) {
        CHECK(error.code() == Exit::Usage);
      } catch (const Json::exception& error) {  // BatchTools makes a message of it
        CHECK(error.what() != nullptr);
      }
    }
  }
}

TEST_CASE("tools of a request are checked") {
  const auto refused = [](const char* tools, const char* choice) {
    return error_text(
        [&] {
          const Json given = parse_json(choice);
          read_request_tools(parse_json(tools), given.is_null() ? nullptr : &given);
        },
        Exit::Usage);
  };
  CHECK(has(refused("{}", "null"), "expected a list"));
  CHECK(has(refused("[{\"name\": \"f\"}]", "null"), "tool 1: expected"));
  CHECK(has(refused(R"([{"type": "function", "function": {"name": "a b"}}])", "null"),
            "'a b' is no name"));
  CHECK(has(refused(R"([{"function": {"name": "f", "parameters": 3}}])", "null"), "JSON schema"));
  CHECK(has(refused(R"([{"function": {"name": "f"}}, {"function": {"name": "f"}}])", "null"),
            "two functions"));
  CHECK(has(refused("[]", "\"required\""), "no function"));
  CHECK(has(refused("[]", "\"always\""), "expected \"none\""));
  CHECK(has(refused(R"([{"function": {"name": "f"}}])",
                    R"({"type": "function", "function": {"name": "g"}})"),
            "has no function 'g'"));
}

}  // namespace
}  // namespace skald::test
