#include "tokenizer/chat/chat_template.h"

#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

const SpecialTexts kSpecial = {"<s>", "</s>", {}, {}};

std::string render(const std::string& text, const std::string& conversation,
                   bool generation_prompt = true) {
  Conversation given = read_conversation(conversation, "messages");
  given.generation_prompt = generation_prompt;
  return ChatTemplate({{"default", "here", text}}, kSpecial).render(given);
}

constexpr const char* kTalk =
    R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello!"}, {"role": "user", "content": "Bye"}])";

std::string builtin(std::string_view name, bool generation_prompt = true) {
  return render(builtin_template(name)->text, kTalk, generation_prompt);
}

TEST_CASE("the built-in templates render as their models expect") {
  CHECK(builtin("chatml") ==
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\nHello!<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"
        "<|im_start|>assistant\n");
  CHECK(builtin("llama2") ==
        "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Hello! </s><s>[INST] Bye [/INST]");
  CHECK(builtin("llama3", false) ==
        "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nHello!<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>");
  CHECK(builtin("mistral") == "<s>[INST] Be brief.\n\nHi [/INST] Hello!</s>[INST] Bye [/INST]");
  CHECK(builtin("gemma") ==
        "<s><start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\nHello!"
        "<end_of_turn>\n<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n");
  CHECK(builtin("phi3") ==
        "<|system|>\nBe brief.<|end|>\n<|user|>\nHi<|end|>\n<|assistant|>\nHello!<|end|>\n"
        "<|user|>\nBye<|end|>\n<|assistant|>\n");
  CHECK(builtin("zephyr") ==
        "<|system|>\nBe brief.</s>\n<|user|>\nHi</s>\n<|assistant|>\nHello!</s>\n<|user|>\nBye"
        "</s>\n<|assistant|>\n");
  CHECK(builtin("vicuna") ==
        "<s>Be brief.\n\nUSER: Hi\nASSISTANT: Hello!</s>\nUSER: Bye\nASSISTANT:");
  CHECK(builtin("deepseek") ==
        "<s>Be brief.\n\nUser: Hi\n\nAssistant: Hello!</s>User: Bye\n\nAssistant:");
  CHECK(builtin("openchat") ==
        "<s>Be brief.<|end_of_turn|>GPT4 Correct User: Hi<|end_of_turn|>GPT4 Correct Assistant: "
        "Hello!<|end_of_turn|>GPT4 Correct User: Bye<|end_of_turn|>GPT4 Correct Assistant:");
  for (std::string_view name : builtin_template_names()) {
    CAPTURE(std::string(name));
    CHECK(has(builtin(name), "Bye"));
    CHECK(has(builtin(name), "Be brief."));
    CHECK(builtin(name).size() >= builtin(name, false).size());
  }
  CHECK(!builtin_template("nosuch"));
}

TEST_CASE("a conversation is a list of messages, or an object with tools and variables") {
  const std::string text =
      "{{ messages | length }}{{ tools }}{{ documents }}{{ thinking }}{{ bos_token }}"
      "{{ unk_token is defined }}{{ add_generation_prompt }}";
  CHECK(render(text, R"([{"role": "user"}])") == "1NoneNone<s>FalseTrue");
  CHECK(render(text, R"({"messages": [{"role": "user"}], "tools": [1], "documents": [2],
                         "chat_template_kwargs": {"thinking": "t", "bos_token": "B"}})",
               false) == "1[1][2]tBFalseFalse");
  const auto said = [](const char* json) {
    return error_text([&] { read_conversation(json, "m.json"); }, Exit::Usage);
  };
  CHECK(has(said("[{\"role\": \"user\"}, {\"content\": \"x\"}]"), "m.json: message 2: expected"));
  CHECK(has(said("[]"), "the list of messages is empty"));
  CHECK(has(said("5"), "expected a list of messages"));
  CHECK(has(said("{}"), "expected a list of messages"));
  CHECK(has(said("[{\"role\": 5}]"), "message 1"));
  CHECK(has(said("{\"messages\": [{\"role\": \"user\"}], \"tools\": 5}"), "\"tools\" is a int"));
  CHECK(has(said("[{"), "not valid JSON"));
  CHECK(error_text([] { read_tools("{}", "t.json"); }, Exit::Usage) ==
        "t.json: expected a list of tools");
}

TEST_CASE("contents in parts are joined for a template that expects strings") {
  constexpr const char* kParts =
      R"([{"role": "user", "content": [{"type": "text", "text": "a"},
                                       {"type": "text", "text": "b"}]}])";
  CHECK(render("{% for m in messages %}{{ m.content + '!' }}{% endfor %}", kParts) == "a\nb!");
  CHECK(render("{% for m in messages %}{{ m.content }}{% endfor %}", kParts) == "a\nb");
  CHECK(render("{% for m in messages %}{% for p in m.content %}[{{ p.text }}]{% endfor %}"
               "{% endfor %}",
               kParts) == "[a][b]");
  CHECK(has(error_text(
                [] {
                  render("{{ messages[0].content + '!' }}",
                         R"([{"role": "user", "content": [{"type": "image"}]}])");
                },
                Exit::Failed),
            "supports only text"));
}

TEST_CASE("the arguments of a tool call may be a string of JSON") {
  constexpr const char* kCall =
      R"([{"role": "assistant", "content": null, "tool_calls": [
           {"function": {"name": "f", "arguments": "{\"x\": [1, 2.0]}"}}]}])";
  const std::string get = "messages[0].tool_calls[0].function.arguments";
  CHECK(render("{{ " + get + " | tojson }}{{ " + get + ".x[1] }}", kCall) ==
        "{\"x\": [1, 2.0]}2.0");
  CHECK(render("{{ 'a' + " + get + " }}", kCall) == "a{\"x\": [1, 2.0]}");
}

TEST_CASE("a template that refuses the messages is an error that gives the line") {
  CHECK(error_text([] { render("a\n{{ raise_exception('no ' + 'system') }}", kTalk); },
                   Exit::Failed) == "here: line 2: the template refuses these messages: no system");
}

TEST_CASE("with tools, the template named tool_use is chosen") {
  const ChatTemplate chat({{"rag", "r", "R"}, {"default", "d", "D"}, {"tool_use", "t", "T"}}, {});
  CHECK(chat.source() == "d");
  CHECK(chat.render(read_conversation(kTalk, "m")) == "D");
  Conversation tools = read_conversation(kTalk, "m");
  tools.tools = read_tools("[{}]", "t");
  CHECK(chat.render(tools) == "T");
}

TEST_CASE("templates and special tokens' texts are found in a model's folder") {
  TempFolder folder;
  CHECK(read_chat_templates(folder.path()).empty());
  CHECK(!read_special_texts(folder.path()).bos);
  folder.write("chat_template.json", R"({"chat_template": "third"})");
  CHECK(read_chat_templates(folder.path())[0].source == "chat_template.json");
  folder.write("tokenizer_config.json",
               R"({"chat_template": "second", "bos_token": {"content": "<b>"}, "eos_token": null,
                   "model_max_length": 1000000000000000019884624838656})");
  CHECK(read_chat_templates(folder.path())[0].text == "second");
  folder.write("special_tokens_map.json", R"({"bos_token": "other", "eos_token": "<e>"})");
  CHECK(read_special_texts(folder.path()).bos == "<b>");
  CHECK(read_special_texts(folder.path()).eos == "<e>");
  folder.write("chat_template.jinja", "first");
  CHECK(read_chat_templates(folder.path())[0].text == "first");
  std::filesystem::remove(folder.path() / "chat_template.jinja");

  folder.write("tokenizer_config.json",
               R"({"chat_template": [{"name": "default", "template": "D"},
                                     {"name": "tool_use", "template": "T"}]})");
  const auto all = read_chat_templates(folder.path());
  REQUIRE(all.size() == 2);
  CHECK(all[1].name == "tool_use");
  CHECK(all[1].source == "tokenizer_config.json: tool_use");

  for (const char* bad : {R"({"chat_template": 5})", R"({"chat_template": [5]})",
                          R"({"chat_template": [{"name": "x"}]})", "[]", "{"}) {
    CAPTURE(bad);
    folder.write("tokenizer_config.json", bad);
    CHECK(has(error_text([&] { read_chat_templates(folder.path()); }), "tokenizer_config.json"));
  }
}

}  // namespace
}  // namespace skald::test
