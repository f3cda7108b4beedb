// The golden models on the GPU, in the numbers of their own weights: 16-bit models by the
// divergence of their predictions, float32 ones by their logits; and the same texts as the CPU.
#include <filesystem>

#include "models/open.h"
#include "tests/catch.h"
#include "tests/cuda/golden_gpu.h"
#include "tests/cuda/switches.h"

namespace skald::test {

TEST_CASE("golden models on the GPU predict what Hugging Face predicts") {
  const std::string name =
      GENERATE("llama-mha", "llama3-gqa-tied-ropescale", "llama3-long-3000", "openllama-headdim100",
               "llama-bias-linear-rope", "llama-config-v5", "mistral-swa-headdim64",
               "qwen2-bias-tied", "qwen3-qknorm", "gemma2-softcap", "phi3-fused");
  const std::filesystem::path folder = find_golden(name);
  if (folder.empty()) return;
  const OpenedModel opened = open_model(folder);
  const int limit = GENERATE(0, 80, 75);
  RunOptions options;
  options.arch_limit = limit;
  const auto executor = cuda::make_executor(opened.model, options, 0, switches());
  CAPTURE(name, limit);
  const nlohmann::json golden = read_json(folder / "golden.json");
  check_golden(*executor, golden, read_npy(folder / "logits.npy"),
               golden["weights_dtype"] == "fp32", name);
}

TEST_CASE("stories260K tells the same story on the GPU") {
  if (!have_shared("goldens/stories260K")) return;
  const std::filesystem::path folder = shared_dir() / "goldens/stories260K";
  const OpenedModel opened = open_model(folder);
  const auto executor = cuda::make_executor(opened.model, {}, 0, switches());
  const auto story =
      read_json(folder / "golden.json")["greedy_from_bos_ids"].get<std::vector<int32_t>>();
  CHECK(continue_text(*executor, {story.front()}, story.size() - 1) ==
        std::vector<int32_t>(story.begin() + 1, story.end()));
}

TEST_CASE("two models on one GPU do not disturb each other") {
  const OpenedModel first = open_model(find_golden("llama-mha"));
  const OpenedModel second = open_model(find_golden("mistral-swa-headdim64"));
  const auto a = cuda::make_executor(first.model, {}, 0, switches());
  const auto b = cuda::make_executor(second.model, {}, 0, switches());
  const auto expected_a = continue_text(*a, {1, 5, 9}, 16);
  const auto expected_b = continue_text(*b, {1, 5, 9}, 16);
  Session session_a(*a, SamplingParams{.temperature = 0});
  Session session_b(*b, SamplingParams{.temperature = 0});
  session_a.feed(std::vector<int32_t>{1, 5, 9});
  session_b.feed(std::vector<int32_t>{1, 5, 9});
  for (size_t i = 0; i < 16; ++i) {
    REQUIRE(session_a.next().token == expected_a[i]);
    REQUIRE(session_b.next().token == expected_b[i]);
  }
}

}  // namespace skald::test
