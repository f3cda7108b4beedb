// Checkpoints that other tools quantized, on a GPU: it reads their rows while it loads them.
#include "cuda/cuda.h"
#include "tests/cuda/run/golden_gpu.h"
#include "tests/models/checkpoints/checkpoint_files.h"

namespace skald::test {

TEST_CASE("quantized checkpoints predict on a GPU what their packages' weights do") {
  for (const std::string& name : checkpoint_names()) {
    CAPTURE(name);
    const nlohmann::json golden = read_json(checkpoints() / name / "golden.json");
    const auto ids = golden["ids"].get<std::vector<int32_t>>();
    const auto expected = golden["logits"].get<std::vector<std::vector<float>>>();
    const auto executor = cuda::make_executor(open_model(checkpoints() / name).model, {}, 0);
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
    CHECK(sum / static_cast<double>(expected.size()) < 1e-3);
  }
}

}  // namespace skald::test
