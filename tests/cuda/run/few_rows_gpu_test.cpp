// Steps with a few rows of each sequence, all with logits, as guesses are checked in: they run by
// decode kernels, as a captured graph.
#include "models/open.h"
#include "tests/cuda/kernels/switches.h"
#include "tests/cuda/run/golden_gpu.h"
#include "tests/engine/random_llama.h"
#include "tests/recurrent_model.h"
#include "tests/space_model.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

TEST_CASE("a few rows of each of three sequences have the logits of rows one by one") {
  RandomLlama shape = {.heads = 8, .kv_heads = 2, .head_dim = 64};
  shape.type = GENERATE(DType::BF16, DType::Q4_K);
  shape.window = GENERATE(0, 40);
  const Model model = random_llama(shape);
  RunOptions options;
  options.sequences = 6;
  const auto executor = cuda::make_executor(model, options, 0, switches());
  const std::vector<int32_t> ids = random_tokens(400, 21);
  const std::vector<int64_t> lengths = {5, 70, 200};
  std::vector<Sequence> together, alone;
  for (const int64_t length : lengths) {
    for (std::vector<Sequence>* list : {&together, &alone}) {
      list->push_back(executor->new_sequence());
      const SeqRows prompt{&list->back(), std::span(ids).first(static_cast<size_t>(length)),
                           Want::Nothing};
      executor->run({&prompt, 1});
    }
  }
  // The second step of a kind is captured, later ones are launched as a graph. After each, some
  // rows are taken back, as wrong guesses are.
  size_t at = 200;
  for (int time = 0; time < 5; ++time) {
    CAPTURE(name(shape.type), shape.window, time);
    const std::vector<size_t> counts = {3, 1, 5};
    std::vector<SeqRows> step;
    LogitRows expected;
    for (size_t s = 0; s < 3; ++s) {
      const auto tokens = std::span(ids).subspan(at + 10 * s, counts[s]);
      step.push_back({&together[s], tokens, Want::EveryRow});
      for (size_t i = 0; i < counts[s]; ++i) {
        const SeqRows one{&alone[s], tokens.subspan(i, 1), Want::LastRow};
        const LogitRows row = run_rows(*executor, {&one, 1});
        expected.insert(expected.end(), row.begin(), row.end());
      }
    }
    CHECK(mean_divergence(run_rows(*executor, step), expected) < 1e-3);
    for (std::vector<Sequence>* list : {&together, &alone}) {
      (*list)[0].truncate((*list)[0].length() - 2);
      (*list)[2].truncate((*list)[2].length() - 4);
    }
    at += 30;
  }
}

// One sequence gets its tokens one by one, the other a few in a step, which becomes a graph.
void check_few_of_one(const Model& model, double bound) {
  RunOptions options;
  options.sequences = 2;
  const auto executor = cuda::make_executor(model, options, 0, switches());
  const std::vector<int32_t> ids = random_tokens(200, 23, model.config.vocab);
  Sequence together = executor->new_sequence(), alone = executor->new_sequence();
  size_t at = 0;
  for (int time = 0; time < 8; ++time) {
    CAPTURE(time);
    const size_t count = time % 2 == 0 ? 5 : 2;
    const auto tokens = std::span(ids).subspan(at, count);
    LogitRows expected;
    for (size_t i = 0; i < count; ++i) {
      const SeqRows one{&alone, tokens.subspan(i, 1), Want::LastRow};
      expected.push_back(run_rows(*executor, {&one, 1}).front());
    }
    const SeqRows rows{&together, tokens, Want::EveryRow};
    CHECK(mean_divergence(run_rows(*executor, {&rows, 1}), expected) < bound);
    at += count;
  }
}

TEST_CASE("a few rows of a recurrent sequence have the logits of rows one by one") {
  const TempFolder temp;
  check_few_of_one(open_model(temp.write("recurrent.gguf", RecurrentGguf().file())).model, 1e-9);
  for (const SpaceSizes& sizes : {SpaceSizes(), kFastSpace}) {
    CAPTURE(sizes.state_dim);
    check_few_of_one(open_model(temp.write("space.gguf", SpaceGguf(sizes).file())).model, 1e-9);
  }
  for (const char* name : {"qwen3_5", "lfm2"}) {
    CAPTURE(name);
    const std::filesystem::path golden = find_golden(name);
    if (!golden.empty()) check_few_of_one(open_model(golden).model, 1e-3);
  }
}

TEST_CASE("a step of a few rows gives the same bits with and without a graph") {
  const TempFolder temp;
  const bool recurrent = GENERATE(false, true);
  const Model model = recurrent
                          ? open_model(temp.write("recurrent.gguf", RecurrentGguf().file())).model
                          : random_llama({.type = DType::BF16, .heads = 8, .kv_heads = 2});
  const std::vector<int32_t> ids = random_tokens(300, 22, model.config.vocab);
  std::vector<LogitRows> found;
  for (const bool graphs : {true, false}) {
    cuda::Switches own = switches();
    own.graphs = own.graphs && graphs;
    const auto executor = cuda::make_executor(model, {}, 0, own);
    Sequence sequence = executor->new_sequence();
    for (size_t at = 0; at < 40; at += 4) {
      const SeqRows rows{&sequence, std::span(ids).subspan(at, 4), Want::EveryRow};
      found.push_back(run_rows(*executor, {&rows, 1}));
    }
  }
  for (size_t i = 0; i < 10; ++i) CHECK(found[i] == found[i + 10]);
}

}  // namespace
}  // namespace skald::test
