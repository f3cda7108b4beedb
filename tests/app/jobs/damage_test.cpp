// Results and manifests that were damaged or edited between two runs are never trusted.
#include <algorithm>

#include "app/files/sealed_line.h"
#include "app/jobs/manifest.h"
#include "app/jobs/result_writer.h"
#include "tests/app/batch/files.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/program_output.h"

namespace skald::test {
namespace {

constexpr const char* kFirst =
    "{\"id\":\"a\",\"text\":\"so\",\"prompt_tokens\":1,\"request_hash\":\"h\"}";
constexpr const char* kSecond =
    "{\"id\":\"b\",\"text\":\"it\",\"prompt_tokens\":2,\"request_hash\":\"h\"}";

TEST_CASE("a result with any byte changed is computed again, or its file is refused") {
  const TempFolder folder;
  const std::string path = (folder.path() / "out.jsonl").string();
  const std::string first = sealed_line(kFirst) + "\n", second = sealed_line(kSecond) + "\n";
  int redone = 0, refused = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    for (const char mask : {1, 2, 8, 16}) {
      std::string damaged = first;
      damaged[i] = static_cast<char>(damaged[i] ^ mask);
      CAPTURE(damaged);
      folder.write("out.jsonl", damaged + second);
      try {
        ResultWriter writer({.path = path, .resume = true});
        REQUIRE(!writer.done_before(0, "\"a\"", "h"));
        REQUIRE(writer.done_before(1, "\"b\"", "h"));
        writer.write(0, kFirst);
        writer.finish();
        REQUIRE(read_file(path).substr(0, first.size() + second.size()) == first + second);
        ++redone;
      } catch (const Error& error) {
        REQUIRE(has(error.what(), "out.jsonl: line 1 is no result of skald"));
        REQUIRE(has(error.what(), "If the line was damaged, remove it"));
        REQUIRE(read_file(path) == damaged + second);
        ++refused;
      }
    }
  }
  CHECK(redone > refused);
}

TEST_CASE("a damaged result is not kept, even where its request is not asked for") {
  const TempFolder folder;
  const std::string path = (folder.path() / "out.jsonl").string();
  std::string damaged = sealed_line(kFirst);
  damaged.replace(damaged.find("\"so\""), 4, "\"no\"");
  folder.write("out.jsonl", damaged + "\n" + sealed_line(kSecond) + "\n");
  ResultWriter writer({.path = path, .resume = true});
  CHECK(writer.damaged() == 1);
  CHECK(writer.done_before(0, "\"b\"", "h"));
  writer.finish();
  CHECK(read_file(path) == sealed_line(kSecond) + "\n");
}

TEST_CASE("a result without a checksum is computed again where it is asked for, and else kept") {
  const TempFolder folder;
  const std::string path = (folder.path() / "out.jsonl").string();
  folder.write("out.jsonl", std::string(kFirst) + "\n" + kSecond + "\n");
  ResultWriter writer({.path = path, .resume = true});
  CHECK(writer.damaged() == 0);
  CHECK(!writer.done_before(0, "\"b\"", "h"));
  writer.write(0, kSecond);
  writer.finish();
  CHECK(read_file(path) == sealed_line(kSecond) + "\n" + kFirst + "\n");
}

std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (const Json& line : json_lines<Json>(text)) lines.push_back(dump(line));
  std::sort(lines.begin(), lines.end());
  return lines;
}

// Runs the command, changes one thing after the other in its results, and goes on from each.
void check_redone(const std::vector<std::string>& command, const std::string& lines,
                  const std::vector<std::pair<std::string, std::string>>& changes) {
  const BatchFiles files(lines);
  const bool unordered = std::find(command.begin(), command.end(), "--unordered") != command.end();
  std::vector<std::string> run = command;
  run.insert(run.end(), {"-i", files.in, "-o", files.out});
  output(run);
  const std::string whole = files.text();
  run.push_back("--resume");
  for (const auto& [from, to] : changes) {
    std::string text = whole;
    CAPTURE(from, to, text);
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    files.folder.write("out.jsonl", text);
    const Outcome outcome = skald(run);
    CHECK(outcome.code == 0);
    CHECK(has(outcome.err, "out.jsonl was damaged or edited since (the checksum does not fit)"));
    CHECK(sorted_lines(files.text()) == sorted_lines(whole));
    CHECK((unordered || files.text() == whole));
    CHECK(files.manifest()["runs"].back()["counts"]["done"] == 1);
    CHECK(files.manifest()["runs"].back()["counts"]["damaged_before"] == 1);
  }
}

TEST_CASE("an edited result of batch and score, however plausible, is computed again") {
  const std::string prompts = "{\"prompt\":\"a\",\"max_tokens\":3}\n{\"prompt\":\"b\"}\n";
  const std::vector<std::string> batch{"batch", "-n", "2"};
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{}, {"--plain"}, {"--unordered"}}) {
    std::vector<std::string> command = batch;
    command.insert(command.end(), flags.begin(), flags.end());
    check_redone(command, prompts,
                 {{"\"completion_tokens\":3", "\"completion_tokens\":2"},
                  {"\"text\":\"", "\"text\":\"x"},
                  {"\"finish_reason\":\"", "\"finish_reason\":\"was "},
                  {"\"line-1\"", "\"line-3\""}});
  }
  check_redone({"score"},
               "{\"context\":\"The sky is\",\"continuation\":\" blue\"}\n"
               "{\"context\":\"The sea is\",\"continuation\":\" blue\"}\n",
               {{"\"greedy\":false", "\"greedy\":true"},
                {"\"bytes\":5", "\"bytes\":6"},
                {"\"logprob\":-", "\"logprob\":-1"}});
}

TEST_CASE("a manifest with any byte changed is refused, or says what it said") {
  const TempFolder folder;
  const std::string out = (folder.path() / "out.jsonl").string();
  const Json settings = {{"model", "abc"}, {"temperature", 0.8}, {"seed", 7}};
  Manifest(out, settings, false).begin({{"device", "cpu"}});
  const std::string whole = read_file(manifest_path(out));
  int refused = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    CAPTURE(damaged);
    folder.write("out.jsonl.manifest.json", damaged);
    try {
      Manifest(out, settings, true).begin({});
      const Json now = Json::parse(read_file(manifest_path(out)));
      Json first = now["runs"][0];
      REQUIRE(now["runs"].size() == 2);
      REQUIRE(first == Json::parse(whole)["runs"][0]);
    } catch (const Error& error) {
      REQUIRE(error.code() == Exit::Failed);
      REQUIRE(has(error.what(), "was damaged or edited since; remove it, and --resume goes on"));
      ++refused;
    }
  }
  CHECK(refused > static_cast<int>(whole.size() / 2));
}

}  // namespace
}  // namespace skald::test
