// skald batch with tools: prompts, calls in answers, forced calls, the template's variables.
#include "tests/app/batch/files.h"
#include "tests/app/tools/tool_tools.h"
#include "tests/catch.h"
#include "tests/channel_models.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

const std::string kAsk = R"("messages":[{"role":"user","content":"Hi"}])";
const std::string kTools = R"("tools":[{"type":"function","function":{"name":"clock"}}])";
// All of its calls are one text.
const std::string kOneCall =
    R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object",)"
    R"("properties":{"a":{"const":"x"}},"required":["a"],"additionalProperties":false}}}])";

std::string test_template(const std::string& format) {
  for (const FormatTemplate& one : kFormatTemplates) {
    // The model's first successor is that of the byte "t".
    if (one.format == format) return std::string(one.text) + "assistant";
  }
  FAIL("no such format");
  return "";
}

struct ToolFiles : BatchFiles {
  ToolFiles(const ChannelModel& wanted, const std::string& requests) : BatchFiles(requests) {
    model = folder.write("tools.gguf", channel_gguf(wanted)).string();
  }

  // The first choice or the error of each line.
  std::vector<Json> answers(std::vector<std::string> more = {}, int code = 0) const {
    more.insert(more.end(), kScripted.begin(), kScripted.end());
    const Outcome outcome = run(more);
    CAPTURE(outcome.err);
    CHECK(outcome.code == code);
    std::vector<Json> all;
    for (const Json& line : results()) {
      const bool failed = !line["error"].is_null();
      all.push_back(failed ? line["error"] : line["response"]["body"]["choices"][0]);
    }
    return all;
  }
};

ChannelModel hermes(std::vector<std::string> script) {
  script.emplace_back("</s>");
  return {
      .script = std::move(script), .chat_template = test_template("hermes"), .control_pieces = {}};
}

TEST_CASE("a call in the answer's text becomes tool_calls where the line offers tools") {
  const ToolFiles files(hermes({"I look.\n", "<tool_call>", "{\"name\": \"clock\", ",
                                "\"arguments\": {}}", "</tool_call>"}),
                        "{" + kAsk + "," + kTools + "}\n{" + kAsk + "}\n{" + kAsk + "," + kTools +
                            ",\"tool_choice\":\"none\"}\n{" + kAsk + "," + kTools +
                            ",\"max_tokens\":3}\n");
  const std::vector<Json> answers = files.answers();
  REQUIRE(answers.size() == 4);
  CHECK(answers[0]["finish_reason"] == "tool_calls");
  CHECK(answers[0]["message"]["content"] == "I look.");
  const Json call = answers[0]["message"]["tool_calls"][0];
  CHECK(call["type"] == "function");
  CHECK(call["function"] == Json({{"name", "clock"}, {"arguments", "{}"}}));
  CHECK(has(call["id"].get<std::string>(), "call_"));
  const std::string whole =
      "I look.\n<tool_call>{\"name\": \"clock\", \"arguments\": {}}</tool_call>";
  for (const size_t i : {1, 2}) {
    CHECK(answers[i]["message"]["content"] == whole);
    CHECK(!answers[i]["message"].contains("tool_calls"));
    CHECK(answers[i]["finish_reason"] == "stop");
  }
  CHECK(answers[3]["message"]["content"] == "I look.\n<tool_call>{\"name\": \"clock\", ");
  CHECK(answers[3]["finish_reason"] == "length");
}

TEST_CASE("marks that are control tokens are read too, and ids are as the template takes them") {
  const ChannelModel model{.script = {"[TOOL_CALLS]", "clock", "[ARGS]", "{}", "</s>"},
                           .chat_template = test_template("mistral-args"),
                           .control_pieces = {"[TOOL_CALLS]", "[ARGS]"}};
  const ToolFiles files(model, "{" + kAsk + "," + kTools + "}\n{" + kAsk + "}\n");
  const std::vector<Json> answers = files.answers();
  REQUIRE(answers[0]["message"]["tool_calls"].size() == 1);
  CHECK(answers[0]["message"]["tool_calls"][0]["function"]["name"] == "clock");
  CHECK(answers[0]["message"]["tool_calls"][0]["id"].get<std::string>().size() == 9);
  CHECK(answers[0]["message"]["content"] == "");
  CHECK(answers[1]["message"]["content"] == "clock{}");
}

TEST_CASE("thinking stays before the calls, or apart from them") {
  const ChannelModel model = hermes({"<think>", "<tool_call>?", "</think>", "\n\n", "<tool_call>",
                                     "{\"name\":\"clock\",\"arguments\":{}}", "</tool_call>"});
  const ToolFiles files(model, "{" + kAsk + "," + kTools + "}\n");
  const Json together = files.answers()[0];
  CHECK(together["message"]["content"] == "<think><tool_call>?</think>");
  CHECK(together["message"]["tool_calls"].size() == 1);
  CHECK(!together["message"].contains("reasoning_content"));
  const ToolFiles apart(model, "{" + kAsk + "," + kTools + "}\n");
  const Json separate = apart.answers({"--separate-thinking"})[0];
  CHECK(separate["message"]["content"] == "");
  CHECK(separate["message"]["reasoning_content"] == "<tool_call>?");
  CHECK(separate["message"]["tool_calls"].size() == 1);
}

TEST_CASE("tool_choice required forces a call, in text and in control tokens") {
  const std::string lines = "{" + kAsk + "," + kOneCall +
                            ",\"tool_choice\":\"required\",\"parallel_tool_calls\":false}\n{" +
                            kAsk + "," + kOneCall +
                            ",\"parallel_tool_calls\":false,\"tool_choice\":{\"type\":\"function\","
                            "\"function\":{\"name\":\"f\"}}}\n";
  const auto check = [&](const ToolFiles& files) {
    for (const Json& answer : files.answers()) {
      CAPTURE(answer);
      REQUIRE(answer["message"]["tool_calls"].size() == 1);
      const Json function = answer["message"]["tool_calls"][0]["function"];
      CHECK(function["name"] == "f");
      CHECK(parse_json(function["arguments"].get<std::string>()) == Json({{"a", "x"}}));
      CHECK(answer["message"]["content"] == "");
      CHECK(answer["finish_reason"] == "tool_calls");
    }
  };
  check(ToolFiles(hermes({"It is", " 4."}), lines));
  check(ToolFiles({.script = {"It is", " 4.", "</s>"},
                   .chat_template = test_template("mistral-args"),
                   .control_pieces = {"[TOOL_CALLS]", "[ARGS]"}},
                  lines));
  // gpt-oss may think before.
  const ToolFiles channels({.script = {"<|channel|>", "analysis", "<|message|>", "Two and", " two?",
                                       "<|end|>", "<|start|>", "assistant", "<|channel|>",
                                       "commentary", " to=functions.f", "<|message|>", "<|call|>"},
                            .chat_template = "{# <|call|> #}{{ tools | tojson if tools }}" +
                                             std::string(kChannelTemplate)},
                           lines);
  for (const Json& answer : channels.answers()) {
    CAPTURE(answer);
    CHECK(answer["message"]["reasoning_content"] == "Two and two?");
    REQUIRE(answer["message"]["tool_calls"].size() == 1);
    CHECK(answer["message"]["tool_calls"][0]["function"]["name"] == "f");
    CHECK(answer["finish_reason"] == "tool_calls");
  }
}

TEST_CASE("a template that does not know tools fails the line, and only that") {
  ChannelModel model = hermes({"It is", " 4."});
  model.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}assistant";
  const ToolFiles files(model, "{" + kAsk + "," + kTools + "}\n{" + kAsk + "}\n{" + kAsk + "," +
                                   kTools + ",\"tool_choice\":\"none\"}\n");
  const std::vector<Json> answers = files.answers({}, 5);
  CHECK(has(answers[0]["message"].get<std::string>(), "does not know tools"));
  CHECK(answers[1]["message"]["content"] == "It is 4.");
  CHECK(answers[2]["message"]["content"] == "It is 4.");
}

TEST_CASE("where the form of calls is not known, answers stay text and no call can be forced") {
  ChannelModel model = hermes({"It is", " 4."});
  model.chat_template = "{{ tools | tojson if tools }}{{ messages[0].content }}assistant";
  const ToolFiles files(model, "{" + kAsk + "," + kTools + "}\n{" + kAsk + "," + kTools +
                                   ",\"tool_choice\":\"required\"}\n");
  const std::vector<Json> answers = files.answers({}, 5);
  CHECK(answers[0]["message"]["content"] == "It is 4.");
  CHECK(has(answers[1]["message"].get<std::string>(), "does not know how this model's template"));
}

TEST_CASE("bad tools are errors of their line") {
  const ToolFiles files(
      hermes({"yes"}),
      "{" + kAsk + ",\"tools\":[{\"name\":\"f\"}]}\n{" + kAsk + "," + kTools +
          ",\"tool_choice\":\"maybe\"}\n{" + kAsk + ",\"tool_choice\":\"required\"}\n{" + kAsk +
          "," + kTools + ",\"parallel_tool_calls\":3}\n{" + kAsk +
          ",\"reasoning_effort\":\"hgih\"}\n{" + kAsk + ",\"chat_template_kwargs\":[]}\n{" + kAsk +
          "," + kTools +
          ",\"tool_choice\":\"required\",\"response_format\":{\"type\":\"json_object\"}}\n");
  const std::vector<Json> errors = files.answers({}, 5);
  REQUIRE(errors.size() == 7);
  const char* expected[] = {"tool 1: expected",
                            "field 'tool_choice': expected",
                            "'tools' has no function",
                            "field 'parallel_tool_calls'",
                            "'hgih'",
                            "chat_template_kwargs",
                            "field 'response_format'"};
  for (size_t i = 0; i < errors.size(); ++i) {
    CHECK(has(errors[i]["message"].get<std::string>(), expected[i]));
  }
}

// The prompt's length tells what the template wrote.
TEST_CASE("variables of the template come from the line, and else from flags") {
  ChannelModel model = hermes({"yes"});
  model.chat_template =
      "{{ reasoning_effort | default('') }}{{ 'think' if enable_thinking is not defined or "
      "enable_thinking }}{% for m in messages %}{{ m.reasoning_content | default('') }}"
      "{{ m.content }}{% endfor %}assistant";
  const std::string lines =
      "{" + kAsk + "}\n{" + kAsk + ",\"reasoning_effort\":\"medium\"}\n{" + kAsk +
      ",\"chat_template_kwargs\":{\"enable_thinking\":false}}\n"
      "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\",\"content\":"
      "\"\",\"reasoning_content\":\"hmm\"}]}\n";
  const auto lengths = [&](std::vector<std::string> more) {
    const ToolFiles files(model, lines);
    more.insert(more.end(), kScripted.begin(), kScripted.end());
    CHECK(files.run(more).code == 0);
    std::vector<int64_t> counts;
    for (const Json& line : files.results()) {
      counts.push_back(line["response"]["body"]["usage"]["prompt_tokens"]);
    }
    return counts;
  };
  const std::vector<int64_t> plain = lengths({});
  const int64_t first = plain[0];
  CHECK(plain == std::vector<int64_t>{first, first + 6, first - 5, first + 3});
  CHECK(lengths({"--reasoning-effort", "low"}) ==
        std::vector<int64_t>{first + 3, first + 6, first - 2, first + 6});
  CHECK(lengths({"--chat-template-kwargs", "{\"enable_thinking\": false}"}) ==
        std::vector<int64_t>{first - 5, first + 1, first - 5, first - 2});
}

TEST_CASE(
    "reasoning_effort has no effect where the template does not know it, and a line says so") {
  BatchFiles files("{" + kAsk + ",\"reasoning_effort\":\"low\"}\n");
  files.model = files.folder.write("m.gguf", channel_gguf(hermes({"yes"}))).string();
  std::vector<std::string> arguments = files.arguments(kScripted);
  std::erase(arguments, "-q");
  const Outcome outcome = skald(arguments);
  CHECK(outcome.code == 0);
  CHECK(has(outcome.err, "fields without effect: reasoning_effort"));
}

TEST_CASE("calls of earlier messages reach the template, with ids that it takes") {
  ChannelModel model = hermes({"yes"});
  model.chat_template =
      "{# [TOOL_CALLS] #}{% for m in messages %}{% for c in m.tool_calls or [] %}"
      "{% if c.id | length != 9 %}{{ raise_exception('nine') }}{% endif %}{{ c.id }}"
      "{{ c.function.arguments.city }}{% endfor %}{% if m.role == 'tool' %}"
      "{% if m.tool_call_id != messages[1].tool_calls[0].id %}{{ raise_exception('other id') }}"
      "{% endif %}{% endif %}{% endfor %}assistant";
  const std::string call =
      R"({"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":null,)"
      R"("tool_calls":[{"id":"call_a_long_one","type":"function","function":{"name":"get_weather",)"
      R"("arguments":"{\"city\": \"Oslo\"}"}}]},{"role":"tool","tool_call_id":"call_a_long_one",)"
      R"("content":"{}"}]})";
  CHECK(ToolFiles(model, call + "\n").answers()[0]["message"]["content"] == "yes");
}

}  // namespace
}  // namespace skald::test
