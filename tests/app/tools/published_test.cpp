// Published chat templates: prompts with tools as Jinja2 renders them (scripts/make_tool_cases.py),
// and calls that the templates write, read back.
#include <algorithm>
#include <map>

#include "app/files/input.h"
#include "app/tools/read_calls.h"
#include "tests/app/tools/tool_tools.h"
#include "tests/paths.h"
#include "tokenizer/chat/chat_template.h"

namespace skald::test {
namespace {

const std::string kFolder = "chat_templates";

ChatTemplate published(const std::string& name) {
  const std::string text = read_text((shared_dir() / kFolder / name).string());
  return ChatTemplate({{"default", name, text}},
                      {.bos = "<s>", .eos = "</s>", .unk = {}, .pad = {}});
}

jinja::RenderOptions at_a_fixed_time() {
  jinja::RenderOptions options;
  std::tm now{};
  now.tm_year = 2024 - 1900;
  now.tm_mon = 6;
  now.tm_mday = 26;
  now.tm_hour = 13;
  now.tm_min = 5;
  now.tm_wday = 5;
  now.tm_yday = 207;
  options.now = now;
  return options;
}

TEST_CASE("published templates write tools and calls as Jinja2 does") {
  if (!have_shared(kFolder + "/cases.json")) return;
  const Json cases = parse_json(read_text((shared_dir() / kFolder / "cases.json").string()));
  std::map<std::string, std::vector<std::string>> wrong;
  size_t right = 0;
  for (const Json& one : cases) {
    const std::string name = one["template"];
    const ChatTemplate chat = published(name);
    std::string prompt;
    try {
      prompt = chat.render(read_conversation(dump(one["request"]), "case"), at_a_fixed_time());
    } catch (const Error& error) {
      prompt = error.what();
    }
    if (prompt == one["prompt"]) {
      ++right;
    } else {
      wrong[name].push_back(one["name"].get<std::string>() + ": " + prompt.substr(0, 300));
    }
  }
  CAPTURE(right, wrong);
  CHECK(wrong.empty());
  CHECK(right > 0);
}

TEST_CASE("calls that published templates write are read back") {
  if (!have_shared(kFolder + "/cases.json")) return;
  const std::map<std::string, std::string> formats = {
      {"ByteDance-Seed-OSS", "seed"},
      {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", "command"},
      {"GLM-4.6", "glm"},
      {"MiniMax-M2", "minimax"},
      {"Mistral-Small-3.2-24B-Instruct-2506", "mistral-id"},
      {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "hermes"},
      {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "hermes"},
      {"Qwen-QwQ-32B", "hermes"},
      {"Qwen-Qwen2.5-7B-Instruct", "hermes"},
      {"Qwen-Qwen3-0.6B", "hermes"},
      {"Qwen3-Coder", "qwen-xml"},
      {"Qwen3.5-4B", "qwen-xml"},
      {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "deepseek-v3"},
      {"deepseek-ai-DeepSeek-V3.1", "deepseek-v3.1"},
      {"google-gemma-4-31B-it", "gemma"},
      {"ibm-granite-granite-4.0", "hermes"},
      {"meta-llama-Llama-3.1-8B-Instruct", "llama"},
      {"meta-llama-Llama-3.2-3B-Instruct", "llama"},
      {"meta-llama-Llama-3.3-70B-Instruct", "llama"},
      {"mistralai-Ministral-3-14B-Reasoning-2512", "mistral-args"},
      {"mistralai-Mistral-Nemo-Instruct-2407", "mistral"},
      {"unsloth-mistral-Devstral-Small-2507", "mistral-args"},
  };
  // Some templates know no lists of types.
  Json offered = weather_tools();
  offered[0]["function"]["parameters"]["properties"].erase("note");
  const Tools tools = read_request_tools(offered, nullptr);
  for (const auto& [name, format_name] : formats) {
    CAPTURE(name);
    const ChatTemplate chat = published(name + ".jinja");
    const ToolFormat* format = tool_format(chat.text_for_tools());
    REQUIRE(format != nullptr);
    CHECK(format->name == format_name);
    // DeepSeek's templates write calls, but not the tools.
    CHECK(chat.knows_tools() == !format_name.starts_with("deepseek"));
    Json conversation = parse_json(R"({"messages": [{"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "123456789",
         "type": "function", "function": {"name": "get_weather", "arguments":
         {"city": "Os\"lo", "days": 2, "places": ["a", "b"], "place": {"x": 1.5}}}}]},
        {"role": "tool", "tool_call_id": "123456789", "name": "get_weather", "content": "{}"}]})");
    conversation["tools"] = offered;
    const Json given = conversation["messages"][1]["tool_calls"][0]["function"]["arguments"];
    const std::string text =
        chat.render(read_conversation(dump(conversation), "case"), at_a_fixed_time());
    CAPTURE(text);
    const std::string begin =
        format->bare ? std::string("{\"name\": \"get_weather\", ") : std::string(format->begin);
    const size_t at = text.rfind(begin);
    REQUIRE(at != std::string::npos);
    // Up to what ends the message.
    std::string answer = text.substr(at);
    for (const char* end : {"<|eot_id|>", "</s>", "<|im_end|>", "<|observation|>", "[e~[\n",
                            "<|tool_response>", "<\uff5cend\u2581of\u2581sentence\uff5c>",
                            "<|end_of_text|>", "<seed:eos>", "<|END_OF_TURN_TOKEN|>"}) {
      answer = answer.substr(0, answer.find(end));
    }
    CAPTURE(answer);
    const ReadAnswer read = read_calls(answer, *format, tools);
    REQUIRE(read.calls.size() == 1);
    CHECK(read.calls[0].name == "get_weather");
    // Gemma's template sorts the members.
    CHECK(nlohmann::json::parse(read.calls[0].arguments) == nlohmann::json::parse(dump(given)));
    CHECK(read.content.empty());
  }
}

}  // namespace
}  // namespace skald::test
