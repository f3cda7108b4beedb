// Only 'skald pull', -hf, and a yes to the question about -m open connections. Each other command
// runs here in a process that the system kills when it makes a socket for the internet.
#include <signal.h>

#include <algorithm>

#include "app/program/commands.h"
#include "tests/program_output.h"
#include "tests/small_models.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

struct Example {
  std::vector<std::string> arguments;
  std::string input = {};
};

const std::vector<Example>& examples() {
  static const std::string text = (data_dir() / "demo_heldout.txt").string();
  static const std::vector<Example> kExamples = {
      {{"run", "-n", "4", "Once"}},
      {{"run", "-m", small_gguf(), "-n", "4", "Hi"}},
      {{"run", "-m", "acme/none:Q8_0", "Hi"}},
      {{"run", "--offline", "-hf", "llama3.2", "Hi"}},
      {{"chat", "--chat-template", "chatml", "-n", "4"}, "Hi\n"},
      {{"batch", "-i", "-", "-o", "-"}, "{\"prompt\": \"Once\", \"max_tokens\": 4}\n"},
      {{"perplexity", "-f", text, "--chunks", "1", "--protocol", "gptq:64"}},
      {{"imatrix", "-f", text, "--chunks", "1", "-c", "64", "-o", "~/imatrix.gguf"}},
      {{"score"}, "{\"context\": \"The sky is\", \"continuation\": \" blue\"}\n"},
      {{"embed", "--plain", "-p", "The sky is blue"}},
      {{"ls"}},
      {{"rm", "-y", "llama3.2"}},
      {{"bench", "-p", "8", "-n", "2", "-r", "1"}},
      {{"inspect", small_gguf()}},
      {{"tokenize", "-p", "Hi"}},
      {{"template"}, "[{\"role\": \"user\", \"content\": \"Hi\"}]"},
      {{"diff", "-a", "cpu,exact", "-b", "cpu", "-p", "Once upon a time"}},
      {{"plan"}},
      {{"selftest"}},
      {{"doctor"}},
      {{"quantize", small_gguf(), "--type", "q4_0", "--requantize", "--dry-run"}},
      {{"completion", "models"}},
      {{"man", "run"}},
      {{"pull", "--offline", "llama3.2"}},
      {{"--help"}},
      {{"--version"}},
  };
  return kExamples;
}

Outcome without_internet(const Example& example, const TempFolder& home) {
  Invocation invocation{example.arguments, example.input};
  for (std::string& argument : invocation.arguments) {
    if (argument.starts_with("~/")) argument = (home.path() / argument.substr(2)).string();
  }
  invocation.environment = {{"HOME", home.path().string()}};
  invocation.no_internet = true;
  return run_program(invocation);
}

TEST_CASE("no command but pull makes a socket for the internet") {
  const TempFolder home;
  for (const Example& example : examples()) {
    CAPTURE(example.arguments);
    const Outcome outcome = without_internet(example, home);
    CAPTURE(outcome.err);
    CHECK(outcome.signal == 0);
    // It got as far as it could: no flag was wrong.
    CHECK(outcome.code != 2);
    CHECK(outcome.code != 126);
  }
}

TEST_CASE("every command is among them") {
  for (const NamedCommand& command : kCommands) {
    CAPTURE(command.name);
    CHECK(std::any_of(examples().begin(), examples().end(), [&](const Example& example) {
      return example.arguments.front() == command.name;
    }));
  }
}

TEST_CASE("pull and -hf do make one: the watch works") {
  const TempFolder home;
  for (const Example& example :
       {Example{{"pull", "acme/none"}}, Example{{"run", "-hf", "acme/none", "Hi"}}}) {
    CAPTURE(example.arguments);
    CHECK(without_internet(example, home).signal == SIGSYS);
  }
}

}  // namespace
}  // namespace skald::test
