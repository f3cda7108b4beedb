// Calls in answers, format by format. Where a family has a published parser (vLLM's tool parsers,
// transformers' response parsing), the expected calls are those that it finds.
#include "app/tools/read_calls.h"

#include "tests/app/tools/tool_tools.h"
#include "tokenizer/chat/chat_template.h"

namespace skald::test {
namespace {

struct AnswerCase {
  const char* format;
  std::string answer, content;
  std::vector<std::pair<const char*, const char*>> calls;  // none: the answer is content
};

const std::string kBegin = "<\uff5ctool\u2581calls\u2581begin\uff5c>",
                  kCall = "<\uff5ctool\u2581call\u2581begin\uff5c>",
                  kSep = "<\uff5ctool\u2581sep\uff5c>",
                  kCallStop = "<\uff5ctool\u2581call\u2581end\uff5c>",
                  kStop = "<\uff5ctool\u2581calls\u2581end\uff5c>";
constexpr const char* kOslo = R"({"city": "Oslo"})";

const AnswerCase kAnswers[] = {
    // Hermes, Qwen 2.5, Qwen3, Granite 4
    {"hermes", "It is 4.", "It is 4.", {}},
    {"hermes",
     "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>",
     "",
     {{"get_weather", kOslo}}},
    {"hermes",
     "<tool_call>{\"arguments\": {\"city\": \"Oslo\"}, \"name\": \"get_weather\"}</tool_call>",
     "",
     {{"get_weather", kOslo}}},
    {"hermes",
     "I look.\n<tool_call>\n{\"name\": \"clock\", \"arguments\": {}}\n</tool_call>\n",
     "I look.",
     {{"clock", "{}"}}},
    {"hermes",
     "<tool_call>{\"name\": \"clock\", \"arguments\": {}}</tool_call>\nSo.\n",
     "So.",
     {{"clock", "{}"}}},
    {"hermes",
     "<tool_call>\n{\"name\": \"clock\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": "
     "\"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>",
     "",
     {{"clock", "{}"}, {"get_weather", kOslo}}},
    {"hermes", "<tool_call>\n{\"name\": \"clock\", \"arguments\": {}}", "", {{"clock", "{}"}}},
    {"hermes",
     "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"</tool_call> {\\\"\"}}</tool_call>",
     "",
     {{"f", "{\"a\": \"</tool_call> {\\\"\"}"}}},
    {"hermes",
     "<tool_call>{\"name\": \"f\", \"arguments\": {\"n\": 1.50, \"z\":1e3}}</tool_call>",
     "",
     {{"f", "{\"n\": 1.50, \"z\":1e3}"}}},
    {"hermes",
     "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>",
     "",
     {{"f", "{\"a\": 1}"}}},
    {"hermes", "x <tool_call>{\"name\": \"f\", \"arguments\": {</tool_call>", "", {}},
    {"hermes", "<tool_call>{\"name\": \"f\"}</tool_call>", "", {}},
    {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": 3}</tool_call>", "", {}},
    {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {}} and more</tool_call>", "", {}},
    {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call><tool_call>{", "", {}},
    {"hermes", "<tool_call>", "", {}},
    // Qwen3-Coder, Qwen3.5
    {"qwen-xml", "It is 4.", "It is 4.", {}},
    {"qwen-xml",
     "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</"
     "tool_call>",
     "",
     {{"get_weather", kOslo}}},
    {"qwen-xml",
     "Look.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</"
     "parameter>\n<parameter=days>"
     "\n3\n</parameter>\n<parameter=warm>\nTrue\n</parameter>\n</function>\n</tool_call>",
     "Look.",
     {{"get_weather", R"({"city": "Oslo", "days": 3, "warm": true})"}}},
    {"qwen-xml",
     "<tool_call><function=get_weather><parameter=city>Oslo</parameter></function></tool_call>",
     "",
     {{"get_weather", kOslo}}},
    {"qwen-xml", "<tool_call>\n<function=clock>\n</function>\n</tool_call>", "", {{"clock", "{}"}}},
    {"qwen-xml",
     "<tool_call>\n<function=get_weather>\n<parameter=city>\n a\n\nb "
     "\n</parameter>\n</function>\n</tool_call>",
     "",
     {{"get_weather", R"({"city": " a\n\nb "})"}}},
    {"qwen-xml",
     "<tool_call>\n<function=get_weather>\n<parameter=city>\n12\n</parameter>\n<parameter=places>\n"
     "[\"a\", \"b\"]\n</parameter>\n</function>\n</tool_call>",
     "",
     {{"get_weather", R"({"city": "12", "places": ["a", "b"]})"}}},
    {"qwen-xml",
     "<tool_call>\n<function=get_weather>\n<parameter=days>\nmany\n</parameter>\n</function>\n</"
     "tool_call>",
     "",
     {{"get_weather", R"({"days": "many"})"}}},
    {"qwen-xml",
     "<tool_call>\n<function=get_weather>\n<parameter=note>\nnull\n</parameter>\n</function>\n</"
     "tool_call>",
     "",
     {{"get_weather", R"({"note": null})"}}},
    {"qwen-xml",
     "<tool_call>\n<function=clock>\n</function>\n</tool_call>\n<tool_call>\n<function=other>\n"
     "<parameter=x>\n{\"a\": 1}\n</parameter>\n</function>\n</tool_call>",
     "",
     {{"clock", "{}"}, {"other", R"({"x": {"a": 1}})"}}},
    {"qwen-xml", "<tool_call>\n<function=clock>\n</function>", "", {{"clock", "{}"}}},
    {"qwen-xml", "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo", "", {}},
    {"qwen-xml", "<tool_call>\nclock\n</tool_call>", "", {}},
    // GLM 4.5, 4.6, 4.7
    {"glm", "It is 4.", "It is 4.", {}},
    {"glm",
     "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n</tool_call>",
     "",
     {{"get_weather", kOslo}}},
    {"glm",
     "\nI look.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n"
     "<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>",
     "\nI look.",
     {{"get_weather", R"({"city": "Oslo", "days": 2})"}}},
    {"glm",
     "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Oslo</arg_value></tool_call>",
     "",
     {{"get_weather", kOslo}}},
    {"glm", "<tool_call>clock\n</tool_call>", "", {{"clock", "{}"}}},
    {"glm", "<tool_call>clock</tool_call>", "", {{"clock", "{}"}}},
    {"glm",
     "<tool_call>clock\n</tool_call>\n<tool_call>clock\n</tool_call>",
     "",
     {{"clock", "{}"}, {"clock", "{}"}}},
    {"glm",
     "<tool_call>get_weather\n<arg_key>places</arg_key>\n<arg_value>[\"a\"]</"
     "arg_value>\n<arg_key>warm"
     "</arg_key>\n<arg_value>false</arg_value>\n</tool_call>",
     "",
     {{"get_weather", R"({"places": ["a"], "warm": false})"}}},
    {"glm",
     "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
     "",
     {{"get_weather", R"({"city": "3"})"}}},
    {"glm",
     "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>a "
     "\"b\"\nc</arg_value>\n</tool_call>",
     "",
     {{"get_weather", R"({"city": "a \"b\"\nc"})"}}},
    {"glm", "<tool_call>get_weather\n<arg_key>city</arg_key>\n</tool_call>", "", {}},
    // MiniMax-M2
    {"minimax", "It is 4.", "It is 4.", {}},
    {"minimax",
     "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter "
     "name=\"city\">Oslo</parameter>\n"
     "</invoke>\n</minimax:tool_call>",
     "",
     {{"get_weather", kOslo}}},
    {"minimax",
     "Look.\n<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter "
     "name=\"city\">Oslo</parameter>\n"
     "<parameter name=\"days\">2</parameter>\n</invoke>\n<invoke "
     "name=\"clock\">\n</invoke>\n</minimax:tool_call>",
     "Look.",
     {{"get_weather", R"({"city": "Oslo", "days": 2})"}, {"clock", "{}"}}},
    {"minimax",
     "<minimax:tool_call><invoke name=\"clock\"></invoke></minimax:tool_call>",
     "",
     {{"clock", "{}"}}},
    {"minimax",
     "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"place\">{\"x\": 1.5}"
     "</parameter>\n</invoke>\n</minimax:tool_call>",
     "",
     {{"get_weather", R"({"place": {"x": 1.5}})"}}},
    {"minimax",
     "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">7</parameter>\n"
     "<parameter name=\"unit\">kelvin</parameter>\n</invoke>\n</minimax:tool_call>",
     "",
     {{"get_weather", R"({"city": "7", "unit": "kelvin"})"}}},
    {"minimax", "<minimax:tool_call>\n<invoke name=\"clock\">\n</invoke>\n", "", {{"clock", "{}"}}},
    {"minimax", "<minimax:tool_call>\n<invoke name=\"clock\">\n<parameter", "", {}},
    {"minimax", "<minimax:tool_call>\n</minimax:tool_call>", "", {}},
    {"minimax", "<minimax:tool_call>\n<invoke name=\"\">\n</invoke>\n</minimax:tool_call>", "", {}},
    // DeepSeek V3 and R1
    {"deepseek-v3", "It is 4.", "It is 4.", {}},
    {"deepseek-v3",
     kBegin + kCall + "function" + kSep + "get_weather\n```json\n{\"city\": \"Oslo\"}\n```" +
         kCallStop + kStop,
     "",
     {{"get_weather", kOslo}}},
    {"deepseek-v3",
     "Look." + kBegin + kCall + "function" + kSep + "clock\n```json\n{}\n```" + kCallStop + "\n" +
         kCall + "function" + kSep + "get_weather\n```json\n{\"city\": \"Oslo\"}\n```" + kCallStop +
         kStop,
     "Look.",
     {{"clock", "{}"}, {"get_weather", kOslo}}},
    {"deepseek-v3",
     kBegin + kCall + "function" + kSep + "f\n```json\n{\n  \"a\": \"```\"\n}\n```" + kCallStop +
         kStop,
     "",
     {{"f", "{\n  \"a\": \"```\"\n}"}}},
    {"deepseek-v3",
     kBegin + "\n" + kCall + "function" + kSep + "clock\n```json\n{}\n```\n" + kCallStop + "\n" +
         kStop,
     "",
     {{"clock", "{}"}}},
    {"deepseek-v3",
     kBegin + kCall + "function" + kSep + "clock\n```json\n{}\n```",
     "",
     {{"clock", "{}"}}},
    {"deepseek-v3", kBegin + kCall + "function" + kSep + "clock\n```json\n{", "", {}},
    {"deepseek-v3", kBegin + kCall + "function" + kSep + "clock\n{}" + kCallStop + kStop, "", {}},
    {"deepseek-v3", kBegin + kStop, "", {}},
    {"deepseek-v3", kCall, kCall, {}},
    // DeepSeek V3.1
    {"deepseek-v3.1", "It is 4.", "It is 4.", {}},
    {"deepseek-v3.1",
     kBegin + kCall + "get_weather" + kSep + "{\"city\": \"Oslo\"}" + kCallStop + kStop,
     "",
     {{"get_weather", kOslo}}},
    {"deepseek-v3.1",
     "A" + kBegin + kCall + "clock" + kSep + "{}" + kCallStop + kCall + "clock" + kSep + "{}" +
         kCallStop + kStop,
     "A",
     {{"clock", "{}"}, {"clock", "{}"}}},
    {"deepseek-v3.1", kBegin + kCall + "clock" + kSep + "{}" + kCallStop, "", {{"clock", "{}"}}},
    {"deepseek-v3.1", kBegin + kCall + "clock" + kSep + "[]" + kCallStop + kStop, "", {}},
    {"deepseek-v3.1", kBegin + kCall + kSep + "{}" + kCallStop + kStop, "", {}},
    {"deepseek-v3.1",
     kBegin + kCall + "f" + kSep + "{\"a\": \"" + kCallStop + "\"}" + kCallStop + kStop,
     "",
     {{"f", nullptr}}},
    // Mistral 7B v0.3, Nemo, Large
    {"mistral", "It is 4.", "It is 4.", {}},
    {"mistral",
     "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}]",
     "",
     {{"get_weather", kOslo}}},
    {"mistral",
     "[TOOL_CALLS] [{\"name\": \"clock\", \"arguments\": {}}, {\"name\": \"get_weather\", "
     "\"arguments\": "
     "{\"city\": \"Oslo\"}, \"id\": \"123456789\"}]",
     "",
     {{"clock", "{}"}, {"get_weather", kOslo}}},
    {"mistral",
     "Look. [TOOL_CALLS][{\"name\": \"clock\", \"arguments\": {}}]",
     "Look.",
     {{"clock", "{}"}}},
    {"mistral", "[TOOL_CALLS]{\"name\": \"clock\", \"arguments\": {}}", "", {{"clock", "{}"}}},
    {"mistral", "[TOOL_CALLS]clock{}", "", {{"clock", "{}"}}},
    {"mistral", "[TOOL_CALLS][]", "", {}},
    {"mistral", "[TOOL_CALLS][{\"name\": \"clock\", \"arguments\": {}}", "", {}},
    {"mistral", "[TOOL_CALLS][{\"name\": \"clock\"}]", "", {}},
    {"mistral", "[TOOL_CALLS]", "", {}},
    // Mistral Small 3.2, Magistral, Devstral, Ministral 3
    {"mistral-args",
     "[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Oslo\"}",
     "",
     {{"get_weather", kOslo}}},
    {"mistral-args",
     "[TOOL_CALLS]clock[ARGS]{}[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Oslo\"}",
     "",
     {{"clock", "{}"}, {"get_weather", kOslo}}},
    {"mistral-args", "Look.[TOOL_CALLS]clock[ARGS]{}", "Look.", {{"clock", "{}"}}},
    {"mistral-args", "[TOOL_CALLS]clock{}", "", {{"clock", "{}"}}},
    {"mistral-args",
     "[TOOL_CALLS]f[ARGS]{\"a\": \"[TOOL_CALLS]\"}",
     "",
     {{"f", "{\"a\": \"[TOOL_CALLS]\"}"}}},
    {"mistral-args",
     "[TOOL_CALLS][{\"name\": \"clock\", \"arguments\": {}}]",
     "",
     {{"clock", "{}"}}},
    {"mistral-args", "[TOOL_CALLS]clock[ARGS]", "", {}},
    {"mistral-args", "[TOOL_CALLS]clock[ARGS]{\"a\":", "", {}},
    {"mistral-args", "[TOOL_CALLS][ARGS]{}", "", {}},
    {"mistral-id", "[TOOL_CALLS]clock[CALL_ID]123456789[ARGS]{}", "", {{"clock", "{}"}}},
    {"mistral-id", "[TOOL_CALLS]clock[ARGS]{}", "", {{"clock", "{}"}}},
    {"mistral-id", "[TOOL_CALLS]clock[CALL_ID]123456789{}", "", {}},
    // Granite 3
    {"granite", "It is 4.", "It is 4.", {}},
    {"granite",
     "<|tool_call|>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}]",
     "",
     {{"get_weather", kOslo}}},
    {"granite",
     "<|tool_call|> [{\"name\": \"clock\", \"arguments\": {}}, {\"name\": \"clock\", "
     "\"arguments\": {}}]\n",
     "",
     {{"clock", "{}"}, {"clock", "{}"}}},
    {"granite", "<|tool_call|>{\"name\": \"clock\", \"arguments\": {}}", "", {{"clock", "{}"}}},
    {"granite",
     "Look. <|tool_call|>[{\"name\": \"clock\", \"arguments\": {}}]",
     "Look.",
     {{"clock", "{}"}}},
    {"granite", "<|tool_call|>[]", "", {}},
    {"granite", "<|tool_call|>clock()", "", {}},
    {"granite", "<|tool_call|>[{\"name\": 3, \"arguments\": {}}]", "", {}},
    {"granite", "<|tool_call|>[{\"name\": \"clock\", \"arguments\": {}}", "", {}},
    {"granite",
     "[{\"name\": \"clock\", \"arguments\": {}}]",
     "[{\"name\": \"clock\", \"arguments\": {}}]",
     {}},
    // Phi-4-mini
    {"phi-4-mini",
     "<|tool_call|>[{\"name\": \"get_weather\", \"arguments\": {\"city\": "
     "\"Oslo\"}}]<|/tool_call|>",
     "",
     {{"get_weather", kOslo}}},
    {"phi-4-mini",
     "<|tool_call|>{\"name\": \"clock\", \"arguments\": {}}<|/tool_call|>",
     "",
     {{"clock", "{}"}}},
    {"phi-4-mini",
     "<|tool_call|>[{\"name\": \"clock\", \"arguments\": {}}]",
     "",
     {{"clock", "{}"}}},
    {"phi-4-mini",
     "<|tool_call|>[{\"name\": \"clock\", \"arguments\": {}}, 3]<|/tool_call|>",
     "",
     {}},
    {"functools",
     "functools[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}]",
     "",
     {{"get_weather", kOslo}}},
    {"functools", "import functools", "import functools", {}},
    // Llama 3.1, 3.2, 3.3
    {"llama", "It is 4.", "It is 4.", {}},
    {"llama",
     "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Oslo\"}}",
     "",
     {{"get_weather", kOslo}}},
    {"llama",
     "<|python_tag|>{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Oslo\"}}",
     "",
     {{"get_weather", kOslo}}},
    {"llama", "\n{\"name\": \"clock\", \"arguments\": {}}\n", "", {{"clock", "{}"}}},
    {"llama",
     "{\"name\": \"clock\", \"parameters\": {}}; {\"name\": \"clock\", \"parameters\": {}}",
     "",
     {{"clock", "{}"}, {"clock", "{}"}}},
    {"llama",
     "{\"type\": \"function\", \"name\": \"clock\", \"parameters\": {}}",
     "",
     {{"clock", "{}"}}},
    {"llama",
     "{\"name\": \"Ada\", \"parameters\": {}}",
     "{\"name\": \"Ada\", \"parameters\": {}}",
     {}},
    {"llama", "{\"answer\": 4}", "{\"answer\": 4}", {}},
    {"llama",
     "{\"name\": \"clock\", \"parameters\": {}} is how",
     "{\"name\": \"clock\", \"parameters\": {}} is how",
     {}},
    {"llama",
     "{\"name\": \"clock\", \"parameters\": {",
     "{\"name\": \"clock\", \"parameters\": {",
     {}},
    {"llama", "<|python_tag|>print(4)", "<|python_tag|>print(4)", {}},
    // Gemma 4
    {"gemma", "It is 4.", "It is 4.", {}},
    {"gemma",
     "<|tool_call>call:get_weather{city:<|\"|>Oslo<|\"|>}<tool_call|>",
     "",
     {{"get_weather", R"({"city":"Oslo"})"}}},
    {"gemma",
     "<|tool_call>call:get_weather{city:<|\"|>a, {b}\"<|\"|>,days:2,warm:true}<tool_call|>",
     "",
     {{"get_weather", R"({"city":"a, {b}\"","days":2,"warm":true})"}}},
    {"gemma", "<|tool_call>call:clock{}<tool_call|>", "", {{"clock", "{}"}}},
    {"gemma",
     "<|tool_call>call:clock{}<tool_call|><|tool_call>call:clock{}<tool_call|>",
     "",
     {{"clock", "{}"}, {"clock", "{}"}}},
    {"gemma",
     "Look.<|tool_call>call:f{a:{b:[1,-2.5,<|\"|>x<|\"|>],c:null},d:[]}<tool_call|>",
     "Look.",
     {{"f", R"({"a":{"b":[1,-2.5,"x"],"c":null},"d":[]})"}}},
    {"gemma", "<|tool_call>call:f{<|\"|>a b<|\"|>:1}<tool_call|>", "", {{"f", R"({"a b":1})"}}},
    {"gemma", "<|tool_call>call:clock{}", "", {{"clock", "{}"}}},
    {"gemma", "<|tool_call>call:f{a:<|\"|>x}<tool_call|>", "", {}},
    {"gemma", "<|tool_call>call:f{a:x}<tool_call|>", "", {}},
    {"gemma", "<|tool_call>call:f{a:1", "", {}},
    // Seed-OSS, Command R7B
    {"seed",
     "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Oslo</parameter>\n</function>\n</"
     "seed:tool_call>",
     "",
     {{"get_weather", kOslo}}},
    {"command",
     "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", "
     "\"parameters\": "
     "{\"city\": \"Oslo\"}}\n]<|END_ACTION|>",
     "",
     {{"get_weather", kOslo}}},
};

TEST_CASE("calls are read in each format, and a broken one stays content") {
  const Tools tools = read_request_tools(weather_tools(), nullptr);
  for (const AnswerCase& one : kAnswers) {
    CAPTURE(one.format, one.answer);
    const ReadAnswer read = read_calls(one.answer, format_named(one.format), tools);
    REQUIRE(read.calls.size() == one.calls.size());
    CHECK(read.content == (one.calls.empty() ? one.answer : one.content));
    for (size_t i = 0; i < one.calls.size(); ++i) {
      CHECK(read.calls[i].name == one.calls[i].first);
      if (one.calls[i].second) CHECK(read.calls[i].arguments == one.calls[i].second);
    }
  }
}

TEST_CASE("each template has its format, and what it writes is read back") {
  const Tools tools = read_request_tools(weather_tools(), nullptr);
  const std::string given = R"({"city":"Os\"lo","days":2,"warm":false,"places":["a","b"]})";
  for (const FormatTemplate& one : kFormatTemplates) {
    CAPTURE(one.format);
    const ToolFormat* format = tool_format(one.text);
    REQUIRE(format != nullptr);
    CHECK(format->name == one.format);
    const ChatTemplate chat({{"default", "test", one.text}}, {});
    CHECK(chat.knows_tools());
    Json conversation = {{"tools", weather_tools()}};
    conversation["messages"] =
        Json::array({{{"role", "assistant"}, {"content", ""}, {"tool_calls", Json::array()}}});
    conversation["messages"][0]["tool_calls"].push_back(
        {{"id", "123456789"},
         {"type", "function"},
         {"function", {{"name", "get_weather"}, {"arguments", given}}}});
    conversation["tools"] = Json::array();  // the call alone
    const std::string text = chat.render(read_conversation(dump(conversation), "test"));
    CAPTURE(text);
    const size_t begin = format->bare ? text.find('{') : text.find(format->begin);
    REQUIRE(begin != std::string::npos);
    const ReadAnswer read = read_calls(text.substr(begin), *format, tools);
    REQUIRE(read.calls.size() == 1);
    CHECK(read.calls[0].name == "get_weather");
    CHECK(parse_json(read.calls[0].arguments) == parse_json(given));
  }
}

TEST_CASE("without parallel calls the first one counts") {
  Tools tools = read_request_tools(weather_tools(), nullptr);
  tools.parallel = false;
  const std::string call = "<tool_call>{\"name\": \"clock\", \"arguments\": {}}</tool_call>";
  const ReadAnswer read = read_calls(call + call, format_named("hermes"), tools);
  CHECK(read.calls.size() == 1);
}

TEST_CASE("a template without marks of calls has no known format") {
  CHECK(tool_format("{{ messages[0].content }}") == nullptr);
  CHECK(tool_format("{{ tools | tojson }}") == nullptr);
}

}  // namespace
}  // namespace skald::test
