// skald chat on a terminal.
#include "tests/app/chat/models.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/pty.h"

namespace skald::test {
namespace {

bool is_cooked(const Terminal& terminal) {
  const tcflag_t flags = terminal.mode().c_lflag;
  return (flags & ECHO) && (flags & ICANON) && (flags & ISIG);
}

// Waits for raw mode, which begins just after the prompt has been drawn.
bool becomes_raw(const Terminal& terminal) {
  for (int i = 0; i < 500 && is_cooked(terminal); ++i) ::usleep(10000);
  return !is_cooked(terminal);
}

void type_and_expect(Terminal& terminal, const std::string& keys, const std::string& expected) {
  CAPTURE(keys, expected);
  terminal.type(keys);
  CHECK(terminal.wait_for(expected));
}

// Ends the chat with Ctrl-D. Returns everything that the terminal showed.
std::string end(Terminal& terminal) {
  terminal.type("\x04");
  const Outcome outcome = terminal.finish();
  CAPTURE(outcome.out);
  CHECK(outcome.code == 0);
  CHECK(is_cooked(terminal));
  return outcome.out;
}

TEST_CASE("a chat greets, shows prompts and answers, and ends with /exit") {
  ChatModel model;
  Terminal terminal(model.chat(3));
  CHECK(terminal.wait_for("context of 512 tokens"));
  CHECK(terminal.wait_for("/help shows the commands"));
  CHECK(terminal.wait_for("> "));
  type_and_expect(terminal, "hello\r", "hello");
  CHECK(terminal.wait_for("xxx\r\n\r\n"));
  CHECK(terminal.wait_for("> "));
  terminal.type("/exit\r");
  const Outcome outcome = terminal.finish();
  CHECK(outcome.code == 0);
  CHECK(is_cooked(terminal));
}

TEST_CASE("lines can be edited, and the history outlives the program") {
  ChatModel model;
  {
    Terminal terminal(model.chat(1));
    CHECK(terminal.wait_for("> "));
    terminal.type("secnd\x1b[D\x1b[Do\r");  // the left arrow key twice, then o: "second"
    CHECK(terminal.wait_for("x\r\n"));
    type_and_expect(terminal, "third\\\r", ". ");
    type_and_expect(terminal, "line\r", "x\r\n");
    end(terminal);
  }
  const auto history = model.path() / ".local/state/skald/history";
  CHECK(read_file(history) == "second\nthird\\nline\n");
  const auto mode = std::filesystem::status(history).permissions();
  CHECK((mode & std::filesystem::perms::others_all) == std::filesystem::perms::none);
  {
    Terminal terminal(model.chat(1));
    CHECK(terminal.wait_for("> "));
    terminal.type("\x1b[A");  // Up
    CHECK(terminal.wait_for("third"));
    type_and_expect(terminal, "\x1b[A\x1b[A", "second");
    type_and_expect(terminal, "\r", "x\r\n");
    end(terminal);
  }
  CHECK(read_file(history) == "second\nthird\\nline\nsecond\n");
  Terminal terminal(model.chat(1, {"--no-history"}));
  CHECK(terminal.wait_for("> "));
  type_and_expect(terminal, "private\r", "x\r\n");
  end(terminal);
  CHECK(!has(read_file(history), "private"));
}

TEST_CASE("an unwritable history is reported and stops nothing") {
  ChatModel model;
  model.write("state", "a file, no folder");
  Terminal terminal(with(model.chat(1), "XDG_STATE_HOME", (model.path() / "state").string()));
  CHECK(terminal.wait_for("> "));
  type_and_expect(terminal, "a\r", "x\r\n");
  CHECK(has(end(terminal), "the history is not kept: "));
}

TEST_CASE("pasted lines are one message") {
  ChatModel model;
  const std::string file = (model.path() / "saved.json").string();
  Terminal terminal(model.chat(1));
  CHECK(terminal.wait_for("\x1b[?2004h"));
  CHECK(terminal.wait_for("> "));
  type_and_expect(terminal, "see: \x1b[200~one\rtwo\n/exit\r\xc3\xa4\x1b[201~!\r", "\x1b[?2004l");
  CHECK(terminal.wait_for("x\r\n"));
  type_and_expect(terminal, "/save " + file + "\r", "2 messages are in");
  end(terminal);
  CHECK(has(read_file(file), R"("see: one\ntwo\n/exit\nä!")"));
}

TEST_CASE("Ctrl-C clears a line, or stops an answer and keeps its text") {
  ChatModel model("x", 1 << 18);
  Terminal terminal(model.chat(-1));
  CHECK(terminal.wait_for("> "));
  type_and_expect(terminal, "not this", "not this");
  type_and_expect(terminal, "\x03", "^C\r\n");
  CHECK(terminal.wait_for("> "));
  type_and_expect(terminal, "but this\r", "xxxxxxxxxx");
  type_and_expect(terminal, "\x03", "[interrupted]");
  CHECK(terminal.wait_for("> "));
  type_and_expect(terminal, "/tokens\r", "turns     1");
  type_and_expect(terminal, "/retry\r", "xxxxxxxxxx");
  type_and_expect(terminal, "\x03", "[interrupted]");
  CHECK(terminal.wait_for("> "));
  end(terminal);
}

TEST_CASE("Ctrl-C before the first token takes the message back") {
  ChatModel model("x", 1 << 18);
  Terminal terminal(model.chat(-1, {"--rows", "1"}));
  CHECK(terminal.wait_for("> "));
  const std::string text = model.write("long.txt", std::string(100000, 'a')).string();
  type_and_expect(terminal, "/file " + text + "\r", "100000 tokens");
  CHECK(terminal.wait_for("> "));
  type_and_expect(terminal, "what?\r", "what?");
  ::usleep(300000);
  type_and_expect(terminal, "\x03", "the message is taken back");
  CHECK(terminal.wait_for("> "));
  end(terminal);
}

TEST_CASE("on a terminal, an error is reported and the chat continues") {
  ChatModel model;
  Terminal terminal(model.chat(1));
  CHECK(terminal.wait_for("> "));
  type_and_expect(terminal, "/hepl\r", "skald: unknown command '/hepl', did you mean '/help'?");
  type_and_expect(terminal, "/load /nonexistent\r", "cannot be opened");
  type_and_expect(terminal, "/set temp x\r", "expected a finite number");
  type_and_expect(terminal, "/undo\r", "there is nothing to undo");
  type_and_expect(terminal, "fine\r", "x\r\n");
  end(terminal);
}

TEST_CASE("a full context asks whether to drop the oldest turns or to stop") {
  ChatModel model("x", 100);
  Terminal terminal(model.chat(3));
  for (const char* message : {"one\r", "two\r", "three\r"}) {
    CHECK(terminal.wait_for("> "));
    type_and_expect(terminal, message, "xxx");
  }
  CHECK(terminal.wait_for("> "));
  const std::string question = "Drop the oldest 2 of 4 turns? [Y/n] ";
  type_and_expect(terminal, "four\r",
                  "the context is full: 101 tokens are needed, it holds 100\r\n");
  CHECK(terminal.wait_for(question));
  type_and_expect(terminal, "what\r", question);
  type_and_expect(terminal, "N\r", "the message is taken back: the context is full");
  CHECK(terminal.wait_for("> "));
  type_and_expect(terminal, "/tokens\r", "turns     3");
  type_and_expect(terminal, "four\r", question);
  type_and_expect(terminal, "\r",
                  "xxx\r\n");  // Enter means the answer that the question shows in capitals
  CHECK(terminal.wait_for("> "));
  type_and_expect(terminal, "/tokens\r", "turns     2");
  type_and_expect(terminal, "/clear\r/set -n -1\rlong\r",
                  "the answer ends here: the context is full");
  end(terminal);
}

TEST_CASE("an answer's lines break between words, in a window that changes its width too") {
  ChatModel model("word ");
  Terminal terminal(model.chat(12), 23);
  CHECK(terminal.wait_for("> "));
  type_and_expect(terminal, "a\r", "word word word word \r\nword word word word \r\nword");
  CHECK(terminal.wait_for("> "));
  terminal.resize(40);
  CHECK(terminal.wait_for("> "));
  const std::string eight = "word word word word word word word word";  // 39 columns
  type_and_expect(terminal, "b\r", eight + "\r\nword word");
  CHECK(terminal.wait_for("> "));
  end(terminal);
  Terminal unwrapped(model.chat(8, {"--no-wrap"}), 23);
  CHECK(unwrapped.wait_for("> "));
  type_and_expect(unwrapped, "a\r", eight);
  end(unwrapped);
}

TEST_CASE("/save asks before it replaces a file that it has not written itself") {
  ChatModel model;
  const std::string file = model.write("notes.json", "precious").string();
  Terminal terminal(model.chat(1), 200);
  CHECK(terminal.wait_for("> "));
  type_and_expect(terminal, "a\r", "x\r\n");
  const std::string question = "Replace it? [y/N] ";
  type_and_expect(terminal, "/save " + file + "\r", "notes.json exists\r\n");
  CHECK(terminal.wait_for(question));
  type_and_expect(terminal, "\r", "nothing is saved");
  CHECK(read_file(file) == "precious");
  type_and_expect(terminal, "/save " + file + "\r", question);
  type_and_expect(terminal, "\x03", "nothing is saved");
  CHECK(read_file(file) == "precious");
  type_and_expect(terminal, "/save " + file + "\r", question);
  type_and_expect(terminal, "Yes\r", "2 messages are in");
  type_and_expect(terminal, "/save " + file + "\r", "2 messages are in");
  CHECK(has(read_file(file), "\"a\""));
  end(terminal);
}

TEST_CASE("/quit and /bye end a chat as /exit does, and /? helps") {
  ChatModel model;
  for (const char* command : {"/quit", "/bye"}) {
    Terminal terminal(model.chat(1));
    CHECK(terminal.wait_for("> "));
    type_and_expect(terminal, "/?\r", "/exit");
    CHECK(terminal.wait_for("> "));
    terminal.type(std::string(command) + "\r");
    CHECK(terminal.finish().code == 0);
  }
}

TEST_CASE("the greeting says when a built-in template is used") {
  ChatModel model;
  Terminal terminal(model.chat(1, {"--chat-template", "chatml"}));
  CHECK(terminal.wait_for("the built-in chatml template"));
  CHECK(terminal.wait_for("> "));
  end(terminal);
}

TEST_CASE("thinking is dimmed, or hidden until /thinking shows it") {
  ChatModel model("<think>hm</think>\n\nyes");
  const auto shown = [&](const Invocation& invocation, const std::string& lines) {
    Terminal terminal(invocation);
    CHECK(terminal.wait_for("> "));
    type_and_expect(terminal, lines, "yes\r\n");
    return end(terminal);
  };
  CHECK(has(shown(model.chat(1), "a\r"), "\x1b[2m<think>hm</think>\x1b[0m\r\n\r\nyes\r\n"));
  const std::string folded = shown(model.chat(1, {"--hide-thinking"}), "a\r");
  CHECK(has(folded, "\x1b[2m[thinking, /thinking shows it]\r\n\x1b[0myes\r\n"));
  CHECK(!has(folded, "hm"));
  const std::string plain = shown(with(model.chat(1), "NO_COLOR", "1"), "a\r");
  CHECK(has(plain, "<think>hm</think>\r\n\r\nyes\r\n"));
  CHECK(!has(plain, "\x1b[2m"));
  Terminal terminal(model.chat(1, {"--hide-thinking"}));
  CHECK(terminal.wait_for("> "));
  type_and_expect(terminal, "a\r", "yes\r\n");
  type_and_expect(terminal, "/thinking\r", "<think>hm</think>");
  end(terminal);
}

TEST_CASE(
    "a terminal never gets an answer's control characters unescaped, unless --raw-output is "
    "given") {
  ChatModel model("\x1b]0;title\x07");
  Terminal terminal(model.chat(1));
  CHECK(terminal.wait_for("> "));
  type_and_expect(terminal, "a\r", "\\x1b]0;title\\x07\r\n");
  CHECK(!has(end(terminal), "\x07"));
  Terminal raw(model.chat(1, {"--raw-output"}));
  CHECK(raw.wait_for("> "));
  type_and_expect(raw, "a\r", "\x1b]0;title\x07");
  end(raw);
}

TEST_CASE("typed bytes that are not UTF-8 are replaced, with a notice") {
  ChatModel model;
  const std::string file = (model.path() / "saved.json").string();
  Terminal terminal(model.chat(1));
  CHECK(terminal.wait_for("> "));
  type_and_expect(terminal, "a\xff\xe2\x82 b\r", "bytes that are no UTF-8 were replaced");
  CHECK(terminal.wait_for("x\r\n"));
  type_and_expect(terminal, "/save " + file + "\r", "2 messages are in");
  end(terminal);
  CHECK(has(read_file(file), "a\uFFFD\uFFFD\uFFFD b"));
}

TEST_CASE("a chat works in a narrow window and in one that changes its width") {
  ChatModel model;
  Terminal terminal(model.chat(30), 20);
  CHECK(terminal.wait_for("> "));
  type_and_expect(terminal, "a message that is longer than the window is wide\r",
                  std::string(30, 'x'));
  CHECK(terminal.wait_for("> "));
  type_and_expect(terminal, "/help\r", "/retry\r\n  Answer the");
  CHECK(terminal.wait_for("> "));
  type_and_expect(terminal, "now it ", "now it ");
  terminal.resize(100);
  CHECK(terminal.wait_for("> now it "));  // the line is drawn again
  type_and_expect(terminal, "is wide\r", std::string(30, 'x'));
  const std::string all = end(terminal);
  size_t longest = 0;
  const size_t help = all.find("/help\r\n  Show"), help_end = all.find("\r\n", all.find("slash"));
  for (size_t at = help; at < help_end;) {
    const size_t line_end = all.find("\r\n", at);
    longest = std::max(longest, line_end - at);
    at = line_end + 2;
  }
  CHECK(longest <= 20);
}

TEST_CASE("when the window is resized, a line is drawn again from where it began") {
  ChatModel model;
  Terminal terminal(model.chat(1));
  CHECK(terminal.wait_for("> "));
  const std::string line(60, 'm');
  type_and_expect(terminal, line, line);
  terminal.resize(40);
  CHECK(terminal.wait_for("\x1b[6n"));
  terminal.type("\x1b[5;23R");  // wrapped anew: the cursor is in the second row of the line
  CHECK(terminal.wait_for("\x1b[1A\r\x1b[J> " + line.substr(0, 30)));
  terminal.resize(80);
  CHECK(terminal.wait_for("\x1b[6n"));
  terminal.type("k\x1b[5;63R");  // a key that was typed meanwhile
  CHECK(terminal.wait_for("\r\x1b[J> " + line));
  CHECK(terminal.wait_for("k"));
  terminal.resize(60);
  CHECK(terminal.wait_for("> "));  // no answer
  terminal.type("\x1b[5;4R\r");    // comes too late, and is no text
  CHECK(terminal.wait_for("x\r\n"));
  const std::string file = (model.path() / "saved.json").string();
  type_and_expect(terminal, "/save " + file + "\r", "2 messages are in");
  end(terminal);
  CHECK(has(read_file(file), "\"" + line + "k\""));
}

TEST_CASE("a dumb terminal gets prompts and answers without escape sequences") {
  ChatModel model("<think>hm</think>yes");
  for (const char* term : {"dumb", ""}) {
    Terminal terminal(with(model.chat(1), "TERM", term));
    CHECK(terminal.wait_for("> "));
    type_and_expect(terminal, "one\\\n", ". ");
    type_and_expect(terminal, "two\n", "<think>hm</think>yes\r\n\r\n> ");
    terminal.type("not this");
    type_and_expect(terminal, "\x03", "> ");
    type_and_expect(terminal, "/tokens\n", "turns     1");
    CHECK(terminal.wait_for("> "));
    CHECK(!has(end(terminal), "\x1b"));
  }
}

TEST_CASE("a terminal without UTF-8 gets escapes for other characters") {
  ChatModel model("\xc3\xa4\xf0\x9f\x98\x80");
  const std::string file = (model.path() / "saved.json").string();
  Terminal terminal(with(model.chat(1), "LC_ALL", "C"));
  CHECK(terminal.wait_for("> "));
  type_and_expect(terminal, "a\r", "\\u00e4\\U0001f600\r\n");
  type_and_expect(terminal, "\xc3\xb6\r", "\\u00e4\\U0001f600\r\n");
  type_and_expect(terminal, "/save " + file + "\r", "4 messages are in");
  end(terminal);
  CHECK(has(read_file(file), "\xc3\xb6"));  // the file is UTF-8 on every terminal
}

TEST_CASE("the terminal's mode is restored however the program ends") {
  ChatModel model("x", 1 << 18);
  for (const int signal : {SIGTERM, SIGHUP, SIGQUIT, SIGSEGV, SIGABRT}) {
    CAPTURE(signal);
    for (const bool answering : {false, true}) {
      Terminal terminal(model.chat(-1));
      CHECK(terminal.wait_for("> "));
      if (answering) {
        type_and_expect(terminal, "a\r", "xxxx");
      } else {
        type_and_expect(terminal, "half a line", "half a line");
      }
      CHECK(becomes_raw(terminal));
      ::kill(terminal.process(), signal);
      const Outcome outcome = terminal.finish();
      if (signal == SIGTERM) {
        CHECK(outcome.code == 143);
      } else {
        CHECK(outcome.signal == signal);
      }
      CHECK(is_cooked(terminal));
    }
  }
  // When two signals arrive together, the second ends the program at once.
  Terminal terminal(model.chat(-1));
  CHECK(terminal.wait_for("> "));
  type_and_expect(terminal, "a\r", "xxxx");
  ::kill(terminal.process(), SIGSTOP);
  ::kill(terminal.process(), SIGINT);
  ::kill(terminal.process(), SIGTERM);
  ::kill(terminal.process(), SIGCONT);
  const Outcome outcome = terminal.finish();
  CHECK((outcome.code == 143 || outcome.code == 130));
  CHECK(is_cooked(terminal));
}

TEST_CASE("Ctrl-Z restores the terminal's mode, and continuing draws the line again") {
  ChatModel model;
  Terminal terminal(model.chat(1));
  CHECK(terminal.wait_for("> "));
  CHECK(becomes_raw(terminal));
  type_and_expect(terminal, "half ", "half ");
  terminal.type("\x1a");
  int status = 0;
  CHECK(::waitpid(terminal.process(), &status, WUNTRACED) == terminal.process());
  CHECK(WIFSTOPPED(status));
  CHECK(is_cooked(terminal));
  ::kill(terminal.process(), SIGCONT);
  CHECK(terminal.wait_for("> half "));
  type_and_expect(terminal, "a line\r", "x\r\n");
  end(terminal);
}

TEST_CASE("a session's messages survive the kill of the program") {
  ChatModel model;
  const std::string file = (model.path() / "a.chat").string();
  {
    Terminal terminal(model.chat(1, {"--session", file}));
    CHECK(terminal.wait_for("> "));
    type_and_expect(terminal, "a\r", "x\r\n");
    CHECK(terminal.wait_for("> "));
    ::kill(terminal.process(), SIGKILL);
    CHECK(terminal.finish().signal == SIGKILL);
  }
  Terminal terminal(model.chat(1, {"--session", file}));
  CHECK(terminal.wait_for("goes on from 2 messages; their cache is computed anew: it was not"));
  CHECK(terminal.wait_for("> "));
  end(terminal);
}

TEST_CASE("keys typed during an answer are not shown and go to the next line") {
  ChatModel model("x", 1 << 18);
  Terminal terminal(model.chat(4000));
  CHECK(terminal.wait_for("> "));
  type_and_expect(terminal, "a\r", "xxxx");
  type_and_expect(terminal, std::string("/tokens") + "\r", "turns     1");
  const std::string all = end(terminal);
  const size_t answer = all.find("xxxx");
  CHECK(all.substr(answer, 4000).find('/') == std::string::npos);
}

}  // namespace
}  // namespace skald::test
