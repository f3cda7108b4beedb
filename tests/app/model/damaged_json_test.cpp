// JSON files of a model, and JSON that users give, with one thing wrong: the message is skald's
// own, no library's exception.
#include <nlohmann/json.hpp>

#include "app/model/chat_template.h"
#include "app/model/open.h"
#include "models/files/hf_config.h"
#include "models/text/chat_templates.h"
#include "tests/error_text.h"
#include "tests/program_output.h"
#include "tests/small_models.h"
#include "tokenizer/jinja/template.h"
#include "tokenizer/text/json_problem.h"

namespace skald::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// What messages of libraries look like.
void check_own_words(const std::string& message) {
  for (const char* foreign :
       {"json.exception", "parse error", "syntax error", "std::", "basic_string", "vector::", "_M_",
        "filesystem error", "stoi", "terminate", "CLI::", "bad_alloc", "did not expect"}) {
    if (has(message, foreign)) FAIL_CHECK("a library's words: " << message);
  }
}

// Values of every kind, and impossible numbers.
std::vector<Json> others() {
  return {nullptr, -1, 1e300, "x\x1b", {nullptr, "x", -1}, {{"type", 7}}};
}

// The text with each of its values replaced, down to a depth, and cut and broken.
std::vector<std::string> damaged(const std::string& text, int depth) {
  std::vector<std::string> all = {"",
                                  "{",
                                  "[]",
                                  "null",
                                  "3",
                                  "{\"a\":1e999}",
                                  "\xff",
                                  text + "x",
                                  std::string(100000, '['),
                                  text.substr(0, text.size() / 2)};
  const Json whole = Json::parse(text);
  std::vector<Json::json_pointer> places;
  const std::function<void(const Json&, const Json::json_pointer&, int)> visit =
      [&](const Json& json, const Json::json_pointer& place, int left) {
        if (!json.is_structured() || left == 0) return;
        int count = 0;
        for (const auto& [key, value] : json.items()) {
          if (++count > 30) return;  // a vocabulary: the first ones stand for all
          const auto inner = json.is_array() ? place / std::stoul(key) : place / key;
          places.push_back(inner);
          visit(value, inner, left - 1);
        }
      };
  visit(whole, Json::json_pointer(), depth);
  for (const auto& place : places) {
    for (const Json& other : others()) {
      Json changed = whole;
      changed[place] = other;
      all.push_back(changed.dump());
    }
  }
  return all;
}

void open_all(const fs::path& folder) {
  const OpenedModel opened = open_model(folder);
  open_tokenizer_if_any(opened);
  find_chat_templates(opened.path);
}

void sweep(const TempFolder& folder, const std::string& file, int depth) {
  const std::string original = read_file(folder.path() / file);
  for (const std::string& text : damaged(original, depth)) {
    folder.write(file, text);
    CAPTURE(file, text.substr(0, 300));
    try {
      open_all(folder.path());
    } catch (const Error& error) {
      check_own_words(error.what());
    } catch (const std::exception& error) {
      FAIL("an exception of a library: " << error.what());
    }
  }
  folder.write(file, original);
}

TEST_CASE("a model's damaged JSON files are refused in skald's own words") {
  for (const char* golden : {"llama3-gqa-tied-ropescale", "gemma4-ple"}) {
    TempFolder folder;
    for (const char* file : {"config.json", "model.safetensors"}) {
      fs::copy_file(data_dir() / "goldens" / golden / file, folder.path() / file);
    }
    sweep(folder, "config.json", 2);
  }
  TempFolder folder;
  for (const char* file : {"config.json", "model.safetensors"}) {
    fs::copy_file(data_dir() / "goldens" / "llama-mha" / file, folder.path() / file);
  }
  fs::copy_file(data_dir() / "tokenizer" / "byte.tokenizer.json", folder.path() / "tokenizer.json");
  folder.write(
      "tokenizer_config.json",
      R"({"bos_token":"<s>","eos_token":{"content":"</s>","lstrip":false},"add_bos_token":true,
"chat_template":[{"name":"default","template":"{{ messages }}"},{"name":"b","template":"x"}],
"added_tokens_decoder":{"0":{"content":"<s>","special":true}}})");
  folder.write("generation_config.json", R"({"eos_token_id":[1,2],"bos_token_id":1})");
  folder.write("special_tokens_map.json", R"({"eos_token":{"content":"</s>"}})");
  for (const char* file :
       {"tokenizer_config.json", "generation_config.json", "special_tokens_map.json"}) {
    sweep(folder, file, 3);
  }
  sweep(folder, "tokenizer.json", 1);
}

TEST_CASE("damaged JSON that users give is refused in skald's own words by every command") {
  TempFolder folder;
  const std::string model = folder.write("m.gguf", flat_gguf({})).string();
  const std::string file = (folder.path() / "file").string();
  const std::string out = folder.write("out.jsonl", "").string();
  const std::string text = folder.write("text", std::string(2000, 'a')).string();
  const std::vector<std::vector<std::string>> commands = {
      {"batch", model, "-i", file, "-q"},
      {"score", model, "-i", file, "-q"},
      {"batch", model, "-i", text, "-o", file, "--resume", "-q", "--text"},
      {"score", model, "-i", text, "-o", file, "--resume", "-q"},
      {"run", model, "-n", "1", "-p", "x", "-j", file},
      {"chat", model, "--chat-template", "chatml", "--session", file},
      {"perplexity", "--merge", file},
      {"perplexity", model, "-f", text, "--checkpoint", file},
      {"tokenize", model, "--jsonl", "-f", file},
      {"tokenize", model, "--check", file},
      {"template", model, "--chat-template", "chatml", "-f", file}};
  for (const std::string bad :
       {R"({"prompt":)", R"({"messages":[{"role":7}],"custom_id":[],"body":{"n":"x"}})",
        R"({"skald":"perplexity 2","protocol":[],"chunks":-1})", "[1,{}]"}) {
    folder.write("file", bad + "\n");
    for (const auto& command : commands) {
      CAPTURE(bad, command);
      const Outcome outcome = skald(command);
      CHECK(outcome.signal == 0);
      CHECK(outcome.code <= 5);
      check_own_words(outcome.err + outcome.out);
    }
  }
}

TEST_CASE("JSON with a NUL behind it is refused, whatever follows") {
  TempFolder folder;
  for (const std::string& more : {std::string(1, '\0'), std::string("\0 x", 3)}) {
    CHECK(has(error_text([&] { HfConfig::parse("{}" + more, "c"); }, Exit::Model),
              "c: is not valid JSON: line 1, column 3: expected the end, found"));
    CHECK_THROWS_AS(jinja::from_json("[]" + more, "messages"), Error);
    const std::string tokenizer =
        read_file(data_dir() / "tokenizer" / "byte.tokenizer.json") + more;
    CHECK(has(
        error_text([&] { open_tokenizer(folder.write("tokenizer.json", tokenizer)); }, Exit::Model),
        "is not valid JSON"));
    const Outcome outcome =
        skald({"batch", small_gguf(), "-q"}, "{\"prompt\":\"a\"}" + more + "\n");
    CHECK(outcome.code == 5);
    CHECK(has(outcome.out, "invalid_json"));
  }
}

TEST_CASE("what is wrong with a JSON text is said with its place") {
  const auto says = [](std::string_view text, std::string_view problem) {
    CAPTURE(text);
    CHECK(json_problem(text) == problem);
  };
  says("", "line 1, column 1: expected a value, found the end");
  says("{\n \"a\": }", "line 2, column 7: expected a value, found '}'");
  says("{\"a\" 1}", "line 1, column 6: expected a colon, found '1'");
  says("{\"a\":1,}", "line 1, column 8: expected a name in \"\", found '}'");
  says("{a:1}", "line 1, column 2: expected a name or }, found 'a'");
  says("[1 2]", "line 1, column 4: expected a comma or ], found '2'");
  says("[1]]", "line 1, column 4: expected the end, found ']'");
  says("[01]", "line 1, column 3: expected a comma or ], found '1'");
  says("[1.]", "line 1, column 4: expected a digit, found ']'");
  says("\"a", "line 1, column 3: expected the end of a text, \", found the end");
  says("\"\xff\"", "line 1, column 2: a byte that is no UTF-8");
  says("[\"\\ud800\"]", "line 1, column 9: half of a character");
  says("\"\\x\"", "line 1, column 3: an unknown escape in a text; \\\\ is a backslash");
  says("[1e999]", "a number in it is too large");
  // It stops where the library stops: whatever the library takes has no other problem.
  for (const char* good :
       {"{\"a\":[1,-0.5e+3,\"\\u00e9\\ud83d\\ude00\",true,null,{}]}", " 3 ", "[]"}) {
    CHECK(Json::accept(good));
    CHECK(json_problem(good) == "a number in it is too large");
  }
}

}  // namespace
}  // namespace skald::test
