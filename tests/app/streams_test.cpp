// skald run with pipes, signals and terminals.
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/process.h"
#include "tests/pty.h"
#include "tests/small_models.h"

namespace skald::test {
namespace {

// Arguments for a run that prints until it is stopped: filling a context of 262144 tokens takes
// long.
std::vector<std::string> endless(const TempFolder& folder) {
  FlatModel model;
  model.context = 1 << 18;
  const std::string path = folder.write("endless.gguf", flat_gguf(model)).string();
  return {"run", "-m", path, "a", "-l", "259+9", "--temp", "0", "-t", "1", "--ignore-eos"};
}

TEST_CASE("when the reader of stdout goes away, the program ends quietly with 141") {
  TempFolder folder;
  Invocation invocation{endless(folder), ""};
  invocation.read_at_most = 10;
  const Outcome outcome = run_program(invocation);
  CHECK(outcome.code == 141);
  CHECK(outcome.err == "");
  CHECK(outcome.out.substr(0, 10) == "xxxxxxxxxx");
}

TEST_CASE("a full or closed stdout is an error") {
  for (const bool closed : {false, true}) {
    Invocation invocation{{"run", "-m", small_gguf(), "-p", "Once", "-n", "5"}, ""};
    invocation.no_out = closed;
    if (!closed) invocation.out_file = "/dev/full";
    const Outcome outcome = run_program(invocation);
    CHECK(outcome.code == 1);
    CHECK(has(outcome.err, "stdout: cannot be written: "));
    CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
  }
  Invocation help{{"--help"}, ""};
  help.out_file = "/dev/full";
  CHECK(run_program(help).code == 1);
}

TEST_CASE("the first Ctrl-C or SIGTERM ends the program and keeps the text so far") {
  TempFolder folder;
  for (const auto& [signal, code] : {std::pair(SIGINT, 130), std::pair(SIGTERM, 143)}) {
    Invocation invocation{endless(folder), ""};
    invocation.signals = {signal};
    const Outcome outcome = run_program(invocation);
    CHECK(outcome.code == code);
    CHECK(outcome.out.size() >= 1);
    CHECK(outcome.out.find_first_not_of('x') == std::string::npos);
    CHECK(outcome.err == "");
  }
}

TEST_CASE("Ctrl-C ends a long prompt between its chunks") {
  TempFolder folder;
  std::vector<std::string> arguments = endless(folder);
  arguments[3] = "--prompt=" + std::string(30000, 'a');
  arguments.insert(arguments.end(), {"--echo", "--rows", "16"});
  Invocation invocation{arguments, ""};
  invocation.signals = {SIGINT};
  const Outcome outcome = run_program(invocation);
  CHECK(outcome.code == 130);
  CHECK(outcome.out.size() == 30000);  // the prompt without a generated token
}

TEST_CASE("Ctrl-D ends a prompt typed on a terminal; Ctrl-C ends the program") {
  const std::vector<std::string> arguments{"run", "-m", small_gguf(), "-f", "-", "-n", "0"};
  const Outcome typed = run_on_terminal(arguments, 80, "Once\n\x04");
  CHECK(typed.code == 0);
  CHECK(has(typed.out, "\x1b[2mOnce\x1b[0m"));
  const Outcome stopped = run_on_terminal(arguments, 80, "\x03");
  CHECK(stopped.code == 130);
  CHECK(has(stopped.out, "interrupted while reading stdin"));
}

TEST_CASE("a second Ctrl-C ends the program at once") {
  TempFolder folder;
  Invocation invocation{endless(folder), ""};
  invocation.signals = {SIGINT, SIGINT, SIGINT};
  const Outcome outcome = run_program(invocation);
  CHECK(outcome.code == 130);
}

TEST_CASE("on a terminal, a run without a prompt shows the usage instead of waiting") {
  const Outcome outcome = run_on_terminal({"run", "-m", small_gguf()});
  CHECK(outcome.code == 2);
  CHECK(has(outcome.out, "no prompt given; pass one as an argument"));
}

TEST_CASE("a terminal shows the prompt dimmed, then the generated text") {
  TempFolder folder;
  const std::string model = folder.write("flat.gguf", flat_gguf({})).string();
  for (const int columns : {20, 80}) {
    const Outcome outcome = run_on_terminal(
        {"run", "-m", model, "Hello", "-n", "40", "-l", "259+5", "--temp", "0"}, columns);
    CHECK(outcome.code == 0);
    CHECK(outcome.out == "\x1b[2mHello\x1b[0m" + std::string(40, 'x') + "\r\n");
  }
}

TEST_CASE("a terminal never gets a control character unescaped") {
  TempFolder folder;
  FlatModel wild;
  wild.extra_piece =
      "\xc2\x9b"
      "2J";
  const std::string model = folder.write("wild.gguf", flat_gguf(wild)).string();
  const auto shown = [&](int token, const std::string& prompt) {
    const Outcome outcome = run_on_terminal(
        {"run", "-m", model, prompt, "-n", "2", "--temp", "0", "-l", std::to_string(token) + "+5"});
    CHECK(outcome.code == 0);
    return outcome.out;
  };
  CHECK(shown(kFirstByteToken + 0x1b, "a") == "\x1b[2ma\x1b[0m\\x1b\\x1b\r\n");
  CHECK(shown(kFirstByteToken + 0x7f, "a") == "\x1b[2ma\x1b[0m\\x7f\\x7f\r\n");
  CHECK(shown(259, "a") == "\x1b[2ma\x1b[0m\\x9b2J\\x9b2J\r\n");
  CHECK(shown(kFirstByteToken + 'b',
              "a\x1b]0;x\x07\xc2\x9b"
              "c") ==
        "\x1b[2ma\\x1b]0;x\\x07\\x9b"
        "c\x1b[0mbb\r\n");
}

TEST_CASE("error messages escape control characters in arguments and paths") {
  const Outcome outcome = skald({"run", "-m", "/tmp/\x1b[31mno", "hi"});
  CHECK(outcome.code == 3);
  CHECK(has(outcome.err, "/tmp/\\x1b[31mno"));
  CHECK(!has(outcome.err, "\x1b"));
}

}  // namespace
}  // namespace skald::test
