// Hidden rows on the GPU: the same rows as on the CPU, after the last norm, in prompts, in decode
// steps and in steps of several sequences.
#include <algorithm>

#include "cuda/cuda.h"
#include "engine/cpu/executor.h"
#include "engine/schedule/scheduler.h"
#include "models/open.h"
#include "tests/catch.h"
#include "tests/cuda/kernels/relative_error.h"
#include "tests/cuda/kernels/switches.h"
#include "tests/engine/random_llama.h"
#include "tests/golden.h"

namespace skald::test {
namespace {

std::vector<float> hidden_rows(Executor& executor, int64_t wanted) {
  std::vector<float> rows;
  for (int64_t row = 0; row < wanted; ++row) {
    const auto values = executor.hidden(row);
    rows.insert(rows.end(), values.begin(), values.end());
  }
  return rows;
}

// Hidden rows of a prompt with every row wanted, of two sequences in one step, and of a decode
// step.
std::vector<std::vector<float>> hidden_of_steps(Executor& executor, int64_t vocab) {
  std::vector<std::vector<float>> all;
  Sequence first = executor.new_sequence(), second = executor.new_sequence();
  const auto a = random_tokens(70, 1, vocab), b = random_tokens(9, 2, vocab);
  const auto one = random_tokens(1, 3, vocab), other = random_tokens(1, 4, vocab);
  const auto run = [&](std::initializer_list<SeqRows> step) {
    const int64_t wanted = executor.run({step.begin(), step.size()});
    all.push_back(hidden_rows(executor, wanted));
    // Logits between two requests change no hidden row.
    executor.logits(wanted - 1);
    CHECK(hidden_rows(executor, wanted) == all.back());
  };
  run({{&first, a, Want::EveryRow}});
  run({{&first, one, Want::LastRow}, {&second, b, Want::EveryRow}});
  run({{&first, other, Want::LastRow}, {&second, one, Want::LastRow}});
  return all;
}

void compare(const Model& model, double bound) {
  RunOptions options;
  options.sequences = 2;
  options.exact = true;
  const auto cpu = cpu::make_executor(model, options, cpu::KernelSet::Reference);
  options.exact = false;
  const auto gpu = cuda::make_executor(model, options, 0, switches());
  const auto expected = hidden_of_steps(*cpu, model.config.vocab);
  const auto got = hidden_of_steps(*gpu, model.config.vocab);
  const auto dim = static_cast<size_t>(model.config.dim);
  CHECK(got[0].size() == 70 * dim);
  CHECK(got[1].size() == 10 * dim);
  CHECK(got[2].size() == 2 * dim);
  for (size_t step = 0; step < got.size(); ++step) {
    CAPTURE(step);
    REQUIRE(got[step].size() == expected[step].size());
    CHECK(relative_error(got[step], expected[step]) <= bound);
  }
}

// The vectors of prompts, pooled in each way, beside texts that grow in the same steps.
std::vector<std::vector<float>> vectors_of(Executor& executor, int64_t vocab) {
  std::vector<Generation> all(12);
  for (size_t i = 0; i < all.size(); ++i) {
    Generation& generation = all[i];
    generation.prompt = random_tokens(5 + 11 * static_cast<int>(i), i + 1, vocab);
    generation.streams = {i};
    generation.params.temperature = 0;
    const Pooling kinds[] = {Pooling::None, Pooling::Mean, Pooling::Last, Pooling::First};
    generation.pooling = kinds[i % 4];
    generation.max_tokens = generation.pooling == Pooling::None ? 20 : 0;
  }
  Scheduler scheduler(executor, {.sequences = 6});
  for (Generation& generation : all) scheduler.add(generation);
  std::vector<std::vector<float>> vectors(all.size());
  size_t tokens = 0;
  while (!scheduler.idle()) {
    for (const GenerationEvent& event : scheduler.step()) {
      tokens += event.kind == GenerationEvent::Kind::Token;
      if (event.kind != GenerationEvent::Kind::Vector) continue;
      vectors[static_cast<size_t>(event.generation - all.data())] = event.vector;
    }
  }
  CHECK(tokens == 3 * 20);
  return vectors;
}

}  // namespace

TEST_CASE("a scheduler's vectors on the GPU are the CPU's") {
  const Model model = random_llama({});
  RunOptions options;
  options.context = 192;
  options.sequences = 6;
  options.rows = 48;
  options.exact = true;
  const auto cpu = cpu::make_executor(model, options, cpu::KernelSet::Reference);
  options.exact = false;
  const auto gpu = cuda::make_executor(model, options, 0, switches());
  const auto expected = vectors_of(*cpu, model.config.vocab);
  const auto got = vectors_of(*gpu, model.config.vocab);
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    REQUIRE(got[i].size() == expected[i].size());
    CHECK(got[i].empty() == (i % 4 == 0));
    if (!got[i].empty()) CHECK(relative_error(got[i], expected[i]) <= 8 * 0x1p-20);
  }
}

TEST_CASE("hidden rows on the GPU are the CPU's") {
  RandomLlama shape;
  shape.type = GENERATE(DType::F32, DType::F16, DType::BF16);
  const double unit = shape.type == DType::F32   ? 0x1p-20
                      : shape.type == DType::F16 ? 0x1p-11
                                                 : 0x1p-8;
  compare(random_llama(shape), 8 * unit);
}

TEST_CASE("hidden rows on the GPU are the CPU's where the last norm is a Layer norm") {
  const std::filesystem::path folder = find_golden("cohere2");
  if (folder.empty()) return;
  compare(open_model(folder).model, 8 * 0x1p-8);
}

}  // namespace skald::test
