// Hidden rows on the GPU: the same rows as on the CPU, after the last norm, in prompts, in decode
// steps and in steps of several sequences.
#include <algorithm>

#include "cuda/cuda.h"
#include "engine/cpu/executor.h"
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

}  // namespace

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
