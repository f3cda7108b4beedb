// A row of a decode step has the same bits whatever other rows the step has: every sum of a kernel
// has one order for any number of rows, and sequences this short are not split. So any difference
// is a race, or a row that reads another row's numbers. Quantized products have one kernel for one
// row and another for more rows; these results are compared within a bound.
#include <cmath>
#include <cstring>

#include "cuda/cuda.h"
#include "engine/base/error.h"
#include "engine/cpu/executor.h"
#include "tests/catch.h"
#include "tests/cuda/kernels/relative_error.h"
#include "tests/cuda/kernels/switches.h"
#include "tests/engine/random_llama.h"

namespace skald::test {
namespace {

struct Amount {
  int repetitions;
  size_t texts = 16, length = 24;
  size_t twins = 1;  // rows with the same tokens, when a sequence runs alone
};

using Logits = std::vector<std::vector<float>>;  // one row for each token

// The tokens one by one through the decode path, in `twins` equal rows. Returns the last row's
// logits.
Logits run_alone(Executor& executor, const std::vector<int32_t>& text, size_t twins) {
  Logits logits;
  std::vector<Sequence> sequences;
  for (size_t i = 0; i < twins; ++i) sequences.push_back(executor.new_sequence());
  for (size_t at = 0; at < text.size(); ++at) {
    std::vector<SeqRows> rows;
    for (Sequence& sequence : sequences) {
      rows.push_back({&sequence, std::span(text).subspan(at, 1), Want::LastRow});
    }
    const int64_t wanted = executor.run(rows);
    const auto values = executor.logits(wanted - 1);
    logits.emplace_back(values.begin(), values.end());
  }
  return logits;
}

// The largest distance of two tokens' logits, relative to their size.
double distance(const Logits& a, const Logits& b) {
  double most = 0;
  for (size_t at = 0; at < a.size(); ++at) most = std::max(most, relative_error(a[at], b[at]));
  return most;
}

// What differs; empty if nothing does.
std::string difference(std::span<const float> a, std::span<const float> b) {
  if (std::memcmp(a.data(), b.data(), a.size_bytes()) == 0) return "";
  double largest = 0;
  size_t count = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) ++count;
    largest = std::max(largest, std::fabs(double{a[i]} - b[i]));
  }
  return concat(count, " logits differ, by up to ", largest);
}

void check_rows(const RandomLlama& shape, const Amount& amount) {
  const Model model = random_llama(shape);
  RunOptions options;
  options.sequences = static_cast<int>(amount.texts);
  const auto executor = cuda::make_executor(model, options, 0, switches());
  std::vector<std::vector<int32_t>> texts;
  std::vector<Logits> alone;
  for (size_t t = 0; t < amount.texts; ++t) {
    texts.push_back(random_tokens(static_cast<int64_t>(amount.length), 100 + t, shape.vocab));
    alone.push_back(run_alone(*executor, texts.back(), amount.twins));
    // The kernel for one row may choose other experts, if two are nearly alike.
    if (amount.twins == 1 || shape.experts.count > 0) continue;
    // Activations in bf16 are rounded by 2^-9, several times a layer.
    const double apart = distance(alone.back(), run_alone(*executor, texts.back(), 1));
    CHECK(apart < 2e-2);
  }
  for (int repetition = 0; repetition < amount.repetitions; ++repetition) {
    const size_t rows = 2 + static_cast<size_t>(repetition) % (amount.texts - 1);
    const size_t first = static_cast<size_t>(repetition) * 7 % amount.texts;
    std::vector<Sequence> sequences;
    for (size_t r = 0; r < rows; ++r) sequences.push_back(executor->new_sequence());
    for (size_t at = 0; at < amount.length; ++at) {
      std::vector<SeqRows> step;
      for (size_t r = 0; r < rows; ++r) {
        const auto& text = texts[(first + r) % amount.texts];
        step.push_back({&sequences[r], std::span(text).subspan(at, 1), Want::LastRow});
      }
      REQUIRE(executor->run(step) == static_cast<int64_t>(rows));
      for (size_t r = 0; r < rows; ++r) {
        const size_t text = (first + r) % amount.texts;
        const std::string differs =
            difference(executor->logits(static_cast<int64_t>(r)), alone[text][at]);
        if (differs.empty()) continue;
        const Logits anew = run_alone(*executor, texts[text], amount.twins);
        const bool again = difference(anew[at], alone[text][at]) == "";
        FAIL("repetition " << repetition << ", token " << at << ", row " << r << " of " << rows
                           << ": " << differs << "; alone once more it has the same bits as alone "
                           << (again ? "before" : "never before"));
      }
    }
  }
}

}  // namespace

// Racecheck takes half a second for a step.
TEST_CASE("rows of one decode step have the bits that each has alone", "[small]") {
  RandomLlama shape;
  shape.type = DType::BF16;
  shape.layers = 1;
  check_rows(shape, {2, 3, 3});
}

TEST_CASE("rows of one decode step have the bits that each has alone, hundreds of times",
          "[slow]") {
  RandomLlama shape;
  shape.type = GENERATE(DType::F16, DType::BF16);
  shape.head_dim = GENERATE(64, 96);
  check_rows(shape, {300});
}

TEST_CASE("rows of one decode step that choose experts have the bits that each has alone",
          "[slow]") {
  RandomLlama shape;
  shape.type = GENERATE(DType::F16, DType::BF16, DType::Q8_0, DType::Q4_K);
  shape.experts = {16, 3, 256, true, {}};
  // Quantized products of 2 to 8 rows have one kernel.
  const bool quantized = shape.type == DType::Q8_0 || shape.type == DType::Q4_K;
  check_rows(shape, quantized ? Amount{60, 8, 24, 2} : Amount{60});
}

// One row's product of gate and up routes the row: all its blocks wait for one another's logits,
// and down makes the memory of the logits ready for the next layer.
TEST_CASE("one row has the same bits each time its experts are chosen") {
  RandomLlama shape;
  shape.type = GENERATE(DType::Q8_0, DType::Q4_K);
  shape.experts = {40, 3, 256, true, {}};
  shape.experts.shared_gate = GENERATE(false, true);
  shape.experts.shared_dim = shape.experts.shared_gate ? 256 : 0;
  const Model model = random_llama(shape);
  const auto executor = cuda::make_executor(model, RunOptions(), 0, switches());
  const std::vector<int32_t> text = random_tokens(48, 5, shape.vocab);
  const Logits first = run_alone(*executor, text, 1);
  for (int time = 0; time < 20; ++time) {
    const Logits again = run_alone(*executor, text, 1);
    for (size_t at = 0; at < text.size(); ++at) REQUIRE(difference(again[at], first[at]) == "");
  }
}

// All experts are used, so that both choose the same ones.
TEST_CASE("one row's experts have the results that float32 has", "[small]") {
  RandomLlama shape;
  shape.type = GENERATE(DType::Q8_0, DType::Q4_K);
  shape.layers = 1;
  shape.experts = {3, 3, 256, true, {}};
  shape.experts.shared_gate = GENERATE(false, true);
  shape.experts.shared_dim = GENERATE(0, 256);
  if (shape.experts.shared_dim == 0) shape.experts.shared_gate = false;
  const Model model = random_llama(shape);
  const std::vector<int32_t> text = random_tokens(3, 5, shape.vocab);
  const Logits got = run_alone(*cuda::make_executor(model, RunOptions(), 0, switches()), text, 1);
  RunOptions options;
  options.exact = true;
  const Logits expected = run_alone(*cpu::make_executor(model, options), text, 1);
  CHECK(distance(got, expected) < 2e-2);
}

TEST_CASE("rows of one decode step of a wider model have the bits that each has alone") {
  RandomLlama shape;
  shape.type = DType::BF16;
  shape.dim = 1088, shape.ffn_dim = 2112, shape.vocab = 3001, shape.heads = 8;
  check_rows(shape, {60});
}

// 2 to 8 rows fill one tile.
TEST_CASE("rows of one decode step of a quantized model have the bits that each has alone") {
  RandomLlama shape;
  shape.type = GENERATE(DType::Q8_0, DType::Q4_0, DType::Q4_K, DType::Q6_K);
  shape.dim = 512, shape.ffn_dim = 14336, shape.vocab = 3001, shape.heads = 8;
  check_rows(shape, {14, 8, 6, 2});
}

}  // namespace skald::test
