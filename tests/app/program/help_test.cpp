#include <algorithm>
#include <sstream>

#include "app/program/commands.h"
#include "tests/program_output.h"
#include "tests/pty.h"

namespace skald::test {
namespace {

// Columns on a terminal: the second and later bytes of a UTF-8 character take none.
size_t columns(const std::string& line) {
  size_t count = 0;
  for (const char c : line) count += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return count;
}

TEST_CASE("every help text fits two screens and shows examples") {
  std::vector<std::string> commands{""};
  for (const NamedCommand& command : kCommands) commands.emplace_back(command.name);
  for (const std::string& command : commands) {
    CAPTURE(command);
    std::vector<std::string> arguments{command, "--help"};
    if (command.empty()) arguments.erase(arguments.begin());
    const Outcome help = skald(arguments);
    CHECK(help.code == 0);
    CHECK(help.err == "");
    std::istringstream lines(help.out);
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
      CAPTURE(line);
      CHECK(columns(line) <= 100);
    }
    CHECK(count <= 100);
    CHECK(has(help.out, command.empty() ? "Exit codes: 0 done" : "Examples:\n  skald "));
    CHECK(has(help.out, "usage: skald " + (command.empty() ? "COMMAND" : command)));
  }
}

TEST_CASE("the list of commands describes each command in one line") {
  const std::string help = skald({"--help"}).out;
  for (const NamedCommand& command : kCommands) {
    const size_t at = help.find("\n  " + std::string(command.name) + " ");
    REQUIRE(at != std::string::npos);
    // The next line does not continue this one.
    CHECK(help.substr(help.find('\n', at + 1), 4) != "\n   ");
  }
}

TEST_CASE("without arguments, a person sees three things to type that fit a narrow terminal") {
  const Outcome outcome = run_on_terminal({}, 40);
  CHECK(outcome.code == 0);
  std::istringstream lines(outcome.out);
  int typed = 0;
  for (std::string line; std::getline(lines, line);) {
    CHECK(columns(line) <= 41);  // with the carriage return
    if (!line.starts_with("  skald ")) continue;
    ++typed;
    std::istringstream words(line);
    std::string skald_word, word;
    words >> skald_word >> word;
    const bool known = std::any_of(std::begin(kCommands), std::end(kCommands),
                                   [&](const NamedCommand& one) { return one.name == word; });
    CHECK((known || word == "--help"));
  }
  CHECK(typed == 3);
}

TEST_CASE("in a pipe no arguments, help and -h all show help") {
  const std::string help = skald({"--help"}).out;
  CHECK(skald({}).out == help);
  CHECK(skald({"help"}).out == help);
  CHECK(skald({"-h"}).out == help);
  CHECK(skald({"help", "run"}).out == skald({"run", "--help"}).out);
  CHECK(skald({"--version"}).out.substr(0, 6) == "skald ");
}

TEST_CASE(
    "an unknown or misspelled command or flag gets one line, exit code 2 and the nearest name") {
  const struct {
    std::vector<std::string> arguments;
    const char* says;
  } cases[] = {
      {{"rnu"}, "unknown command 'rnu', did you mean 'run'?"},
      {{"xyzzyfoo"}, "unknown command 'xyzzyfoo'; see 'skald --help'"},
      {{"run", "--tmep", "1"}, "unknown flag '--tmep', did you mean '--temp'?"},
      {{"run", "--tmep=1"}, "unknown flag '--tmep', did you mean '--temp'?"},
      {{"run", "--top"}, "unknown flag '--top', did you mean '--top"},
      {{"--vers"}, "did you mean '--version'?"},
      {{"tokenize", "--piece"}, "did you mean '--pieces'?"},
      {{"model.gguf"},
       "no command given; 'skald chat model.gguf' talks with a model, 'skald run model.gguf \"a "
       "text\"' continues a text"},
      {{"acme/llama"}, "'skald chat acme/llama' talks"},
      {{"MODEL.GGUF", "-p", "hi"}, "'skald run MODEL.GGUF "},
      {{"Once upon a time"}, "'skald run \"Once upon a time\"' continues this text"},
      {{"-m", "model.gguf"}, "the flag '-m' stands after a command, as in 'skald run -m …'"},
      {{"--protocol=x"}, "as in 'skald perplexity --protocol …'"},
      {{"run", "-x"}, "unknown flag '-x'; see 'skald run --help'"},
      {{"--bogus", "run"}, "unknown flag '--bogus'; see 'skald --help'"},
      {{"doctor", "--", "-x"}, "unknown flag '-x'; see 'skald --help'"},
      {{"run", "a", "b", "c"}, "unexpected argument 'c'; put quotes around a text with spaces"},
      {{"tokenize", "a", "b", "c"}, "unexpected argument 'c'"},
      {{"inspect", "a", "b"}, "unexpected argument 'b'"},
      {{"run", "-m"}, "--model needs a value"},
      {{"run", "--temp"}, "--temp needs a value"},
      {{"run", "--temp", "1", "--temp", "2"}, "--temp is given more than once"},
      {{"run", "\x1b[31m", "a", "\x1b[2J"}, "unexpected argument '\\x1b[2J'"},
  };
  for (const auto& [arguments, says] : cases) {
    check_refused(skald(arguments), 2, says);
  }
}

}  // namespace
}  // namespace skald::test
