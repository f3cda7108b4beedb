// skald batch against kills, full disks, closed pipes and hostile input.
#include <random>

#include "tests/app/batch/files.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/hostile.h"

namespace skald::test {
namespace {

// Requests for about a second of work, so that a test can kill the run in the middle.
std::string many_requests(int count = 60) {
  std::string requests;
  for (int i = 0; i < count; ++i) {
    const Json request = {{"id", "r" + std::to_string(i)},
                          {"prompt", std::string(static_cast<size_t>(1 + i % 40), 'a')},
                          {"max_tokens", 5 + (i * 37) % 60}};
    requests += i % 13 == 12 ? "no json\n" : dump(request) + "\n";
  }
  return requests;
}

const std::vector<std::string> kSettings{"--ignore-eos", "--max-seqs", "6"};

std::vector<std::string> resumed() {
  std::vector<std::string> all = kSettings;
  all.push_back("--resume");
  return all;
}

std::string undisturbed() {
  const BatchFiles files(many_requests());
  CHECK(files.run(kSettings).code == 5);
  return files.text();
}

TEST_CASE("a batch killed at any moment and resumed has the output of an undisturbed run") {
  const std::string expected = undisturbed();
  std::mt19937 random(7);
  for (int kill = 0; kill < 12; ++kill) {
    const BatchFiles files(many_requests());
    int killed = 0;
    for (int run = 0; run < 20; ++run) {
      // Waits for up to 11 more lines before the kill, at most 1.5 seconds.
      const size_t lines = files.lines_written() + random() % 12;
      const auto ready = [&, waited = 0]() mutable {
        return files.lines_written() >= lines || ++waited > 1500;
      };
      const Outcome outcome = files.run_until(ready, SIGKILL, resumed());
      if (outcome.signal != SIGKILL) break;
      ++killed;
      if (run % 3 == 0 && files.lines_written() > 0) {  // a torn write may leave half a line
        std::ofstream(files.out, std::ios::app) << "{\"id\":\"batch_req";
      }
      if (run == 1) break;
    }
    CHECK(killed > 0);
    CHECK(files.run(resumed()).code == 5);
    CHECK(files.text() == expected);
    CHECK(files.manifest()["runs"].back()["exit_code"] == 5);
  }
}

TEST_CASE(
    "SIGINT and SIGTERM end a batch with whole lines and codes 130 and 143; --resume completes the "
    "output") {
  const std::string expected = undisturbed();
  for (const auto& [signal, code] : {std::pair(SIGINT, 130), std::pair(SIGTERM, 143)}) {
    const BatchFiles files(many_requests());
    const auto begun = [&] { return files.lines_written() >= 3; };
    const Outcome outcome = files.run_until(begun, signal, kSettings);
    CHECK(outcome.code == code);
    CHECK(outcome.err == "");
    CHECK(files.text().back() == '\n');
    CHECK(files.results().size() < 60);
    CHECK(files.manifest()["runs"][0]["exit_code"] == code);
    CHECK(files.run(resumed()).code == 5);
    CHECK(files.text() == expected);
  }
}

TEST_CASE("an interrupted batch names lines that failed and says how to go on") {
  const BatchFiles files("no json\n" + many_requests());
  std::vector<std::string> arguments = files.arguments(kSettings);
  std::erase(arguments, "-q");
  const auto begun = [&] { return files.lines_written() >= 3; };
  const std::string err = files.run_arguments_until(begun, SIGINT, arguments).err;
  CAPTURE(err);
  CHECK(has(err, "skald: line 1 failed: invalid_json: "));
  CHECK(err.ends_with("skald: interrupted; the same command with --resume goes on from here\n"));
}

TEST_CASE("Ctrl-C ends a batch that waits for stdin") {
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(pipe[0], 0);
    ::close(pipe[1]);
    exec_program({{"batch", "-m", small_gguf(), "-o", "/dev/null", "-q"}, ""});
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  ::kill(child, SIGINT);
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(pipe[0]), ::close(pipe[1]);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 130);
}

TEST_CASE("an existing output is never overwritten, and --resume refuses other settings") {
  const BatchFiles files("{\"id\":\"a\",\"prompt\":\"x\"}\n");
  CHECK(files.run().code == 0);
  const std::string text = files.text();
  const Outcome again = files.run();
  CHECK(again.code == 2);
  CHECK(has(again.err, "is there already and is not overwritten"));
  const Outcome other = files.run({"--resume", "--temp", "0.5"});
  CHECK(other.code == 2);
  CHECK(has(other.err, "temperature 0.5, was 0.8; use them again"));
  CHECK(files.run({"--resume"}).code == 0);
  CHECK(files.text() == text);
  CHECK(files.manifest()["runs"][1]["counts"]["done_before"] == 1);
  std::vector<std::string> arguments = files.arguments({"--resume"});
  arguments[6] = files.in;
  CHECK(skald(arguments).code == 2);
  CHECK(read_file(files.in) == "{\"id\":\"a\",\"prompt\":\"x\"}\n");
}

TEST_CASE(
    "batch --resume computes changed, new and failed requests, and keeps the order of the input") {
  const BatchFiles files(
      "{\"id\":\"a\",\"prompt\":\"x\"}\n{\"id\":\"b\"}\n{\"id\":\"c\",\"prompt\":"
      "\"z\"}\n");
  CHECK(files.run().code == 5);
  const std::vector<Json> before = files.results();
  files.folder.write("in.jsonl",
                     "{\"id\":\"new\",\"prompt\":\"n\"}\n{\"id\":\"a\",\"prompt\":\"changed\"}\n"
                     "{\"id\":\"b\",\"prompt\":\"y\"}\n{\"id\":\"c\",\"prompt\":\"z\"}\n");
  CHECK(files.run({"--resume"}).code == 0);
  const std::vector<Json> after = files.results();
  REQUIRE(after.size() == 4);
  CHECK(after[0]["custom_id"] == "new");
  CHECK(after[1]["custom_id"] == "a");
  CHECK(after[1]["request_hash"] != before[0]["request_hash"]);
  CHECK(after[2]["error"].is_null());
  CHECK(after[3] == before[2]);
}

TEST_CASE("after a full disk the output has whole lines, and --resume completes it") {
  const std::string expected = undisturbed();
  const BatchFiles files(many_requests());
  Invocation invocation{files.arguments(kSettings), ""};
  invocation.file_size = 7000;
  const Outcome outcome = run_program(invocation);
  CHECK(outcome.code == 1);
  CHECK(has(outcome.err, "cannot be written: File too large; all lines before are whole"));
  CHECK(files.text().back() == '\n');
  CHECK(files.text().size() <= 7000);
  CHECK(!files.results().empty());
  CHECK(files.run(resumed()).code == 5);
  CHECK(files.text() == expected);
}

TEST_CASE("an unwritable output is reported at once") {
  const BatchFiles files("{\"prompt\":\"x\"}\n");
  std::vector<std::string> arguments = files.arguments();
  for (const std::string folder : {"/proc", "/nowhere"}) {
    arguments[6] = folder + "/out.jsonl";
    const Outcome outcome = skald(arguments);
    CHECK(outcome.code == 1);
    CHECK(has(outcome.err, "cannot be written"));
  }
  arguments[6] = "-";
  Invocation full{arguments, ""};
  full.out_file = "/dev/full";
  CHECK(run_program(full).code == 1);
}

TEST_CASE("when the reader of stdout goes away, the batch ends quietly with 141") {
  const BatchFiles files(many_requests(300));
  std::vector<std::string> arguments = files.arguments(kSettings);
  arguments[6] = "-";
  Invocation invocation{arguments, ""};
  invocation.read_at_most = 10;
  const Outcome outcome = run_program(invocation);
  CHECK(outcome.code == 141);
  CHECK(outcome.err == "");
}

TEST_CASE("requests may come from a pipe and results go to one") {
  const BatchFiles files("");
  std::vector<std::string> arguments = files.arguments({"--plain", "--ignore-eos"});
  arguments[4] = arguments[6] = "-";
  const Outcome outcome =
      skald(arguments, "\xef\xbb\xbf{\"prompt\":\"a\"}\r\n\r\n{\"prompt\":\"b\"}");
  CHECK(outcome.code == 0);
  REQUIRE(json_lines<Json>(outcome.out).size() == 2);
  CHECK(json_lines<Json>(outcome.out)[1]["id"] == "line-3");
  CHECK(!std::filesystem::exists("-.manifest.json"));
}

TEST_CASE("hostile lines get errors and do not affect the others") {
  constexpr size_t kHostileLength = 100'000'000;
  std::string requests = "{\"id\":\"first\",\"prompt\":\"a\"}\n";
  requests += "{\"id\":\"long\",\"prompt\":\"" + std::string(kHostileLength, 'x') + "\"}\n";
  requests += std::string("{\"id\":\"nul\",\"prompt\":\"a\0b\"}\n", 28);
  requests += std::string(1'000'000, '[') + "\n";
  requests +=
      "{\"id\":\"deep\",\"messages\":" + std::string(90, '[') + std::string(90, ']') + "}\n";
  requests += "{\"id\":\"\\u0000\",\"prompt\":\"\\u0000\\ud83d\"}\n";
  requests += "{\"id\":\"last\",\"prompt\":\"a\"}\n";
  const BatchFiles files(requests);
  Invocation invocation{files.arguments({"--plain", "-n", "2", "--ignore-eos"}), ""};
  if (!sanitized()) invocation.address_space = uint64_t{1} << 30;
  const Outcome outcome = run_program(invocation);
  CAPTURE(outcome.err);
  CHECK(outcome.code == 5);
  const std::vector<Json> results = files.results();
  REQUIRE(results.size() == 7);
  CHECK(results[1]["error"]["code"] == "line_too_long");
  for (const int bad : {2, 3, 5}) CHECK(results[bad]["error"]["code"] == "invalid_json");
  CHECK(results[4]["error"]["code"] == "invalid_request");
  for (const int good : {0, 6}) CHECK(results[good]["completion_tokens"] == 2);
}

TEST_CASE("20000 short lines are all done") {
  constexpr int kLines = 20000;
  std::string requests;
  for (int i = 0; i < kLines; ++i) requests += "{\"prompt\":[1],\"max_tokens\":1}\n";
  BatchFiles files(requests);
  files.model = files.folder.write("flat.gguf", flat_gguf({})).string();
  CHECK(files.run({"--plain", "--max-seqs", "128"}).code == 0);
  CHECK(files.lines_written() == kLines);
  const std::string text = files.text();
  CHECK(has(text.substr(text.size() - 300), "\"id\":\"line-20000\""));
}

TEST_CASE("lines that are appended to the input while it is read are done too") {
  const BatchFiles files(many_requests());
  const auto begun = [&, grown = false]() mutable {
    if (!grown && files.lines_written() >= 2) {
      std::ofstream(files.in, std::ios::app) << "{\"id\":\"grown\",\"prompt\":\"a\"}\n";
      grown = true;
    }
    return files.lines_written() >= 61;
  };
  std::vector<std::string> slow = kSettings;
  slow.insert(slow.end(), {"--max-tokens-per-step", "8", "--max-seqs", "1"});
  slow.erase(slow.begin() + 1, slow.begin() + 3);
  files.run_until(begun, SIGCONT, slow);
  CHECK(files.lines_written() >= 60);
  CHECK(files.run({"--ignore-eos", "--resume"}).code == 5);
  CHECK(files.results().back()["custom_id"] == "grown");
}

}  // namespace
}  // namespace skald::test
