// RunOptions::reproducible on the GPU: a sequence has the same bits alone and among others, in any
// order, however many run at a time, and where it was computed twice, or swapped, because memory
// ran out.
#include <algorithm>
#include <cstdio>
#include <numeric>

#include "cuda/cuda.h"
#include "engine/schedule/scheduler.h"
#include "tests/catch.h"
#include "tests/cuda/kernels/switches.h"
#include "tests/engine/random_llama.h"

namespace skald::test {
namespace {

// The tokens of a sequence and their log-probabilities, those of its prompt first.
struct Result {
  std::vector<int32_t> tokens;
  std::vector<double> logprobs;
  bool operator==(const Result&) const = default;
};

constexpr int64_t kNewTokens = 30;

Generation make_generation(const std::vector<int32_t>& prompt, size_t text) {
  Generation generation;
  generation.prompt = prompt;
  generation.max_tokens = kNewTokens;
  generation.params.temperature = text % 2 ? 1.0f : 0.0f;
  generation.params.seed = 5;
  generation.score_prompt = text % 3 != 0;
  generation.streams = {100 + text};
  generation.cancelled = std::make_unique<std::atomic<bool>[]>(1);
  return generation;
}

struct Setting {
  int sequences;
  int64_t rows, cache_tokens = 0;
  bool backwards = false;
  bool swaps = false;  // preempted sequences go to the host's memory
};

std::vector<Result> results_of(const Model& model, const std::vector<std::vector<int32_t>>& prompts,
                               const Setting& setting, int64_t& preemptions) {
  RunOptions options;
  options.context = 320;
  options.sequences = setting.sequences;
  options.rows = setting.rows;
  options.cache_tokens = setting.cache_tokens;
  options.reproducible = true;
  const auto executor = cuda::make_executor(model, options, 0, switches());
  // The clock stands still, so that no copy takes longer than computing.
  Scheduler scheduler(*executor,
                      {.sequences = setting.sequences, .swap = {setting.swaps ? 1 << 30 : 0}},
                      [] { return 0.0; });
  std::vector<size_t> order(prompts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (setting.backwards) std::reverse(order.begin(), order.end());
  std::vector<Generation> all;
  for (size_t i = 0; i < prompts.size(); ++i) all.push_back(make_generation(prompts[i], i));
  for (const size_t i : order) scheduler.add(all[i]);
  std::vector<Result> results(prompts.size());
  while (!scheduler.idle()) {
    for (const GenerationEvent& event : scheduler.step()) {
      if (event.kind == GenerationEvent::Kind::End) continue;
      Result& result = results[static_cast<size_t>(event.generation - all.data())];
      result.tokens.push_back(event.picked.token);
      result.logprobs.push_back(event.picked.logprob);
    }
  }
  preemptions += scheduler.counts().preemptions;
  CHECK((scheduler.counts().swapped > 0) == setting.swaps);
  return results;
}

void check_settings(const RandomLlama& shape) {
  const Model model = random_llama(shape);
  std::vector<std::vector<int32_t>> prompts;
  for (const int64_t length : {1, 2, 5, 17, 63, 64, 65, 100, 129, 200, 33, 48, 49, 150}) {
    prompts.push_back(random_tokens(length, prompts.size(), shape.vocab));
  }
  // Two prompts that begin alike share pages.
  prompts.push_back(prompts[9]);
  prompts.back().resize(180);
  std::vector<Result> alone;
  int64_t preemptions = 0;
  for (size_t i = 0; i < prompts.size(); ++i) {
    // The sequence alone, at the place that gives it its settings.
    std::vector<std::vector<int32_t>> one(i + 1, {3});
    one.back() = prompts[i];
    alone.push_back(results_of(model, one, {1, 512}, preemptions).back());
    REQUIRE(alone.back().tokens.size() >= static_cast<size_t>(kNewTokens));
  }
  for (const Setting& setting :
       {Setting{64, 512}, Setting{7, 512}, Setting{64, 512, 0, true}, Setting{5, 40},
        Setting{3, 7, 0, true}, Setting{12, 200, 384}, Setting{12, 200, 450}, Setting{9, 64, 520},
        Setting{12, 200, 384, false, true}, Setting{9, 64, 520, true, true}}) {
    CAPTURE(setting.sequences, setting.rows, setting.cache_tokens, setting.backwards);
    const std::vector<Result> together = results_of(model, prompts, setting, preemptions);
    for (size_t i = 0; i < prompts.size(); ++i) {
      CAPTURE(i);
      REQUIRE(together[i].tokens == alone[i].tokens);
      REQUIRE(together[i].logprobs == alone[i].logprobs);
    }
  }
  CHECK(preemptions > 0);  // the small cache ran out
}

}  // namespace

TEST_CASE("reproducible sequences do not depend on their neighbours", "[slow]") {
  RandomLlama shape;
  shape.type = GENERATE(DType::BF16, DType::F16, DType::F32, DType::Q4_K, DType::Q8_0);
  shape.vocab = 1000;
  shape.dim = 512;
  shape.ffn_dim = 1536;
  check_settings(shape);
}

TEST_CASE("reproducible sequences of models with experts do not depend on their neighbours",
          "[slow]") {
  RandomLlama shape;
  shape.type = GENERATE(DType::BF16, DType::Q4_K);
  shape.experts = {8, 2, 256, true, {}};
  check_settings(shape);
}

TEST_CASE("reproducible sequences of other shapes do not depend on their neighbours", "[slow]") {
  RandomLlama shape;
  shape.type = DType::BF16;
  SECTION("heads without a kernel of their own, and a window") {
    shape.head_dim = 96;
    shape.window = 70;
  }
  SECTION("a window with heads that have one") {
    shape.head_dim = 128;
    shape.window = 40;
  }
  SECTION("sizes that cuBLAS does not take") {
    shape.vocab = 301;
    shape.dim = 260;
    shape.ffn_dim = 500;
  }
  check_settings(shape);
}

}  // namespace skald::test
