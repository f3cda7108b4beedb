// skald run on a terminal.
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/pty.h"
#include "tests/small_models.h"

namespace skald::test {
namespace {

struct TerminalModel {
  TempFolder folder;
  std::string path;

  explicit TerminalModel(const FlatModel& flat = {}) {
    path = folder.write("flat.gguf", flat_gguf(flat)).string();
  }

  Invocation run(std::vector<std::string> more) const {
    more.insert(more.begin(), {"run", "-m", path, "--temp", "0", "-l", "259+5"});
    return {std::move(more), ""};
  }
};

std::string shown(Invocation invocation,
                  std::vector<std::pair<std::string, std::string>> environment = {}) {
  invocation.environment = std::move(environment);
  Terminal terminal(invocation);
  const Outcome outcome = terminal.finish();
  CHECK(outcome.code == 0);
  return outcome.out;
}

TEST_CASE("colours are off with NO_COLOR and on a dumb terminal; the prompt is shown either way") {
  const TerminalModel model;
  const Invocation run = model.run({"Hi ", "-n", "2"});
  CHECK(shown(run) == "\x1b[2mHi \x1b[0mxx\r\n");
  CHECK(shown(run, {{"NO_COLOR", "1"}}) == "Hi xx\r\n");
  CHECK(shown(run, {{"NO_COLOR", ""}}) == "\x1b[2mHi \x1b[0mxx\r\n");
  CHECK(shown(run, {{"TERM", "dumb"}}) == "Hi xx\r\n");
  CHECK(shown(run, {{"TERM", ""}}) == "Hi xx\r\n");
}

TEST_CASE("run --raw-output sends control characters to a terminal unchanged") {
  FlatModel flat;
  flat.extra_piece = "\x1b[1mx";
  const TerminalModel model(flat);
  CHECK(shown(model.run({"a", "-n", "1"})) == "\x1b[2ma\x1b[0m\\x1b[1mx\r\n");
  CHECK(shown(model.run({"a", "-n", "1", "--raw-output"})) == "\x1b[2ma\x1b[0m\x1b[1mx\r\n");
}

TEST_CASE("a terminal without UTF-8 gets escapes for characters outside its set") {
  FlatModel flat;
  flat.extra_piece = "\xc3\xa9\xe4\xbd\xa0";
  const TerminalModel model(flat);
  const Invocation run = model.run({"\xc3\xbc", "-n", "1", "--raw"});
  CHECK(has(shown(run), "\xc3\xa9\xe4\xbd\xa0"));
  CHECK(shown(run, {{"LC_ALL", "C"}, {"NO_COLOR", "1"}}) == "\\u00fc\\u00e9\\u4f60\r\n");
  CHECK(has(shown(run, {{"LC_ALL", ""}, {"LANG", ""}}), "\xc3\xa9"));
}

TEST_CASE("run --chat on a terminal shows the message and, below it, the answer") {
  FlatModel flat;
  flat.chat_template = "<{{ messages[0].content }}>";
  const TerminalModel model(flat);
  CHECK(shown(model.run({"Hi", "--chat", "-n", "2"})) == "\x1b[2mHi\x1b[0m\r\n\r\nxx\r\n");
}

TEST_CASE("a chat model run without --chat prints a hint on a terminal") {
  FlatModel flat;
  flat.chat_template = "<{{ messages[0].content }}>";
  const TerminalModel model(flat);
  const std::string hint = "skald: continuing the prompt as text; add --chat";
  CHECK(has(shown(model.run({"Hi", "-n", "1"})), hint));
  CHECK(!has(shown(model.run({"Hi", "-n", "1", "--raw"})), hint));
  CHECK(!has(shown(model.run({"Hi", "-n", "1", "--chat"})), hint));
  CHECK(skald(model.run({"Hi", "-n", "1"}).arguments).err == "");
}

TEST_CASE("run --stats prints one line below the text") {
  const TerminalModel model;
  const std::string out = shown(model.run({"Hi", "-n", "3", "--stats"}));
  CHECK(has(out, "xxx\r\n3 prompt tokens, first token after "));
  CHECK(out.find('\n', out.find("prompt tokens")) == out.size() - 1);
}

TEST_CASE("Ctrl-C on a terminal ends the line and restores the terminal's mode") {
  FlatModel flat;
  flat.context = 1 << 18;
  const TerminalModel model(flat);
  Terminal terminal(model.run({"Hi", "-t", "1"}));
  const termios before = terminal.mode();
  REQUIRE(terminal.wait_for("xxxxxxxxxx"));
  terminal.type("\x03");
  const Outcome outcome = terminal.finish();
  CHECK(outcome.code == 130);
  CHECK(has(outcome.out, "^C"));
  CHECK(outcome.out.substr(outcome.out.size() - 2) == "\r\n");
  const termios after = terminal.mode();
  CHECK(after.c_lflag == before.c_lflag);
  CHECK(after.c_iflag == before.c_iflag);
  CHECK(after.c_oflag == before.c_oflag);
}

TEST_CASE("a change of the window's size does not disturb the text") {
  FlatModel flat;
  flat.context = 1 << 18;
  const TerminalModel model(flat);
  Terminal terminal(model.run({"Hi", "-t", "1"}), 20, 5);
  REQUIRE(terminal.wait_for("xxxxxxxxxx"));
  for (const int columns : {100, 1, 40}) {
    terminal.resize(columns);
    CHECK(terminal.wait_for("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"));
  }
  terminal.type("\x03");
  CHECK(terminal.finish().code == 130);
}

TEST_CASE("run --json on a terminal shows the report alone") {
  const TerminalModel model;
  const std::string out = shown(model.run({"Hi", "-n", "1", "--json"}));
  CHECK(out.front() == '{');
  CHECK(out.substr(out.size() - 3) == "}\r\n");
}

}  // namespace
}  // namespace skald::test
