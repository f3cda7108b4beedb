// Models whose layers have a state, and experts without gates: the GPU has the CPU's logits and
// texts, however a text is cut into steps.
#include <atomic>
#include <memory>

#include "engine/cpu/executor.h"
#include "engine/schedule/scheduler.h"
#include "models/open.h"
#include "tests/cuda/kernels/switches.h"
#include "tests/cuda/run/golden_gpu.h"
#include "tests/engine/random_llama.h"
#include "tests/recurrent_model.h"
#include "tests/space_model.h"
#include "tests/temp_folder.h"

namespace skald::test {

TEST_CASE("a model with a state space has the CPU's logits on the GPU") {
  const bool bf16 = GENERATE(false, true);
  const int limit = GENERATE(0, 80, 75);
  for (const SpaceSizes& sizes : {SpaceSizes(), kFastSpace, SpaceSizes{2, 64, 1, 128}}) {
    CAPTURE(bf16, limit, sizes.state_dim);
    const TempFolder temp;
    // In 16 bits without experts: activations may change a router's choice.
    const Model model =
        open_model(temp.write("m.gguf", SpaceGguf(sizes, bf16, !bf16).file())).model;
    const std::vector<int32_t> ids = random_tokens(150, 3, model.config.vocab);
    const auto cpu = cpu::make_executor(model, {.exact = true});
    const auto expected = run_text(*cpu, ids, 64);
    RunOptions options;
    options.arch_limit = limit;
    const auto gpu = cuda::make_executor(model, options, 0, switches());
    for (const size_t chunk : {size_t{512}, size_t{64}, size_t{7}, size_t{1}}) {
      CAPTURE(chunk);
      const auto logits = run_text(*gpu, ids, chunk);
      REQUIRE(logits.size() == expected.size());
      double largest = 0, kl = 0;
      for (const auto& [row, values] : expected) {
        const std::vector<float>& own = logits.at(row);
        for (size_t i = 0; i < own.size(); ++i) {
          const double difference = std::fabs(double{own[i]} - values[i]);
          if (!(difference <= largest)) largest = difference;  // NaN too
        }
        kl += divergence(softmax(values.data(), values.size()), softmax(own.data(), own.size()));
      }
      kl /= static_cast<double>(expected.size());
      std::printf("state space of %u x %u, %s: largest difference %.1e, mean KL %.1e\n",
                  sizes.head_dim, sizes.state_dim, bf16 ? "bf16" : "f32", largest, kl);
      CHECK((bf16 ? kl < 1e-3 : largest < 1e-3));
    }
  }
}

// Steps whose tokens the GPU picks have no list of the host.
TEST_CASE("a model with states of any sizes writes the CPU's text on the GPU") {
  const TempFolder temp;
  const auto check = [&](const std::string& gguf) {
    const Model model = open_model(temp.write("m.gguf", gguf)).model;
    const std::vector<int32_t> prompt = random_tokens(9, 6, model.config.vocab);
    const auto cpu = cpu::make_executor(model, {.exact = true});
    const auto gpu = cuda::make_executor(model, {}, 0, switches());
    CHECK(continue_text(*gpu, prompt, 30) == continue_text(*cpu, prompt, 30));
  };
  check(RecurrentGguf().file());
  for (const SpaceSizes& sizes : {SpaceSizes(), kFastSpace}) check(SpaceGguf(sizes).file());
}

TEST_CASE("several texts with states of any sizes are written together as by the CPU") {
  const TempFolder temp;
  constexpr size_t kTexts = 3, kTokens = 20;
  for (const std::string& gguf :
       {RecurrentGguf().file(), SpaceGguf().file(), SpaceGguf(kFastSpace).file()}) {
    const Model model = open_model(temp.write("m.gguf", gguf)).model;
    const auto cpu = cpu::make_executor(model, {.exact = true});
    RunOptions options;
    options.sequences = kTexts;
    const auto gpu = cuda::make_executor(model, options, 0, switches());
    Scheduler scheduler(*gpu, {.sequences = kTexts});
    std::vector<Generation> texts(kTexts);
    std::vector<std::vector<int32_t>> tokens(kTexts);
    for (size_t i = 0; i < kTexts; ++i) {
      texts[i].prompt = random_tokens(static_cast<int64_t>(4 + 5 * i), i, model.config.vocab);
      texts[i].max_tokens = kTokens;
      texts[i].params.temperature = 0;
      texts[i].streams = {i};
      texts[i].cancelled = std::make_unique<std::atomic<bool>[]>(1);
      scheduler.add(texts[i]);
    }
    while (!scheduler.idle()) {
      for (const GenerationEvent& event : scheduler.step()) {
        if (event.kind == GenerationEvent::Kind::End) continue;
        tokens[static_cast<size_t>(event.generation - texts.data())].push_back(event.picked.token);
      }
    }
    for (size_t i = 0; i < kTexts; ++i) {
      CAPTURE(i);
      CHECK(tokens[i] == continue_text(*cpu, texts[i].prompt, kTokens));
    }
  }
}

TEST_CASE("reproducible runs give a state space's bits for chunks of any size") {
  const TempFolder temp;
  const Model model = open_model(temp.write("m.gguf", SpaceGguf(kFastSpace, true).file())).model;
  const std::vector<int32_t> ids = random_tokens(100, 4, model.config.vocab);
  RunOptions options;
  options.reproducible = true;
  const auto gpu = cuda::make_executor(model, options, 0, switches());
  const auto whole = run_text(*gpu, ids, 512);
  CHECK(run_text(*gpu, ids, 33) == whole);
  CHECK(run_text(*gpu, ids, 1) == whole);
}

}  // namespace skald::test
