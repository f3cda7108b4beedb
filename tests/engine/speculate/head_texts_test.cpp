// A head that guesses for several texts together guesses what it does for each of them alone.
#include "engine/speculate/head_texts.h"

#include <algorithm>

#include "engine/base/rng.h"
#include "engine/cpu/executor.h"
#include "models/heads/heads.h"
#include "tests/catch.h"
#include "tests/eagle3_folder.h"
#include "tests/paths.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

using Tokens = std::vector<int32_t>;

struct OpenHead {
  TempFolder temp;
  OpenedHead head;

  OpenHead() {
    Eagle3Folder().write(temp.path() / "head");
    head = open_eagle3(temp.path() / "head", open_model(source_dir() / "models" / "demo"));
  }

  HeadTexts texts(int64_t rows, int sequences, int64_t cache_tokens = 0) const {
    RunOptions options;
    options.threads = 1;
    options.rows = rows;
    options.sequences = sequences;
    options.context = 64;
    options.cache_tokens = cache_tokens;
    return HeadTexts(cpu::make_executor(head.opened.model, options), head.kind);
  }
};

// A text that grows, and made-up features of its tokens.
struct Grown {
  uint64_t seed;
  Tokens tokens = {};
  int64_t shown = 0;
  std::vector<float> features = {};

  TextsProposer::ComputedRows grow(int64_t count, TextsProposer::Text& text) {
    const auto random = [&](int64_t at) { return uniform(seed, 0, at); };
    for (int64_t i = 0; i < count; ++i) {
      tokens.push_back(static_cast<int32_t>(random(std::ssize(tokens)) * Eagle3Folder::kVocab));
    }
    const int64_t first = shown, cols = 3 * Eagle3Folder::kDim;
    shown = std::ssize(tokens) - 1;  // the last token is not computed yet
    features.clear();
    for (int64_t i = first * cols; i < shown * cols; ++i) {
      features.push_back(static_cast<float>(2 * random(1000 + i) - 1));
    }
    return {&text, tokens, first, features};
  }
};

Tokens guess_alone(HeadTexts& head, Grown& grown, TextsProposer::Text& text, int64_t more,
                   int count, const SamplingParams& params) {
  const TextsProposer::ComputedRows shown = grown.grow(more, text);
  head.computed({&shown, 1});
  TextsProposer::Request request{&text, {grown.tokens, &params}, count};
  head.catch_up({&request, 1});
  CHECK(request.ready);
  head.guess({&request, 1});
  return request.guesses;
}

TEST_CASE("a head guesses for several texts together what it does for each alone") {
  const OpenHead open;
  const SamplingParams params;
  for (const int64_t rows : {4, 16, 64}) {
    CAPTURE(rows);
    HeadTexts alone = open.texts(64, 3), together = open.texts(rows, 3);
    std::vector<Grown> one = {{1}, {2}, {3}}, all = one;
    std::vector<std::unique_ptr<TextsProposer::Text>> single, texts;
    for (int i = 0; i < 3; ++i) {
      single.push_back(alone.new_text());
      texts.push_back(together.new_text());
    }
    // Prompts of which some rows are computed at once, and then texts that grow.
    for (const std::array<int64_t, 3> more :
         {std::array<int64_t, 3>{36, 5, 20}, {1, 2, 3}, {4, 4, 1}}) {
      std::vector<Tokens> expected;
      std::vector<TextsProposer::ComputedRows> shown;
      std::vector<TextsProposer::Request> requests;
      for (size_t i = 0; i < 3; ++i) {
        const int count = static_cast<int>(5 - i);
        expected.push_back(guess_alone(alone, one[i], *single[i], more[i], count, params));
        CHECK(std::ssize(expected[i]) == count);
        shown.push_back(all[i].grow(more[i], *texts[i]));
        requests.push_back({texts[i].get(), {all[i].tokens, &params}, count});
      }
      together.computed(shown);
      together.catch_up(requests);
      together.guess(requests);
      for (size_t i = 0; i < 3; ++i) CHECK(requests[i].guesses == expected[i]);
      CHECK(together.last_steps().size() == 5);
      CHECK(together.last_steps().front().texts == 3);
      CHECK(together.last_steps().back().texts == 1);
    }
  }
}

TEST_CASE("a text for which a head's cache has no room has no guesses, and others have") {
  const OpenHead open;
  const SamplingParams params;
  HeadTexts head = open.texts(16, 3, 64);  // one text at full length
  std::vector<Grown> all = {{1}, {2}, {3}};
  std::vector<std::unique_ptr<TextsProposer::Text>> texts;
  int ready = 0;
  for (size_t i = 0; i < 3; ++i) {
    texts.push_back(head.new_text());
    const TextsProposer::ComputedRows shown = all[i].grow(40, *texts[i]);
    head.computed({&shown, 1});
    TextsProposer::Request request{texts[i].get(), {all[i].tokens, &params}, 4};
    head.catch_up({&request, 1});
    head.guess({&request, 1});
    ready += request.guesses.size() == 4;
    if (i == 0) CHECK(request.guesses.size() == 4);
  }
  CHECK(ready < 3);
}

}  // namespace
}  // namespace skald::test
