// skald chat with a model that answers in channels, and thinking between control tokens.
#include "tests/app/chat/models.h"
#include "tests/catch.h"
#include "tests/channel_models.h"
#include "tests/error_text.h"
#include "tests/pty.h"

namespace skald::test {
namespace {

struct Chat : TempFolder {
  explicit Chat(const std::vector<std::string>& script) {
    model = write("channels.gguf", channel_gguf({.script = script})).string();
    saved = (path() / "saved.json").string();
  }

  Invocation chat(std::vector<std::string> more = {}, const std::string& input = "") const {
    more.insert(more.begin(), {"chat", model, "-t", "1", "-n", "40"});
    more.insert(more.end(), kScripted.begin(), kScripted.end());
    return in_folder(*this, more, input);
  }

  std::string model, saved;
};

TEST_CASE("in a pipe, chat writes the final message; thinking and headers are not kept") {
  const Chat chat(thinking_script());
  const Outcome outcome = run_program(chat.chat({}, "Hi\n/save " + chat.saved + "\n/thinking\n"));
  CHECK(outcome.code == 0);
  CHECK(outcome.out == "It is 4.\n");
  CHECK(has(outcome.err, "Two and two?\n"));
  CHECK(has(read_file(chat.saved), "{\"role\":\"assistant\",\"content\":\"It is 4.\"}"));
}

TEST_CASE("chat shows a tool call as text, and a preamble on a terminal alone") {
  const Chat chat(call_script());
  const std::string call = "weather({\"city\":\"Oslo\"})";
  CHECK(run_program(chat.chat({}, "Hi\n")).out == call + "\n");
  Terminal terminal(chat.chat());
  CHECK(terminal.wait_for("> "));
  terminal.type("Hi\r");
  CHECK(terminal.wait_for("I look.\r\n\r\n" + call + "\r\n"));
  terminal.type("\x04");
  terminal.finish();
}

TEST_CASE("in a pipe, a preamble is the answer if nothing follows") {
  const Chat chat({"<|channel|>", "commentary", "<|message|>", "I look.", "<|return|>"});
  const Outcome outcome = run_program(chat.chat({}, "Hi\n/save " + chat.saved + "\n"));
  CHECK(outcome.out == "I look.\n");
  CHECK(has(read_file(chat.saved), "{\"role\":\"assistant\",\"content\":\"I look.\"}"));
}

TEST_CASE("on a terminal, the analysis channel is dimmed, or hidden until /thinking shows it") {
  const Chat chat(thinking_script());
  Terminal dimmed(chat.chat());
  CHECK(dimmed.wait_for("> "));
  dimmed.type("Hi\r");
  CHECK(dimmed.wait_for("\x1b[2mTwo and two?\x1b[0m\r\n\r\nIt is 4.\r\n"));
  dimmed.type("\x04");
  dimmed.finish();

  Terminal hidden(chat.chat({"--hide-thinking"}));
  CHECK(hidden.wait_for("> "));
  hidden.type("Hi\r");
  CHECK(hidden.wait_for("\x1b[2m[thinking, /thinking shows it]\r\n\x1b[0mIt is 4.\r\n"));
  hidden.type("/thinking\r");
  CHECK(hidden.wait_for("Two and two?"));
  hidden.type("\x04");
  hidden.finish();
}

TEST_CASE("a grammar of chat constrains the final message alone") {
  const Chat chat(thinking_script());
  const Outcome outcome = run_program(chat.chat({"--regex", "yes"}, "Hi\n/thinking\n"));
  CHECK(outcome.out == "yes\n");
  CHECK(has(outcome.err, "Two and two?\n"));
}

}  // namespace
}  // namespace skald::test
