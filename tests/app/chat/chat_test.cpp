// skald chat through pipes.
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "tests/app/chat/models.h"
#include "tests/catch.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

using Json = nlohmann::json;

std::string error_of(const Outcome& outcome, Exit code) {
  CAPTURE(outcome.out, outcome.err);
  CHECK(outcome.code == static_cast<int>(code));
  CHECK(outcome.err.ends_with("\n"));
  return outcome.err;
}

// The messages that /save wrote.
Json messages_in(const std::filesystem::path& file) {
  return Json::parse(read_file(file))["messages"];
}

TEST_CASE("in a pipe each line is a message, and stdout has the answers alone") {
  ChatModel model;
  const Outcome outcome = run_program(model.chat(3, {}, "one\n\ntwo\r\nthree"));
  CHECK(outcome.code == 0);
  CHECK(outcome.out == "xxx\nxxx\nxxx\n");
  CHECK(outcome.err == "");
  const Outcome none = run_program(model.chat(3));
  CHECK(none.code == 0);
  CHECK(none.out == "");
  CHECK(none.err == "");
  // A chat through a pipe writes no history.
  CHECK(!std::filesystem::exists(model.path() / ".local"));
}

TEST_CASE("a model without a chat template is refused until --chat-template names one") {
  const Outcome none = skald({"chat", small_gguf()}, "hi\n");
  CHECK(has(error_of(none, Exit::Model), "has no chat template; choose one with --chat-template"));
  CHECK(none.out == "");
  const Outcome named =
      skald({"chat", small_gguf(), "--chat-template", "chatml", "-n", "2"}, "hi\n");
  CHECK(named.code == 0);
  CHECK(skald({"chat", small_gguf(), "--chat-template", "nosuch"}, "").code == 2);
  CHECK(skald({"chat", small_gguf(), "-m", small_gguf()}, "").code == 2);
}

TEST_CASE("chat without a model says in one line what to get") {
  const Outcome outcome = skald({"chat"}, "Hi\n");
  CHECK(has(error_of(outcome, Exit::Usage), "'skald chat -hf llama3.2' gets a model"));
  CHECK(outcome.out == "");
}

TEST_CASE("the bundled model answers, and the same seed gives the same dialogue") {
  const auto talk = [](const char* seed) {
    return skald({"chat", "--chat-template", "zephyr", "-n", "20", "-s", seed},
                 "Tell me a story\nAnd then?\n/retry\n");
  };
  const Outcome first = talk("1");
  CHECK(first.code == 0);
  CHECK(first.err == "");
  CHECK(first.out.size() > 100);
  CHECK(talk("1").out == first.out);
  CHECK(talk("2").out != first.out);
}

TEST_CASE("every answer of a constrained dialogue obeys the regular expression") {
  const Outcome outcome = skald({"chat", "--chat-template", "chatml", "--regex",
                                 "(yes|no), [a-z]{3,5}\\.", "-n", "40", "--temp", "2"},
                                "Is it so?\nAnd now?\n/retry\n");
  CAPTURE(outcome.out, outcome.err);
  CHECK(outcome.code == 0);
  CHECK(std::regex_match(outcome.out, std::regex("((yes|no), [a-z]{3,5}\\.\n){3}")));
  CHECK(skald({"chat", "--chat-template", "chatml", "--regex", "("}, "").code == 2);
}

TEST_CASE("a backslash at the end of a line continues the message on the next line") {
  ChatModel model;
  const std::string file = (model.path() / "saved.json").string();
  CHECK(run_program(model.chat(1, {}, "one\\\ntwo\\\n\nthree\n/save " + file + "\nfour\\")).code ==
        0);
  const Json messages = messages_in(file);
  REQUIRE(messages.size() == 4);
  CHECK(messages[0]["content"] == "one\ntwo\n");
  CHECK(messages[2]["content"] == "three");
}

TEST_CASE("commands change the dialogue, and their output goes to stderr") {
  ChatModel model;
  const std::string file = (model.path() / "saved.json").string();
  const auto saved = [&](const std::string& lines) {
    const Outcome outcome = run_program(model.chat(2, {}, lines + "\n/save " + file + "\n"));
    CAPTURE(outcome.err);
    CHECK(outcome.code == 0);
    std::string all;
    for (const Json& m : messages_in(file)) {
      all += m["role"].get<std::string>()[0] + (":" + m["content"].get<std::string>()) + " ";
    }
    return all;
  };
  CHECK(saved("a\nb") == "u:a a:xx u:b a:xx ");
  CHECK(saved("a\nb\n/undo") == "u:a a:xx ");
  CHECK(saved("a\nb\n/undo\nc") == "u:a a:xx u:c a:xx ");
  CHECK(saved("a\n/set n-predict 1\n/retry") == "u:a a:x ");
  CHECK(saved("a\n/set logit-bias 259+5\n/set -n 3\nb") == "u:a a:xx u:b a:xxx ");
  CHECK(saved("/system be brief\na") == "s:be brief u:a a:xx ");
  CHECK(saved("/system be brief\na\n/clear") == "s:be brief ");
  CHECK(saved("/system be brief\na\n/system none") == "u:a a:xx ");
}

TEST_CASE("in a pipe, an error ends the chat with its exit code") {
  ChatModel model;
  const std::string good =
      model.write("good.json", R"([{"role": "user", "content": "a"}])").string();
  const auto fails = [&](const std::string& lines, Exit code, const std::string& says,
                         const std::string& out = "") {
    const Outcome outcome = run_program(model.chat(1, {}, lines + "\nnever\n"));
    CAPTURE(lines);
    CHECK(has(error_of(outcome, code), says));
    CHECK(outcome.out == out);
  };
  fails("/hepl", Exit::Usage, "unknown command '/hepl', did you mean '/help'?");
  fails("/etc/passwd is what?", Exit::Usage, "a space before it makes it a message");
  fails("/save", Exit::Usage, "/save needs FILE");
  fails("/undo it", Exit::Usage, "/undo takes nothing after it");
  fails("/undo", Exit::Failed, "there is nothing to undo");
  fails("/retry", Exit::Failed, "there is no message to answer yet");
  fails("/file /nonexistent", Exit::Usage, "/nonexistent: cannot be opened");
  fails("/load " + model.model, Exit::Failed, "is not valid JSON");
  fails("/save /nonexistent/file", Exit::Failed, "cannot be written");
  fails("a\n/set temp -1", Exit::Usage, "temp: '-1': expected a finite number, 0 or more", "x\n");
  fails("/set nosuch", Exit::Usage, "there is no setting 'nosuch'");
  fails("/set tmep 1", Exit::Usage, "did you mean 'temp'?");
  fails("/set logit-bias 99999+1", Exit::Usage, "expected token ids from 0 to 259");
  fails("/load " + good + "\nb", Exit::Failed, "the last message has no answer yet");
}

TEST_CASE("/exit ends the chat, and later lines are not read") {
  ChatModel model;
  const Outcome outcome = run_program(model.chat(1, {}, "a\n/exit\nb\n"));
  CHECK(outcome.code == 0);
  CHECK(outcome.out == "x\n");
}

TEST_CASE("/set shows every sampling value and changes the named one") {
  ChatModel model;
  const Outcome all = run_program(model.chat(1, {"--top-p", "0.5"}, "/set\n"));
  CHECK(all.out == "");
  const std::string help = skald({"chat", "--help"}).out;
  int settings = 0;
  std::istringstream lines(all.err);
  for (std::string line; std::getline(lines, line); ++settings) {
    const std::string name = line.substr(2, line.find(' ', 2) - 2);
    CAPTURE(line);
    CHECK(has(help, "--" + name + " "));
  }
  CHECK(settings >= 12);
  CHECK(has(all.err, "  top-p 0.5 "));
  CHECK(has(all.err, "  logit-bias 259+5 "));
  const Outcome changed =
      run_program(model.chat(1, {}, "/set top_k 7\n/set --seed 5\n/set temp\n/set top-k\n"));
  CHECK(changed.code == 0);
  CHECK(has(changed.err, "  top-k 7 "));
  CHECK(has(changed.err, "  seed 5 "));
  CHECK(has(changed.err, "  temp 0 "));
  CHECK(!has(changed.err, "top-p"));
}

TEST_CASE("/help prints the table of commands") {
  ChatModel model;
  const Outcome outcome = run_program(model.chat(1, {}, "/help\n"));
  for (const char* name : {"help", "exit", "clear", "undo", "retry", "system", "set", "save",
                           "load", "file", "stats", "tokens", "thinking"}) {
    CHECK(has("\n" + outcome.err, std::string("\n  /") + name));
  }
}

TEST_CASE("/file puts a file's text before the next message, once") {
  ChatModel model;
  const std::string notes = model.write("my notes.txt", "line 1\nline \xff\n").string();
  const std::string file = (model.path() / "saved.json").string();
  const Outcome outcome = run_program(model.chat(
      1, {}, "/file \"" + notes + "\"\n/tokens\nwhat is it?\nand now?\n/save " + file + "\n"));
  CHECK(outcome.code == 0);
  CHECK(has(outcome.err, "my notes.txt: "));
  CHECK(has(outcome.err, "bytes that are no UTF-8 were replaced by U+FFFD"));
  CHECK(has(outcome.err, "file      "));
  const Json messages = messages_in(file);
  CHECK(messages[0]["content"] == "line 1\nline \uFFFD\n\nwhat is it?");
  CHECK(messages[2]["content"] == "and now?");
}

TEST_CASE("/save and /load keep a dialogue, and /retry answers an unanswered message") {
  ChatModel model;
  const std::string file = (model.path() / "saved.json").string();
  CHECK(run_program(model.chat(2, {}, "/system s\na\nb\n/save " + file + "\n")).code == 0);
  const std::string again = (model.path() / "again.json").string();
  const Outcome outcome =
      run_program(model.chat(1, {}, "/load " + file + "\nc\n/save " + again + "\n"));
  CHECK(outcome.code == 0);
  CHECK(outcome.out == "x\n");
  CHECK(messages_in(again).size() == 7);
  CHECK(messages_in(again)[0]["content"] == "s");
  const std::string open =
      model.write("open.json", R"([{"role": "user", "content": "a"}])").string();
  CHECK(run_program(model.chat(1, {}, "/load " + open + "\n/retry\n")).out == "x\n");
  // /save replaces the whole file.
  CHECK(run_program(model.chat(1, {}, "a\n/save " + file + "\n")).code == 0);
  CHECK(messages_in(file).size() == 2);
}

TEST_CASE("a turn computes only its own tokens, and /stats and /tokens report this") {
  ChatModel model;
  const Outcome outcome =
      run_program(model.chat(3, {}, "aaaaaaaaaa\n/stats\nb\n/stats\n/tokens\n/retry\n/stats\n"));
  CHECK(outcome.code == 0);
  // <s>[user]aaaaaaaaaa</s>[assistant] is 29 tokens. The answer xxx is 3, of which the last is not
  // computed yet.
  CHECK(has(outcome.err, "prompt of 29 tokens, 0 of them from the cache"));
  CHECK(has(outcome.err, "prompt of 52 tokens, 31 of them from the cache"));
  CHECK(has(outcome.err, "prompt of 52 tokens, 52 of them from the cache"));
  CHECK(has(outcome.err, "context   56 of 512 tokens (10 %)"));
  CHECK(has(outcome.err, "in cache  54"));
  CHECK(has(outcome.err, "turns     2"));
}

TEST_CASE("in a pipe a full context is an error, unless --context-full drop is given") {
  ChatModel model("x", 100);
  const std::string lines = "one\ntwo\nthree\nfour\n";
  for (const char* what : {"ask", "stop"}) {
    const Outcome outcome = run_program(model.chat(3, {"--context-full", what}, lines));
    CHECK(has(error_of(outcome, Exit::Failed),
              "the context of 100 tokens is full; --context-full drop goes on"));
    CHECK(outcome.out == "xxx\nxxx\nxxx\n");
  }
  const Outcome dropped = run_program(model.chat(3, {"--context-full", "drop"}, lines));
  CHECK(dropped.code == 0);
  CHECK(dropped.out == "xxx\nxxx\nxxx\nxxx\n");
  CHECK(has(dropped.err,
            "the context is full: 101 tokens are needed, it holds 100; without the "
            "oldest 2 of 4 turns it goes on"));

  // The context fills up within an answer.
  const Outcome cut = run_program(model.chat(-1, {}, "one\n"));
  CHECK(has(error_of(cut, Exit::Failed), "is full, the last answer is cut off"));
  CHECK(cut.out == std::string(78, 'x') + "\n");
  const Outcome alone = run_program(model.chat(-1, {"--context-full", "drop"}, "one\n"));
  CHECK(has(error_of(alone, Exit::Failed), "there is no turn left to drop"));
  const Outcome longer = run_program(model.chat(1, {}, std::string(100, 'a') + "\n"));
  CHECK(has(error_of(longer, Exit::Failed), "the message needs 120 tokens"));
}

TEST_CASE("bytes in a chat that are not UTF-8 are replaced, with a notice") {
  ChatModel model;
  const std::string file = (model.path() / "saved.json").string();
  const Outcome outcome = run_program(model.chat(1, {}, "a\xff\xc3(\n/save " + file + "\n"));
  CHECK(outcome.code == 0);
  CHECK(outcome.out == "x\n");
  CHECK(has(outcome.err, "skald: bytes that are no UTF-8 were replaced by U+FFFD\n"));
  CHECK(messages_in(file)[0]["content"] == "a\uFFFD\uFFFD(");
}

TEST_CASE("thinking belongs to a pipe's output unless --hide-thinking is given") {
  ChatModel model("<think>hm</think>\n\nyes");
  CHECK(run_program(model.chat(1, {}, "a\n")).out == "<think>hm</think>\n\nyes\n");
  const Outcome hidden = run_program(model.chat(1, {"--hide-thinking"}, "a\n/thinking\n"));
  CHECK(hidden.out == "yes\n");
  CHECK(hidden.err == "<think>hm</think>\n");
}

TEST_CASE("a pipe gets the answer's bytes unchanged") {
  ChatModel model("\x1b[31m");
  CHECK(run_program(model.chat(2, {}, "a\n")).out == "\x1b[31m\x1b[31m\n");
}

TEST_CASE("stop strings end an answer and do not belong to it") {
  ChatModel model("xy");
  const Outcome outcome = run_program(model.chat(9, {"--stop", "yxyx", "--stop", "zz"}, "a\n"));
  CHECK(outcome.out == "x\n");
}

TEST_CASE("a signal or a closed pipe ends a chat with its own exit code") {
  ChatModel model("x", 1 << 18);
  for (const auto& [signal, code] : {std::pair(SIGINT, 130), std::pair(SIGTERM, 143)}) {
    Invocation endless = model.chat(-1, {}, "a\nb\n");
    endless.signals = {signal};
    const Outcome outcome = run_program(endless);
    CHECK(outcome.code == code);
    CHECK(outcome.out.find_first_not_of('x') == outcome.out.size() - 1);  // one line, with its end
  }
  Invocation closed = model.chat(-1, {}, "a\n");
  closed.read_at_most = 5;
  const Outcome outcome = run_program(closed);
  CHECK(outcome.code == 141);
  CHECK(outcome.err == "");
  Invocation full = model.chat(3, {}, "a\n");
  full.out_file = "/dev/full";
  CHECK(has(error_of(run_program(full), Exit::Failed), "stdout: cannot be written"));
}

TEST_CASE("chat --session restores messages and cache") {
  ChatModel model;
  const std::string file = (model.path() / "a.chat").string();
  const auto talk = [&](const std::string& lines, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--session", file});
    return run_program(model.chat(3, more, lines));
  };
  CHECK(talk("aaaaaaaaaa\n").err == "");
  const Outcome second = talk("b\n/stats\n");
  CHECK(second.code == 0);
  CHECK(second.out == "xxx\n");
  CHECK(has(second.err, "skald: goes on from 2 messages\n"));
  CHECK(has(second.err, "prompt of 52 tokens, 31 of them from the cache"));
  // /undo removes tokens from the cache too.
  CHECK(has(talk("/undo\n").err, "1 turn left"));
  const Outcome third = talk("/tokens\nb\n/stats\n");
  CHECK(has(third.err, "goes on from 2 messages\n"));
  // One more than above: the cache has the </s> too.
  CHECK(has(third.err, "prompt of 52 tokens, 33 of them from the cache"));

  // With other settings the messages are restored, and the cache is computed and stored again.
  const Outcome exact = talk("c\n/stats\n", {"--exact"});
  CHECK(has(exact.err, "goes on from 4 messages; their cache is computed anew: it belongs to"));
  CHECK(has(exact.err, "tokens, 0 of them from the cache"));
  const Outcome short_context = talk("/tokens\n", {"--exact", "-c", "64"});
  CHECK(short_context.code == 0);
  CHECK(has(short_context.err, "computed anew: it is longer than the context"));
}

TEST_CASE("an unusable session file is reported before the dialogue starts") {
  ChatModel model;
  const auto fails = [&](const std::string& file, const std::string& says) {
    const Outcome outcome = run_program(model.chat(1, {"--session", file}, "a\n"));
    CHECK(has(error_of(outcome, Exit::Failed), says));
    CHECK(outcome.out == "");
  };
  fails("/nonexistent/a.chat", "/nonexistent/a.chat: cannot be written");
  fails("/proc/a.chat", "cannot be written");
  fails(model.path().string(), "is a folder, no regular file");
  const std::string other = model.write("other.txt", "my dear notes, all of them").string();
  fails(other, "is not one of skald's cache files");
  CHECK(read_file(other) == "my dear notes, all of them");

  const std::string cache = (model.path() / "prompt.cache").string();
  CHECK(skald({"run", "-m", model.model, "-n", "1", "--prompt-cache", cache, "aaa"}).code == 0);
  fails(cache, "is a prompt's cache, no dialogue");

  // A damaged session is refused, not replaced by an empty one.
  const std::string file = (model.path() / "a.chat").string();
  CHECK(run_program(model.chat(3, {"--session", file}, "a\n")).code == 0);
  std::string bytes = read_file(file);
  bytes[100] = static_cast<char>(bytes[100] ^ 1);
  model.write("a.chat", bytes);
  fails(file, "is damaged; name another file, or move it away");
}

}  // namespace
}  // namespace skald::test
