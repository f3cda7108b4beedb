// The bundled model: its perplexity on held-out text, its stories, its tokenizer.
#include <algorithm>
#include <cmath>
#include <set>

#include "app/model/open.h"
#include "engine/schedule/session.h"
#include "tests/catch.h"
#include "tests/golden.h"
#include "tests/golden_check.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

struct Demo {
  OpenedModel opened = open_model(source_dir() / "models" / "demo");
  ModelTokenizer tokens = open_tokenizer(opened);
  nlohmann::json expected = read_json(data_dir() / "demo_heldout.json");
};

std::vector<int32_t> generate_story(const Demo& demo, Executor& executor,
                                    const SamplingParams& params, size_t most) {
  Session session(executor, params);
  session.feed(demo.tokens.tokenizer->encode("Once upon a time"));
  std::vector<int32_t> ids;
  while (ids.size() < most) {
    const int32_t id = session.next().token;
    if (std::find(demo.tokens.stop_ids.begin(), demo.tokens.stop_ids.end(), id) !=
        demo.tokens.stop_ids.end()) {
      break;
    }
    ids.push_back(id);
  }
  return ids;
}

}  // namespace

TEST_CASE("the bundled model's held-out perplexity is the one on its model card") {
  const Demo demo;
  const std::string text = read_file(data_dir() / "demo_heldout.txt");
  EncodeOptions plain;
  plain.add_bos = plain.add_eos = false;
  const std::vector<int32_t> ids = demo.tokens.tokenizer->encode(text, plain);
  const auto executor = cpu::make_executor(demo.opened.model, {.exact = true});
  const size_t window = demo.expected["window"].get<size_t>();
  double sum = 0;
  int64_t scored = 0;
  for (size_t at = 0; at < ids.size(); at += window - 1) {
    std::vector<int32_t> row{demo.tokens.tokenizer->special().bos};
    const size_t end = std::min(at + window - 1, ids.size());
    row.insert(row.end(), ids.begin() + static_cast<int64_t>(at),
               ids.begin() + static_cast<int64_t>(end));
    if (at == 0) CHECK(row == demo.expected["first_window_ids"].get<std::vector<int32_t>>());
    Sequence sequence = executor->new_sequence();
    const SeqRows rows{&sequence, row, Want::EveryRow};
    executor->run({&rows, 1});
    for (size_t i = 0; i + 1 < row.size(); ++i, ++scored) {
      sum += negative_log_likelihood(executor->logits(static_cast<int64_t>(i)), row[i + 1]);
    }
  }
  CHECK(scored == demo.expected["tokens_scored"].get<int64_t>());
  CHECK(sum / static_cast<double>(scored) ==
        Approx(demo.expected["mean_nll"].get<double>()).margin(1e-5).epsilon(0));
}

TEST_CASE("the bundled model's greedy stories agree with Hugging Face's") {
  const Demo demo;
  const auto executor = cpu::make_executor(demo.opened.model, {.exact = true});
  for (const nlohmann::json& row : demo.expected["greedy"]) {
    const auto prompt = row["prompt_ids"].get<std::vector<int32_t>>();
    CHECK(demo.tokens.tokenizer->encode(row["prompt"].get<std::string>()) == prompt);
    const auto ids = row["ids"].get<std::vector<int32_t>>();
    const auto margins = row["margins"].get<std::vector<double>>();
    Session session(*executor, SamplingParams{.temperature = 0});
    session.feed(prompt);
    for (size_t i = 0; i < ids.size() && margins[i] >= 1e-3; ++i) {
      REQUIRE(session.next().token == ids[i]);
    }
  }
}

TEST_CASE("most stories of the bundled model end, and a story depends on the seed alone") {
  const Demo demo;
  const auto executor = cpu::make_executor(demo.opened.model, {});
  std::set<std::vector<int32_t>> stories;
  constexpr int kStories = 8;
  constexpr size_t kMost = 480;
  int ended = 0;
  for (uint64_t seed = 1; seed <= kStories; ++seed) {
    const std::vector<int32_t> story =
        generate_story(demo, *executor, SamplingParams{.seed = seed}, kMost);
    CHECK(story == generate_story(demo, *executor, SamplingParams{.seed = seed}, kMost));
    CHECK(story.size() >= 100);
    ended += story.size() < kMost;
    stories.insert(story);
  }
  CHECK(stories.size() == kStories);
  CHECK(ended >= kStories / 2);
}

}  // namespace skald::test
