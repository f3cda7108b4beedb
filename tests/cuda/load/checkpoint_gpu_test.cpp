// Checkpoints that other tools quantized, on a GPU: it reads their rows while it loads them.
#include <algorithm>
#include <cmath>

#include "cuda/cuda.h"
#include "tests/cuda/run/golden_gpu.h"
#include "tests/models/checkpoints/checkpoint_files.h"
#include "tests/models/checkpoints/float_folder.h"

namespace skald::test {

// The mean divergence of the last rows' predictions from those that `expected` gives.
double mean_divergence(const Model& model, const std::vector<int32_t>& ids,
                       const std::vector<std::vector<float>>& expected) {
  const auto executor = cuda::make_executor(model, {}, 0);
  Sequence sequence = executor->new_sequence();
  const SeqRows rows{&sequence, ids, Want::EveryRow};
  const int64_t first = executor->run({&rows, 1}) - std::ssize(expected);
  REQUIRE(first >= 0);
  double sum = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto logits = executor->logits(first + static_cast<int64_t>(i));
    sum += divergence(softmax(expected[i].data(), logits.size()),
                      softmax(logits.data(), logits.size()));
  }
  return sum / static_cast<double>(expected.size());
}

TEST_CASE("quantized checkpoints predict on a GPU what their packages' weights do") {
  for (const std::string& name : checkpoint_names()) {
    CAPTURE(name);
    const nlohmann::json golden = read_json(checkpoints() / name / "golden.json");
    const auto ids = golden["ids"].get<std::vector<int32_t>>();
    const auto expected = golden["logits"].get<std::vector<std::vector<float>>>();
    CHECK(mean_divergence(open_model(checkpoints() / name).model, ids, expected) < 1e-3);
  }
}

TEST_CASE("a number of FP8 that is none reaches the logits on a GPU") {
  const FloatKind kind = GENERATE(FloatKind::Fp8Row, FloatKind::Nvfp4Over);
  CAPTURE(text(kind));
  const FloatFolder folder(kind, true);
  const auto executor = cuda::make_executor(folder.open().model, {}, 0);
  Sequence sequence = executor->new_sequence();
  for (const std::vector<int32_t>& tokens : {std::vector<int32_t>{1, 7, 30}, {4}}) {
    const SeqRows rows{&sequence, tokens, Want::LastRow};
    executor->run({&rows, 1});
    const auto logits = executor->logits(0);
    CHECK(std::any_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); }));
  }
}

// One row at a time, and all at once: products of one row and of several have kernels of their own.
TEST_CASE(
    "a model in FP8 or NVFP4 predicts on a GPU what its weights in float32 predict on the CPU") {
  const FloatKind kind = GENERATE(from_range(std::begin(kFloatKinds), std::end(kFloatKinds)));
  CAPTURE(text(kind));
  const std::vector<int32_t> ids = {1, 7, 30, 4, 4, 19, 47, 2, 11, 25};
  const FloatFolder folder(kind);
  const std::vector<float> logits =
      all_logits(*cpu::make_executor(folder.open_in_f32().model, {.exact = true}), ids);
  std::vector<std::vector<float>> expected;
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto row = logits.begin() + static_cast<int64_t>(i) * FloatFolder::kVocab;
    expected.emplace_back(row, row + FloatFolder::kVocab);
  }
  const Model model = folder.open().model;
  CHECK(mean_divergence(model, ids, expected) < 1e-3);
  const auto executor = cuda::make_executor(model, {}, 0);
  Sequence sequence = executor->new_sequence();
  double sum = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    const SeqRows row{&sequence, std::span(ids).subspan(i, 1), Want::EveryRow};
    executor->run({&row, 1});
    const auto found = executor->logits(0);
    sum +=
        divergence(softmax(expected[i].data(), found.size()), softmax(found.data(), found.size()));
  }
  CHECK(sum / static_cast<double>(ids.size()) < 1e-3);
}

}  // namespace skald::test
