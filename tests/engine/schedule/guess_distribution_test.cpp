// Tokens of a scheduler that guesses are drawn from the model's own distribution, whatever guesses,
// and whatever the settings of the sampling.
#include <map>

#include "engine/speculate/draft_texts.h"
#include "tests/engine/sampling/sampler_reference.h"
#include "tests/engine/schedule/knowing_texts.h"
#include "tests/engine/schedule/scheduler_batch.h"
#include "tests/statistics.h"

namespace skald::test {
namespace {

constexpr int kDrawnTexts = 2000;
constexpr int32_t kFirstToken = 7;

std::vector<float> logits_after(Executor& executor, const Tokens& tokens) {
  Sequence sequence = executor.new_sequence();
  const SeqRows rows{&sequence, tokens, Want::LastRow};
  executor.run({&rows, 1});
  const auto logits = executor.logits(0);
  return {logits.begin(), logits.end()};
}

// The probabilities of the first two tokens together.
std::vector<double> probabilities_of_two(const SamplingParams& params) {
  const auto executor = limited_executor({});
  std::vector<double> both(kVocab * kVocab);
  const Tokens prompt = {kFirstToken};
  for (const auto& [first, p] :
       reference_distribution(logits_after(*executor, prompt), params, prompt)) {
    const Tokens longer = {kFirstToken, first};
    for (const auto& [second, q] :
         reference_distribution(logits_after(*executor, longer), params, longer)) {
      both[static_cast<size_t>(first * kVocab + second)] = p * q;
    }
  }
  return both;
}

Results drawn_texts(const SamplingParams& params, const GuessPlan& plan) {
  const Limits limits = {.rows = 64, .sequences = 8};
  const auto executor = limited_executor(limits);
  Batch batch({{{kFirstToken}, 4, 1, kDrawnTexts}});
  batch.all[0].params = params;
  Scheduler scheduler(*executor, {.sequences = limits.sequences, .guesses = plan},
                      [now = std::make_shared<double>(0)] { return ++*now; });
  batch.run(scheduler);
  if (plan.most > 0) CHECK(scheduler.counts().guesses.right > kDrawnTexts / 2);
  return batch.results;
}

// How often the first two tokens were each pair. The second one often follows from a guess.
std::vector<int64_t> counts_of_two(const Results& results) {
  std::vector<int64_t> counts(kVocab * kVocab);
  for (const auto& [key, result] : results) {
    ++counts[static_cast<size_t>(result.tokens[0] * kVocab + result.tokens[1])];
  }
  return counts;
}

TEST_CASE("guessed tokens have the distribution of the model, with each setting and proposer") {
  std::vector<SamplingParams> all(7);
  for (SamplingParams& params : all) params.temperature = 1, params.seed = 3;
  all[1].temperature = 0.5f;
  all[2].top_k = 5;
  all[3].top_p = 0.5f;
  all[4].min_p = 0.4f;
  all[5].repeat_penalty = 1.5f;
  all[6].logit_bias = {{3, 2.0f}, {9, -5.0f}};
  for (size_t i = 0; i < all.size(); ++i) {
    const std::vector<double> expected = probabilities_of_two(all[i]);
    const Results plain = drawn_texts(all[i], {});
    CHECK(plausible(goodness_of_fit(counts_of_two(plain), expected)));
    std::map<uint64_t, Tokens> texts;
    for (const auto& [key, result] : plain) {
      Tokens& text = texts[static_cast<uint64_t>(key.second)] = {kFirstToken};
      text.insert(text.end(), result.tokens.begin(), result.tokens.end());
    }
    KnowingTexts often_right(std::move(texts), 0.3, kVocab);
    // An equal draft model draws with the random numbers of the text.
    DraftTexts equal(limited_executor({.rows = 64, .sequences = 8}), kVocab);
    for (TextsProposer* draft :
         {static_cast<TextsProposer*>(&often_right), static_cast<TextsProposer*>(&equal)}) {
      CAPTURE(i, draft == &equal);
      const GuessPlan plan = {.most = 3, .ngram = false, .draft = draft};
      const Results guessed = drawn_texts(all[i], plan);
      CHECK(plausible(goodness_of_fit(counts_of_two(guessed), expected)));
      for (const auto& [key, result] : plain) {
        if (guessed.at(key).tokens != result.tokens) FAIL("a guess changed a text");
      }
    }
  }
}

}  // namespace
}  // namespace skald::test
