// Running out of GPU memory at any moment is an Error, leaks nothing, and the next attempt works.
// The plan contains every byte that is allocated. Tests that count free bytes are tagged [alone]:
// no other program may use the GPU meanwhile.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "cuda/cuda.h"
#include "cuda/gpu/faults.h"
#include "engine/schedule/session.h"
#include "models/convert/quantized.h"
#include "models/open.h"
#include "tests/catch.h"
#include "tests/engine/random_llama.h"
#include "tests/error_text.h"
#include "tests/golden.h"

namespace skald::test {
namespace {

OpenedModel small_model() { return open_model(find_golden("llama3-gqa-tied-ropescale")); }
OpenedModel small_quantized_model() { return open_model(find_gguf("kq256.q4_k_m.gguf")); }

// The demo model, with weights that the GPU quantizes while it loads them.
OpenedModel small_model_to_quantize() {
  OpenedModel opened = open_model(source_dir() / "models" / "demo");
  opened.model = quantized_model(opened.model, find_quant_mix("q4_k_m"));
  return opened;
}

Model any_small_model() {
  switch (GENERATE(0, 1, 2, 3)) {
    case 0:
      return small_model().model;
    case 1:
      return small_quantized_model().model;
    case 2:
      return small_model_to_quantize().model;
    default:
      return random_llama({.type = DType::BF16, .experts = {8, 2, 512, true, {}}});
  }
}

int64_t free_bytes() { return cuda::list_devices().devices.at(0).free_bytes; }

// A prompt and enough tokens that a decode step is run, captured, and launched as a graph.
std::vector<int32_t> short_text(Executor& executor) {
  Session session(executor, SamplingParams{.temperature = 0});
  session.feed(std::vector<int32_t>{1, 5, 9, 12, 3, 7, 20, 33, 4});
  std::vector<int32_t> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(session.next().token);
  return ids;
}

RunOptions small_options() {
  RunOptions options;
  options.context = 64;
  return options;
}

}  // namespace

TEST_CASE("running out of memory at any moment is an error or is made up for, and leaks nothing",
          "[alone]") {
  const Model model = any_small_model();
  RunOptions options = small_options();
  options.gpu_layers = GENERATE(kAllLayers, 0);
  const std::vector<int32_t> expected = short_text(*cuda::make_executor(model, options, 0));
  // Once more, so that memory which CUDA keeps after the first time is counted in `before`.
  CHECK(short_text(*cuda::make_executor(model, options, 0)) == expected);
  const int64_t before = free_bytes();
  int n = 1;
  for (; n < 1000; ++n) {
    CAPTURE(n);
    bool happened = false;
    {
      cuda::FailingAcquisition failing(n);
      try {
        const auto executor = cuda::make_executor(model, options, 0);
        const std::vector<int32_t> ids = short_text(*executor);
        CHECK(ids == expected);
      } catch (const Error& error) {
        CAPTURE(error.what());
        REQUIRE(error.code() == Exit::Memory);
        REQUIRE(has(error.what(), "GPU"));
        REQUIRE(std::string(error.what()).find('\n') == std::string::npos);
        REQUIRE(failing.happened());
      }
      happened = failing.happened();
    }
    REQUIRE(free_bytes() == before);
    if (!happened) break;
  }
  std::printf("%d acquisitions failed one after the other\n", n - 1);
  CHECK(n > 20);
  CHECK(short_text(*cuda::make_executor(model, options, 0)) == expected);
  CHECK(free_bytes() == before);
}

TEST_CASE("a step that fails leaves its sequences as they were, and can be repeated") {
  const OpenedModel opened = small_model();
  RunOptions options = small_options();
  options.sequences = 2;
  const auto executor = cuda::make_executor(opened.model, options, 0);
  const std::vector<int32_t> prompt{1, 5, 9};
  Sequence sequence = executor->new_sequence();
  const SeqRows first{&sequence, prompt, Want::LastRow};
  executor->run({&first, 1});
  const std::vector<int32_t> next{7};
  const SeqRows step{&sequence, next, Want::LastRow};
  executor->run({&step, 1});  // the first step of its size runs without a graph
  const auto logits = executor->logits(0);
  const std::vector<float> at_3(logits.begin(), logits.end());
  sequence.truncate(3);
  Sequence other = executor->new_sequence();
  executor->run({{{&other, prompt, Want::LastRow}}});
  const SeqRows two[] = {step, {&other, next, Want::LastRow}};
  executor->run(two);
  for (Sequence* s : {&sequence, &other}) s->truncate(3);
  const auto expect_at_3 = [&] {
    const auto again = executor->logits(0);
    CHECK(std::vector<float>(again.begin(), again.end()) == at_3);
  };
  {
    cuda::FailingAcquisition failing(1);  // one row's graph, for which memory was set aside
    executor->run({&step, 1});
    CHECK(failing.happened());
  }
  CHECK(sequence.length() == 4);
  expect_at_3();
  sequence.truncate(3);
  {
    // The graph of two rows, for which no memory was set aside.
    cuda::FailingAcquisition failing(1);
    CHECK_THROWS_AS(executor->run(two), Error);
    CHECK(failing.happened());
  }
  for (const Sequence* s : {&sequence, &other}) CHECK(s->length() == 3);
  executor->run({&step, 1});
  CHECK(sequence.length() == 4);
  expect_at_3();
}

TEST_CASE("an executor takes what its plan says", "[alone]") {
  const Model model = any_small_model();
  short_text(*cuda::make_executor(model, small_options(), 0));
  for (const int64_t context : {int64_t{64}, int64_t{2048}}) {
    for (const int sequences : {1, 16}) {
      CAPTURE(context, sequences);
      RunOptions options;
      options.context = context;
      options.sequences = sequences;
      const int64_t before = free_bytes();
      const auto executor = cuda::make_executor(model, options, 0);
      const int64_t taken = before - free_bytes();
      int64_t planned = 0;
      for (const MemoryPart& part : executor->plan().parts) {
        if (part.name != "CUDA itself") planned += part.bytes;
      }
      std::printf("planned %lld KiB, taken %lld KiB\n", static_cast<long long>(planned >> 10),
                  static_cast<long long>(taken >> 10));
      // CUDA allocates in units of 2 MiB.
      CHECK(taken <= planned + (int64_t{64} << 20));
      CHECK(planned <= taken + (int64_t{8} << 20));
    }
  }
}

TEST_CASE("no more memory is taken while weights are quantized and loaded than is planned",
          "[alone]") {
  const OpenedModel opened = small_model_to_quantize();
  short_text(*cuda::make_executor(opened.model, small_options(), 0));
  const int64_t before = free_bytes();
  int64_t least = before;
  RunOptions options = small_options();
  options.loading = [&](int64_t, int64_t) { least = std::min(least, free_bytes()); };
  const auto executor = cuda::make_executor(opened.model, options, 0);
  const int64_t most = before - least;
  std::printf("planned %lld KiB, at most %lld KiB taken while loading\n",
              static_cast<long long>(executor->plan().needed() >> 10),
              static_cast<long long>(most >> 10));
  CHECK(most > int64_t{64} << 20);  // the buffers of floats were seen
  CHECK(most <= executor->plan().needed());
}

TEST_CASE("a context that does not fit the GPU is refused before anything is allocated",
          "[alone]") {
  const OpenedModel opened = small_model();
  const int64_t before = free_bytes();
  RunOptions options;
  options.context = int64_t{1} << 30;
  std::string message;
  try {
    cuda::make_executor(opened.model, options, 0);
  } catch (const Error& error) {
    message = error.what();
    CHECK(error.code() == Exit::Memory);
  }
  CHECK(has(message, "the largest context that fits"));
  CHECK(free_bytes() == before);

  RunOptions capped;
  capped.context = opened.model.config.context;
  capped.memory.bytes = int64_t{600} << 20;  // less than weights, cache and CUDA itself take
  capped.sequences = 4096;
  CHECK_THROWS_AS(cuda::make_executor(opened.model, capped, 0), Error);
  capped.context = 0;
  capped.sequences = 1;
  capped.memory.bytes = int64_t{2} << 30;
  CHECK(cuda::make_executor(opened.model, capped, 0)->context() > 0);
}

TEST_CASE("a limit on the architecture changes the kernels and hardly the logits") {
  const bool quantized = GENERATE(false, true);
  const OpenedModel opened =
      quantized ? small_quantized_model() : open_model(find_golden("llama-mha"));
  std::optional<std::vector<float>> expected;
  for (const int limit : {0, 90, 80, 75}) {
    CAPTURE(limit);
    RunOptions options = small_options();
    options.arch_limit = limit;
    const auto executor = cuda::make_executor(opened.model, options, 0);
    Sequence sequence = executor->new_sequence();
    const std::vector<int32_t> prompt{1, 5, 9, 12, 3, 7, 20, 33, 4};
    std::vector<float> logits;
    // The prompt at once, then tokens one by one: the step is run, captured, and launched as a
    // graph.
    for (size_t at = 0, count = 6; at < prompt.size(); at += count, count = 1) {
      const SeqRows rows{&sequence, std::span(prompt).subspan(at, count), Want::LastRow};
      executor->run({&rows, 1});
      const auto row = executor->logits(0);
      logits.insert(logits.end(), row.begin(), row.end());
    }
    if (!expected) expected = logits;
    float largest = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      largest = std::max(largest, std::fabs(logits[i] - (*expected)[i]));
    }
    std::printf("--arch-limit %d: largest difference of a logit %.2e\n", limit, largest);
    CHECK(largest <= (quantized ? 0.2f : 0.05f));
    CHECK((limit == 0 || limit == 90) == (largest == 0));
  }
}

TEST_CASE("two executors of one model take turns and end in any order") {
  const OpenedModel opened = small_model();
  const auto expected = short_text(*cuda::make_executor(opened.model, small_options(), 0));
  auto first = cuda::make_executor(opened.model, small_options(), 0);
  auto second = cuda::make_executor(opened.model, small_options(), 0);
  CHECK(short_text(*first) == expected);
  CHECK(short_text(*second) == expected);
  first.reset();
  CHECK(short_text(*second) == expected);
}

TEST_CASE("a prompt of more rows than one grid dimension holds is computed in one step") {
  const OpenedModel opened = small_model();
  RunOptions options;
  options.rows = 65536;
  options.context = 65600;
  const auto executor = cuda::make_executor(opened.model, options, 0);
  std::vector<int32_t> tokens(65536);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(3 + i % 200);
  const auto last_logits = [&](size_t chunk) {
    Sequence sequence = executor->new_sequence();
    for (size_t at = 0; at < tokens.size(); at += chunk) {
      const SeqRows rows{&sequence, std::span(tokens).subspan(at, chunk), Want::LastRow};
      executor->run({&rows, 1});
    }
    const auto logits = executor->logits(0);
    return std::vector<float>(logits.begin(), logits.end());
  };
  const std::vector<float> whole = last_logits(65536), parts = last_logits(8192);
  float largest = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    largest = std::max(largest, std::fabs(whole[i] - parts[i]));
  }
  std::printf("65536 rows at once and in parts: largest difference of a logit %.2e\n", largest);
  CHECK(largest <= 0.05f);
}

}  // namespace skald::test
