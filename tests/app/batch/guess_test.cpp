// skald batch with a draft model: results stay the same, reports, and what goes wrong.
#include <algorithm>

#include "tests/app/batch/files.h"
#include "tests/eagle3_folder.h"
#include "tests/program_output.h"
#include "tests/recurrent_model.h"
#include "tests/space_model.h"

namespace skald::test {
namespace {

using Arguments = std::vector<std::string>;

std::string demo_model() { return (source_dir() / "models" / "demo").string(); }

// Greedy and sampled lines of many lengths, with stop texts, log-probabilities and several samples.
std::string stories() {
  const std::vector<std::string> prompts = {"Once upon a time", "The little dog", "In the forest",
                                            "Anna said"};
  std::string requests;
  for (int i = 0; i < 10; ++i) {
    Json line = {{"prompt", prompts[static_cast<size_t>(i) % prompts.size()]},
                 {"temperature", i % 2 == 0 ? 0.0 : 0.8},
                 {"max_tokens", 10 + 7 * i}};
    if (i % 3 == 0) line["logprobs"] = 2;
    if (i % 4 == 1) line["stop"] = {"and", "."};
    if (i == 5) line["n"] = 3;
    if (i == 6) line["response_format"] = {{"type", "json_object"}};
    requests += line.dump() + "\n";
  }
  return requests;
}

Json counts_of(const BatchFiles& files) {
  return Json::parse(read_file(files.folder.path() / "report.json")).at("counts");
}

Arguments reported(const BatchFiles& files, const Arguments& more) {
  Arguments all{"--report", (files.folder.path() / "report.json").string()};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST_CASE("batch -md changes no result, whichever model guesses") {
  for (const std::string& model : {demo_model(), small_gguf()}) {
    BatchFiles expected(stories());
    expected.model = model;
    const Arguments same{"--ignore-eos", "--max-seqs", "4", "--device", "cpu", "--reproducible"};
    REQUIRE(expected.run(same).code == 0);
    for (const Arguments& how :
         {Arguments{"-md", demo_model()}, Arguments{"-md", small_gguf(), "--spec", "draft"},
          Arguments{"-md", demo_model(), "--spec", "auto", "--spec-max", "3", "--device-draft",
                    "cpu"}}) {
      BatchFiles guessed(stories());
      guessed.model = model;
      Arguments with = same;
      with.insert(with.end(), how.begin(), how.end());
      const Outcome outcome = guessed.run(reported(guessed, with));
      CAPTURE(model, how, outcome.err);
      CHECK(outcome.code == 0);
      CHECK(outcome.err.empty());
      CHECK(guessed.text() == expected.text());
      CHECK(guessed.manifest()["runs"][0]["draft"]["memory_bytes"].get<int64_t>() > 0);
    }
  }
}

TEST_CASE("an EAGLE-3 head changes no result of a batch, and its guesses are counted") {
  const TempFolder temp;
  const std::string head = (temp.path() / "head").string();
  Eagle3Folder().write(head);
  for (const char* texts : {"1", "4"}) {
    BatchFiles expected(stories());
    expected.model = demo_model();
    const Arguments same{"--ignore-eos", "--max-seqs", texts, "--device", "cpu"};
    REQUIRE(expected.run(same).code == 0);
    for (const char* by : {"eagle", "auto"}) {
      CAPTURE(texts, by);
      BatchFiles guessed(stories());
      guessed.model = demo_model();
      Arguments with = same;
      with.insert(with.end(), {"-md", head, "--spec", by});
      const Outcome outcome = guessed.run(reported(guessed, with));
      CAPTURE(outcome.err);
      CHECK(outcome.code == 0);
      CHECK(outcome.err.empty());
      CHECK(guessed.text() == expected.text());
      CHECK(guessed.manifest()["runs"][0]["draft"]["model"] == head);
      CHECK(counts_of(guessed).at("guesses")["draft"]["tokens"].get<int>() > 0);
    }
  }
}

TEST_CASE("the report counts the guesses of a draft model that is the model itself") {
  BatchFiles files(stories());
  files.model = demo_model();
  const Outcome outcome =
      files.run(reported(files, {"-md", demo_model(), "--ignore-eos", "--max-seqs", "4"}));
  CAPTURE(outcome.err);
  REQUIRE(outcome.code == 0);
  const Json guesses = counts_of(files).at("guesses");
  CHECK(guesses["draft_seconds"].get<double>() >= 0);
  CHECK(!guesses.contains("ngram"));
  CHECK(guesses["tokens"].get<int>() > 0);
  CHECK(guesses["draft"]["tokens"] == guesses["tokens"]);
  CHECK(guesses["draft"]["right"] == guesses["right"]);
}

TEST_CASE("guesses of all kinds change no result of a batch with recurrent layers") {
  const TempFolder temp;
  const std::string mtp = temp.write("mtp.gguf", RecurrentGguf().file(true)).string();
  const std::string space = temp.write("space.gguf", SpaceGguf().file()).string();
  for (const std::string& model : {mtp, space}) {
    for (const char* texts : {"1", "4"}) {
      BatchFiles expected(stories());
      expected.model = model;
      const Arguments same{"--ignore-eos", "--max-seqs", texts, "--device", "cpu"};
      REQUIRE(expected.run(same).code == 0);
      std::vector<Arguments> ways = {{"-md", small_gguf()}, {"--spec", "ngram"}};
      if (model == mtp) ways.push_back({"--spec", "mtp"});
      if (model == mtp) ways.push_back({"--spec", "auto"});
      for (const Arguments& how : ways) {
        CAPTURE(model, texts, how);
        BatchFiles guessed(stories());
        guessed.model = model;
        Arguments with = same;
        with.insert(with.end(), how.begin(), how.end());
        const Outcome outcome = guessed.run(reported(guessed, with));
        CAPTURE(outcome.err);
        CHECK(outcome.code == 0);
        CHECK(outcome.err.empty());
        CHECK(guessed.text() == expected.text());
        if (how.back() == "ngram" || how.back() == "auto") continue;
        CHECK(counts_of(guessed).at("guesses")["draft"]["tokens"].get<int>() > 0);
      }
    }
  }
}

// A list of objects whose names the schema fixes, so that much of it is forced and repeats itself.
std::string lists() {
  const Json item = {{"type", "object"},
                     {"properties",
                      {{"animal", {{"enum", {"dog", "cat"}}}},
                       {"name of the friend", {{"type", "string"}, {"maxLength", 12}}}}},
                     {"required", {"animal", "name of the friend"}},
                     {"additionalProperties", false}};
  const Json schema = {{"type", "array"}, {"items", item}, {"minItems", 3}, {"maxItems", 3}};
  std::string requests;
  for (int i = 0; i < 4; ++i) {
    Json line = {{"prompt", i % 2 == 0 ? "Once upon a time" : "The little dog"},
                 {"temperature", i < 2 ? 0.0 : 0.8},
                 {"max_tokens", 400},
                 {"response_format",
                  {{"type", "json_schema"}, {"json_schema", {{"name", "x"}, {"schema", schema}}}}}};
    if (i == 3) line["logprobs"] = 1;
    requests += line.dump() + "\n";
  }
  return requests;
}

TEST_CASE("a batch guesses beside response_format, and results stay the same") {
  BatchFiles expected(lists());
  expected.model = demo_model();
  const Arguments same{"--max-seqs", "2", "--device", "cpu"};
  REQUIRE(expected.run(reported(expected, same)).code == 0);
  const Json plain = counts_of(expected);
  CHECK(plain["steps"].get<int>() < plain["tokens_out"].get<int>() * 2 / 3);  // others are forced
  for (const Arguments& how : {Arguments{"--spec", "ngram"}, Arguments{"-md", demo_model()},
                               Arguments{"-md", demo_model(), "--spec", "auto"}}) {
    BatchFiles guessed(lists());
    guessed.model = demo_model();
    Arguments with = same;
    with.insert(with.end(), how.begin(), how.end());
    const Outcome outcome = guessed.run(reported(guessed, with));
    CAPTURE(how, outcome.err);
    CHECK(outcome.code == 0);
    CHECK(outcome.err.empty());
    CHECK(guessed.text() == expected.text());
    for (const Json& line : guessed.results()) {
      const Json& choice = line["response"]["body"]["choices"][0];
      CHECK(choice["finish_reason"] == "stop");
      CHECK(Json::parse(choice["text"].get<std::string>()).size() == 3);
    }
    const Json counts = counts_of(guessed);
    if (how.back() != "ngram") continue;
    CHECK(counts["guesses"]["ngram"]["right"].get<int>() > 20);
    CHECK(counts["steps"].get<int>() < plain["steps"].get<int>());
  }
}

TEST_CASE("a batch with a head goes on after a kill") {
  const TempFolder temp;
  const std::string mtp = temp.write("mtp.gguf", RecurrentGguf().file(true)).string();
  const std::string eagle = (temp.path() / "head").string();
  Eagle3Folder().write(eagle);
  for (const auto& [model, how] : {std::pair{demo_model(), Arguments{"-md", eagle}},
                                   std::pair{mtp, Arguments{"--spec", "mtp"}}}) {
    BatchFiles plain(stories()), guessed(stories());
    plain.model = guessed.model = model;
    Arguments same{"--ignore-eos", "--max-seqs", "3", "--device", "cpu"};
    REQUIRE(plain.run(same).code == 0);
    same.insert(same.end(), how.begin(), how.end());
    guessed.run_until([&] { return guessed.lines_written() > 2; }, SIGINT, same);
    same.push_back("--resume");
    const Outcome outcome = guessed.run(same);
    CAPTURE(how, outcome.err);
    CHECK(outcome.code == 0);
    CHECK(guessed.text() == plain.text());
  }
}

TEST_CASE("a batch with a draft model goes on after a kill") {
  BatchFiles plain(stories()), guessed(stories());
  plain.model = guessed.model = demo_model();
  const Arguments same{"--ignore-eos", "--max-seqs", "3", "--device", "cpu"};
  REQUIRE(plain.run(same).code == 0);
  Arguments with = same;
  with.insert(with.end(), {"-md", demo_model()});
  guessed.run_until([&] { return guessed.lines_written() > 2; }, SIGINT, with);
  with.push_back("--resume");
  const Outcome outcome = guessed.run(with);
  CAPTURE(outcome.err);
  CHECK(outcome.code == 0);
  CHECK(guessed.text() == plain.text());
  with.resize(with.size() - 3);  // the same lines without a draft model: all are done
  with.push_back("--resume");
  CHECK(guessed.run(with).code == 0);
  CHECK(guessed.text() == plain.text());
}

void check_batch_goes_on(const std::string& model, const Arguments& more, const std::string& says) {
  BatchFiles plain(stories()), guessed(stories());
  plain.model = guessed.model = model;
  REQUIRE(plain.run({"--device", "cpu"}).code == 0);
  Arguments with = more;
  with.insert(with.end(), {"--device", "cpu"});
  const Outcome outcome = guessed.run(with);
  CAPTURE(outcome.err);
  CHECK(outcome.code == 0);
  CHECK(guessed.text() == plain.text());
  CHECK(outcome.err.starts_with("skald: going on without the "));
  CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
  CHECK(has(outcome.err, says));
}

TEST_CASE("a batch guesses from a file of texts, and its results stay the same") {
  BatchFiles plain(stories()), guessed(stories());
  plain.model = guessed.model = demo_model();
  const Arguments same{"--ignore-eos", "--max-seqs", "3", "--device", "cpu"};
  REQUIRE(plain.run(same).code == 0);
  std::string texts;  // old answers
  for (const Json& line : plain.results()) {
    if (!line["response"].is_object()) continue;
    texts += line["response"]["body"]["choices"][0]["text"].get<std::string>() + "\n";
  }
  Arguments with = same;
  with.insert(with.end(), {"--spec-text", guessed.folder.write("old.txt", texts).string()});
  const Outcome outcome = guessed.run(reported(guessed, with));
  CAPTURE(outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK(guessed.text() == plain.text());
  CHECK(counts_of(guessed).at("guesses")["ngram"]["right"].get<int>() > 0);
}

TEST_CASE("a batch goes on without a draft model that cannot guess, and a line says why") {
  const TempFolder temp;
  const std::string recurrent = temp.write("recurrent.gguf", RecurrentGguf().file()).string();
  check_batch_goes_on(demo_model(), {"-md", recurrent}, "recurrent.gguf has recurrent layers");
  check_batch_goes_on(demo_model(), {"-md", demo_model(), "--device-draft", "cuda"}, "cuda");
  check_batch_goes_on(demo_model(), {"-md", demo_model(), "--vram", "14M"},
                      "for which there is no room beside the model");
  const std::string eagle = (temp.path() / "head").string();
  Eagle3Folder().write(eagle);
  check_batch_goes_on(demo_model(), {"-md", eagle, "--vram", "16M"}, "no room");
}

TEST_CASE("where recurrent states for guesses have no room, a batch says so and goes on") {
  const TempFolder temp;
  const std::string model = temp.write("recurrent.gguf", RecurrentGguf().file()).string();
  BatchFiles plain(stories()), guessed(stories());
  plain.model = guessed.model = model;
  const Arguments same{"--device", "cpu", "--ignore-eos", "--max-seqs", "16", "--vram", "4750K"};
  REQUIRE(plain.run(same).code == 0);
  Arguments with = same;
  with.insert(with.end(), {"--spec", "ngram"});
  const Outcome outcome = guessed.run(with);
  CAPTURE(outcome.err);
  CHECK(outcome.code == 0);
  CHECK(has(outcome.err, "nothing is guessed: there is no room for what guesses need"));
  CHECK(guessed.text() == plain.text());
}

TEST_CASE("a batch names what is wrong with the flags of a draft model") {
  const std::string model = small_gguf();
  const auto refused = [&](Arguments more, int code, const std::string& says) {
    BatchFiles files(stories());
    check_refused(files.run(more), code, says);
    CHECK(!std::filesystem::exists(files.out));
  };
  refused({"--spec", "draft"}, 2, "--spec draft needs a draft model");
  refused({"--device-draft", "cpu"}, 2, "needs a draft model");
  refused({"--spec-text", "no/such/file"}, 2, "no/such/file");
  refused({"--spec-text", small_gguf()}, 2, "is NUL");
  refused({"-md", "no/such/model"}, 3, "no/such/model");
  refused({"--spec", "mtp"}, 2, "has no layer that predicts");
}

}  // namespace
}  // namespace skald::test
