// A model that has an adapter merged into its weights, on a GPU.
#include "cuda/cuda.h"
#include "tests/cuda/run/golden_gpu.h"
#include "tests/models/adapters/adapter_files.h"

namespace skald::test {

TEST_CASE("a merged adapter gives PEFT's logits on a GPU, up to the rounding of 16 bits") {
  TempFolder temp;
  Model model = with_adapter(open_model(write_folder(temp, "nemo")), {{lora("all")}}).model;
  const auto adapters = std::exchange(model.adapters, nullptr);
  const auto base = cuda::make_executor(model, {}, 0);
  const auto merged = cuda::make_executor(merged_model(model, adapters), {}, 0);
  const Matrix expected = read_npy(lora("all") / "logits.npy");
  const auto mean_divergence = [&](Executor& executor) {
    const std::vector<int32_t> ids = lora_ids();
    Sequence sequence = executor.new_sequence();
    const SeqRows rows{&sequence, ids, Want::EveryRow};
    const int64_t count = executor.run({&rows, 1});
    double sum = 0;
    for (int64_t row = 0; row < count; ++row) {
      const auto logits = executor.logits(row);
      sum += divergence(softmax(expected.row(row), logits.size()),
                        softmax(logits.data(), logits.size()));
    }
    return sum / static_cast<double>(count);
  };
  CHECK(mean_divergence(*merged) < 1e-3);
  CHECK(mean_divergence(*base) > 1e-3);
}

}  // namespace skald::test
