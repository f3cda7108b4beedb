// skald score: the log-probabilities of continuations, a line of JSON each.
#include <cmath>
#include <nlohmann/json.hpp>

#include "app/model/open.h"
#include "app/score/line.h"
#include "app/score/round.h"
#include "engine/cpu/executor.h"
#include "tests/catch.h"
#include "tests/engine/random_llama.h"
#include "tests/error_text.h"
#include "tests/json_lines.h"
#include "tests/process.h"
#include "tests/small_models.h"

namespace skald::test {
namespace {

struct Files {
  TempFolder folder;
  std::string in = (folder.path() / "in.jsonl").string();
  std::string out = (folder.path() / "out.jsonl").string();

  Outcome run(std::vector<std::string> more = {}) const {
    std::vector<std::string> all{"score", "--device", "cpu", "-i", in, "-o", out, "-q"};
    all.insert(all.end(), more.begin(), more.end());
    return skald(all);
  }
  std::vector<Json> results() const { return json_lines<Json>(read_file(out)); }
};

std::string problem(const char* line, const ScoreOptions& options) {
  std::vector<std::string> unknown;
  try {
    read_score_line(Json::parse(line), options, unknown);
  } catch (const LineError& error) {
    return error.problem().code + ": " + error.what();
  }
  return "";
}

TEST_CASE(
    "a text that shares its context with others has bit for bit the scores that it has alone") {
  const Model model = random_llama({});
  std::vector<ScoreText> texts;
  const std::vector<int32_t> context = random_tokens(90, 1);
  for (const auto& [shared, length] :
       {std::pair(90, 5), std::pair(90, 1), std::pair(70, 30), std::pair(1, 3), std::pair(90, 70),
        std::pair(64, 2), std::pair(65, 2), std::pair(1, 1), std::pair(70, 1)}) {
    ScoreText text;
    text.ids.assign(context.begin(), context.begin() + shared);
    text.context = shared;
    for (int32_t id : random_tokens(length, static_cast<uint64_t>(length))) text.ids.push_back(id);
    texts.push_back(text);
  }
  std::vector<std::vector<TokenScore>> expected;
  for (const ScoreText& text : texts) {
    const auto executor = cpu::make_executor(model, {.rows = 7});
    ScoreRound alone(*executor, 1);
    REQUIRE(alone.add(text));
    expected.push_back(alone.run().front());
    CHECK(expected.back().size() == static_cast<size_t>(text.scored()));
  }
  for (const int64_t rows : {16, 100, 512}) {
    const auto executor = cpu::make_executor(model, {.context = 192, .sequences = 9, .rows = rows});
    ScoreRound round(*executor, 100);
    for (const ScoreText& text : texts) REQUIRE(round.add(text));
    const auto scores = round.run();
    CAPTURE(rows);
    REQUIRE(scores.size() == texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      REQUIRE(scores[i].size() == expected[i].size());
      for (size_t k = 0; k < scores[i].size(); ++k) {
        CHECK(scores[i][k].logprob == expected[i][k].logprob);
      }
    }
    CHECK(executor->pages().free_pages() == executor->pages().size());
  }
}

TEST_CASE("a round takes as many texts as the cache holds, and at least one") {
  const Model model = random_llama({});
  const auto executor = cpu::make_executor(model, {.context = 128, .sequences = 1, .rows = 64});
  ScoreText full, small;
  full.ids = random_tokens(129, 1);  // 128 rows, both pages
  full.context = 100;
  small.ids = random_tokens(10, 2);
  small.context = 4;
  ScoreRound round(*executor, 100);
  CHECK(round.add(full));
  CHECK(!round.add(small));
  CHECK(round.run().front().size() == 29);
  CHECK(round.add(small));
  CHECK(round.run().front().size() == 6);
}

TEST_CASE("context and continuation become ids as in lm-evaluation-harness") {
  const auto tokenizer = open_tokenizer(bundled_model());
  const ScoreOptions options{tokenizer.get(), 2048, 512};
  std::vector<std::string> unknown;
  const auto read = [&](const char* line, const ScoreOptions& with) {
    return read_score_line(Json::parse(line), with, unknown);
  };
  const ScoreText text =
      read(R"({"context": "Once upon  ", "continuation": "a time", "speed": 1, "id": 3})", options);
  CHECK(unknown == std::vector<std::string>{"speed"});
  CHECK(text.ids == tokenizer->encode("Once upon  a time"));
  CHECK(text.context == std::ssize(tokenizer->encode("Once upon")));
  CHECK(text.ids.front() == tokenizer->special().bos);
  CHECK(text.bytes == 6);
  ScoreOptions bare = options;
  bare.no_bos = true;
  const ScoreText without = read(R"({"context": "Once upon", "continuation": " a time"})", bare);
  CHECK(std::equal(without.ids.begin(), without.ids.end(),
                   tokenizer->encode("Once upon a time").begin() + 1));
  const ScoreText empty = read(R"({"context": "", "continuation": "A fox"})", bare);
  CHECK(empty.context == 1);
  CHECK(empty.ids == tokenizer->encode("A fox"));
  const ScoreText ids = read(R"({"context_ids": [5, 6], "continuation_ids": [7]})", options);
  CHECK(ids.ids == std::vector<int32_t>{5, 6, 7});
  CHECK(ids.context == 2);
  CHECK(ids.bytes == std::ssize(tokenizer->piece_bytes(7)));
}

TEST_CASE("the error of a bad line names the cause") {
  const auto tokenizer = open_tokenizer(bundled_model());
  const ScoreOptions options{tokenizer.get(), 2048, 8};
  for (const auto& [line, says] : {
           std::pair(R"({})", "expected 'context' and 'continuation'"),
           std::pair(R"({"context": "a"})", "expected 'context' and 'continuation'"),
           std::pair(R"({"context": "a", "continuation": 5})", "continuation"),
           std::pair(R"({"context": "a", "continuation": ""})", "the continuation has no token"),
           std::pair(R"({"context_ids": [1], "continuation_ids": [2048]})", "0 to 2047"),
           std::pair(R"({"context_ids": [-1], "continuation_ids": [1]})", "a list of token ids"),
           std::pair(R"({"context_ids": "x", "continuation_ids": [1]})", "a list of token ids"),
           std::pair(R"({"context": "a", "continuation": "b", "continuation_ids": [1]})",
                     "expected 'context'"),
           std::pair(R"({"context_ids": [1,2,3,4,5,6,7,8,9], "continuation_ids": [1]})",
                     "context_length_exceeded: context and continuation are 10 tokens"),
       }) {
    CAPTURE(line, problem(line, options));
    CHECK(has(problem(line, options), says));
  }
  ScoreOptions cut = options;
  cut.truncate_left = true;
  std::vector<std::string> unknown;
  const ScoreText text = read_score_line(
      Json::parse(R"({"context_ids": [1,2,3,4,5,6,7,8,9], "continuation_ids": [10, 11]})"), cut,
      unknown);
  CHECK(text.cut == 2);
  CHECK(text.ids == std::vector<int32_t>{3, 4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(text.context == 7);
  CHECK(has(problem(R"({"context_ids": [1], "continuation_ids": [1,2,3,4,5,6,7,8,9]})", cut),
            "the continuation alone is too long"));
}

TEST_CASE("results keep the order of the lines, and bad lines get an error and exit code 5") {
  Files files;
  files.folder.write("in.jsonl", R"({"id": "a", "context": "Once upon a", "continuation": " time"})"
                                 "\n"
                                 R"({"context": "Once upon a", "continuation": " xylophone"})"
                                 "\n\nnonsense\n"
                                 R"({"id": 7, "context": "", "continuation": "Once"})"
                                 "\n"
                                 R"({"id": "a", "context": "x", "continuation": "y"})"
                                 "\n");
  const Outcome outcome = files.run();
  CHECK(outcome.code == 5);
  CHECK(outcome.out == "");
  const std::vector<Json> lines = files.results();
  REQUIRE(lines.size() == 5);
  CHECK(lines[0]["id"] == "a");
  CHECK(lines[0]["greedy"] == true);
  CHECK(lines[0]["bytes"] == 5);
  CHECK(lines[0]["logprob"].get<double>() > -0.1);
  CHECK(lines[1]["id"] == "line-2");
  CHECK(lines[1]["greedy"] == false);
  CHECK(lines[1]["logprob"].get<double>() < -5);
  double sum = 0;
  for (const Json& logprob : lines[1]["logprobs"]) sum += logprob.get<double>();
  CHECK(lines[1]["logprob"] == sum);
  CHECK(lines[1]["tokens"] == lines[1]["logprobs"].size());
  CHECK(lines[2]["error"]["code"] == "invalid_json");
  CHECK(lines[3]["id"] == 7);
  CHECK(lines[3]["context_tokens"] == 1);
  CHECK(lines[4]["error"]["code"] == "duplicate_id");
  const Json manifest = Json::parse(read_file(files.out + ".manifest.json"));
  CHECK(manifest["settings"]["model"].get<std::string>().size() == 64);

  // An existing output is refused; --resume continues it.
  CHECK(files.run().code == 2);
  const std::string whole = read_file(files.out);
  files.folder.write("out.jsonl", std::string_view(whole).substr(0, whole.find('\n') + 30));
  CHECK(files.run({"--resume"}).code == 5);
  CHECK(read_file(files.out) == whole);
  const Outcome other = files.run({"--resume", "--no-bos"});
  CHECK(other.code == 2);
  CHECK(has(other.err, "no_bos"));
}

TEST_CASE("score reads from a pipe, writes to one, and refuses what it cannot do") {
  const Outcome piped =
      skald({"score", "--device", "cpu"}, R"({"context": "Once upon a", "continuation": " time"})");
  CHECK(piped.code == 0);
  CHECK(Json::parse(piped.out)["greedy"] == true);
  CHECK(has(piped.err, "1 line done"));
  CHECK(skald({"score", "-i", "/nowhere.jsonl"}).code == 2);
  CHECK(skald({"score", "--on-overflow", "cut"}, "").code == 2);
  CHECK(skald({"score", "-c", "100000"}, "").code == 2);
  Invocation full{{"score", "--device", "cpu"},
                  R"({"context": "Once upon a", "continuation": " time"})"};
  full.out_file = "/dev/full";
  CHECK(run_program(full).code == 1);
}

}  // namespace
}  // namespace skald::test
