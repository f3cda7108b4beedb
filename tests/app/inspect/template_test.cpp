#include <nlohmann/json.hpp>

#include "tests/program_output.h"
#include "tests/small_models.h"

namespace skald::test {
namespace {

using Json = nlohmann::json;

constexpr const char* kMessages =
    R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi </s> you"}])";

// A GGUF of one layer with a vocabulary of bytes and a chat template.
std::string gguf_with_template(const TempFolder& folder) {
  FlatModel model;
  model.chat_template =
      "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ eos_token }}"
      "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";
  return folder.write("model.gguf", flat_gguf(model)).string();
}

TEST_CASE("the rendered prompt is exact, with or without the beginning of an answer") {
  TempFolder folder;
  const std::string file = folder.write("m.json", kMessages).string();
  const std::string model = (data_dir() / "gguf" / "kq256.q8_0.gguf").string();
  const std::string prompt =
      "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n"
      "Hi </s> you<|im_end|>\n";
  const std::vector<std::string> command{"template", model, "--chat-template", "chatml"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), command.begin(), command.end());
    return more;
  };
  CHECK(silent_output(with({"-i", file})) == prompt + "<|im_start|>assistant\n");
  CHECK(silent_output(with({"-i", "-"}), kMessages) == prompt + "<|im_start|>assistant\n");
  CHECK(silent_output(command, kMessages) == prompt + "<|im_start|>assistant\n");
  CHECK(silent_output(with({"-i", file, "--no-generation-prompt"})) == prompt);

  const std::string own = folder.write("own.jinja", "{{ tools | tojson }}{{ x }}\n\n").string();
  const std::string tools = folder.write("tools.json", R"([{"name": "f"}])").string();
  CHECK(silent_output({"template", model, "-i", file, "--chat-template", own, "--tools", tools,
                       "--chat-template-kwargs", R"({"x": "y"})"}) == "[{\"name\": \"f\"}]y\n");
}

TEST_CASE("a model's own template is used, and inspect shows it") {
  TempFolder folder;
  const std::string file = folder.write("m.json", kMessages).string();
  const std::string model = gguf_with_template(folder);
  CHECK(silent_output({"template", model, "-i", file}) ==
        "<s>[system] Be brief.</s>[user] Hi </s> you</s>[assistant]");
  CHECK(has(silent_output({"inspect", model}),
            "chat        its own in GGUF tokenizer.chat_template"));
  const Json report = Json::parse(silent_output({"inspect", model, "--json"}));
  CHECK(report["chat_templates"][0]["source"] == "GGUF tokenizer.chat_template");

  make_folder(folder.path() / "hf", "llama-mha");
  const std::string hf = (folder.path() / "hf").string();
  CHECK(has(silent_output({"inspect", hf}), "chat        none"));
  std::ofstream(folder.path() / "hf" / "chat_template.jinja")
      << "<|im_start|>{{ messages | length }}";
  CHECK(silent_output({"template", hf, "-i", file}) == "<|im_start|>2");
  CHECK(has(silent_output({"inspect", hf}), "chat        chatml in chat_template.jinja, "));
}

TEST_CASE("control tokens of the template become tokens, those in a message stay text") {
  TempFolder folder;
  const std::string file = folder.write("m.json", kMessages).string();
  const std::string model = gguf_with_template(folder);
  const Json report = Json::parse(silent_output({"template", model, "-i", file, "--json"}));
  const std::vector<int> ids = report["ids"];
  CHECK(report["prompt"] == "<s>[system] Be brief.</s>[user] Hi </s> you</s>[assistant]");
  // One <s>, although the tokenizer adds one too.
  CHECK(std::count(ids.begin(), ids.end(), 1) == 1);
  CHECK(ids.front() == 1);
  // The </s> of the two turns, not that of the message.
  CHECK(std::count(ids.begin(), ids.end(), 2) == 2);
  // Every other token is one byte of the prompt.
  std::string text;
  for (int id : ids) {
    text += id == 1   ? "<s>"
            : id == 2 ? "</s>"
                      : std::string(1, static_cast<char>(id - kFirstByteToken));
  }
  constexpr std::string_view kSpace = "\u2581";  // SentencePiece's sign for a space
  for (size_t at; (at = text.find(kSpace)) != std::string::npos;) {
    text.replace(at, kSpace.size(), " ");
  }
  CHECK(text == report["prompt"].get<std::string>());
  std::string line;
  for (int id : ids) line += std::to_string(id) + " ";
  line.back() = '\n';
  CHECK(silent_output({"template", model, "-i", file, "--ids"}) == line);
  // The template chatml has no BOS, so that the tokenizer adds one.
  const std::string chatml =
      silent_output({"template", model, "-i", file, "--ids", "--chat-template", "chatml"});
  CHECK(chatml.starts_with("1 "));
}

TEST_CASE("an error in template, messages or flags is reported in one line") {
  TempFolder folder;
  const std::string model = small_gguf();
  const std::string file = folder.write("m.json", kMessages).string();
  const auto fails = [&](std::vector<std::string> arguments, Exit code, const std::string& part,
                         const std::string& input = kMessages) {
    arguments.insert(arguments.begin(), "template");
    check_refused(skald(arguments, input), static_cast<int>(code), part);
  };
  fails({model}, Exit::Model, "has no chat template; choose one with --chat-template");
  fails({model, "--chat-template", "nosuch"}, Exit::Usage,
        "neither a file nor the name of a built-in template");
  fails({model, "--chat-template", "chatml"}, Exit::Usage, "stdin: is not valid JSON", "{");
  fails({model, "--chat-template", "chatml"}, Exit::Usage, "message 1", "[{}]");
  fails({model, "--chat-template", "chatml", "-i", file, "--tools", file + "x"}, Exit::Usage,
        "cannot be opened");
  fails({model, "--chat-template", "chatml", "--tools", "-"}, Exit::Usage, "both come from stdin");
  fails({model, "--chat-template", "chatml", "--chat-template-kwargs", "5"}, Exit::Usage,
        "expected a JSON object");
  fails({"/nonexistent"}, Exit::Model, "no such file or folder");
  const std::string broken = folder.write("broken.jinja", "a\n{% if %}").string();
  fails({model, "--chat-template", broken}, Exit::Model, "line 2: expected a value");
  const std::string refuses =
      folder.write("refuses.jinja", "{{ raise_exception('never') }}").string();
  fails({model, "--chat-template", refuses}, Exit::Failed,
        "line 1: the template refuses these messages: never");
}

}  // namespace
}  // namespace skald::test
