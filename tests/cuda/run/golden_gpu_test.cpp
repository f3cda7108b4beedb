// The golden models on the GPU, in the type of their own weights. 16-bit models are compared by the
// divergence of their predictions, float32 models by their logits; both write the same tokens as
// the CPU.
#include <filesystem>

#include "models/open.h"
#include "tests/catch.h"
#include "tests/cuda/kernels/switches.h"
#include "tests/cuda/run/golden_gpu.h"
#include "tests/temp_folder.h"

namespace skald::test {

TEST_CASE("golden models on the GPU predict what Hugging Face predicts") {
  const std::string name = GENERATE(
      "llama-mha", "llama3-gqa-tied-ropescale", "llama3-long-3000", "openllama-headdim100",
      "llama-bias-linear-rope", "llama-config-v5", "mistral-swa-headdim64", "qwen2-bias-tied",
      "qwen3-qknorm", "gemma2-softcap", "phi3-fused", "cohere2", "granite4", "qwen3_vl", "seed_oss",
      "ernie4_5", "glm4", "exaone4", "ministral3", "hunyuan_v1_dense", "starcoder2", "qwen3_5",
      "lfm2", "nemotron_h", "gemma4-dense", "gemma4-ple");
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

// Gemma 4 without experts is here too: in 16 bits its scores, which have no factor, are less exact.
// Two experts may be so close that activations of 16 bits change a router's choice, and then other
// experts answer. So all rows are checked in float32, and in 16 bits all but a few.
TEST_CASE("golden models on the GPU predict in float32 what Hugging Face predicts") {
  const std::string name = GENERATE(
      "mixtral-moe", "olmoe", "qwen2_moe", "gpt_oss-bf16", "minimax_m2", "glm4_moe", "qwen3_5_moe",
      "qwen3_next", "lfm2", "gemma4-dense", "gemma4-ple", "gemma4-moe", "muse_glimmer", "mistral4",
      "deepseek_v3", "granite4-hybrid", "nemotron_h", "nemotron_h-moe");
  const std::filesystem::path folder = find_golden(name);
  if (folder.empty()) return;
  const int limit = GENERATE(0, 80, 75);
  RunOptions options;
  options.arch_limit = limit;
  TempFolder temp;
  nlohmann::json config = read_json(folder / "config.json");
  config.update(golden_changes(name));
  temp.write("config.json", config.dump());
  temp.write("model.safetensors", as_floats(read_file(folder / "model.safetensors")));
  const Model model = open_model(temp.path()).model;
  const auto executor = cuda::make_executor(model, options, 0, switches());
  check_golden(*executor, read_json(folder / "golden.json"), read_npy(folder / "logits.npy"), true,
               name + " f32");
}

// The tiny gpt-oss is sensitive: transformers itself, in bf16, has a mean divergence of 1.1e-2 from
// its float32 logits there. Therefore its mean is checked, and not each row.
TEST_CASE("golden mixtures of experts on the GPU predict in bf16 what Hugging Face predicts") {
  const std::string name = GENERATE("mixtral-moe", "gpt_oss");
  const bool sensitive = name == "gpt_oss";
  const std::filesystem::path folder = find_golden(name);
  if (folder.empty()) return;
  const nlohmann::json golden = read_json(folder / "golden.json");
  const Matrix expected = read_npy(folder / "logits.npy");
  const int limit = GENERATE(0, 80, 75);
  RunOptions options;
  options.arch_limit = limit;
  const Model model = open_model(folder).model;
  const auto executor = cuda::make_executor(model, options, 0, switches());
  for (const size_t chunk : {size_t{512}, size_t{7}, size_t{1}}) {
    const auto ids = golden["input_ids"].get<std::vector<int32_t>>();
    const auto logits = run_text(*executor, ids, chunk);
    int64_t off = 0;
    double sum = 0;
    for (int64_t row = 0; row < expected.rows; ++row) {
      const std::vector<float>& values = logits.at(row);
      const double kl = divergence(softmax(expected.row(row), values.size()),
                                   softmax(values.data(), values.size()));
      if (!(kl <= 1e-3)) ++off;
      sum += kl;
    }
    const double mean = sum / static_cast<double>(expected.rows);
    std::printf("%s bf16 chunk %zu: %lld of %lld rows off, mean divergence %.2e\n", name.c_str(),
                chunk, static_cast<long long>(off), static_cast<long long>(expected.rows), mean);
    CHECK((sensitive ? mean <= 1e-2 : off <= expected.rows / 10));
  }
}

// Compared with the dequantized weights of the GGUF; with and without 16-bit copies for prompts.
TEST_CASE("a GGUF of every type predicts on the GPU what its dequantized weights do") {
  const PrefillCopy copy = GENERATE(PrefillCopy::On, PrefillCopy::Off);
  for (const std::string& type : gguf_types()) {
    const std::filesystem::path gguf = find_gguf("kq256." + type + ".gguf");
    const OpenedModel opened = open_model(gguf);
    const auto executor = cuda::make_executor(opened.model, {.prefill_copy = copy}, 0, switches());
    const std::string stem = (gguf.parent_path() / ("kq256." + type)).string();
    const Matrix expected = read_npy(stem + ".logits.npy");
    const auto ids = read_json(stem + ".json")["input_ids"].get<std::vector<int32_t>>();
    for (const size_t chunk : {size_t{512}, size_t{40}, size_t{7}, size_t{1}}) {
      CAPTURE(type, chunk);
      const auto logits = run_text(*executor, ids, chunk);
      REQUIRE(std::ssize(logits) >= expected.rows);
      double kl = 0;
      for (int64_t row = 0; row < expected.rows; ++row) {
        const std::vector<float>& values = logits.at(row);
        kl += divergence(softmax(expected.row(row), values.size()),
                         softmax(values.data(), values.size()));
      }
      kl /= static_cast<double>(expected.rows);
      std::printf("kq256 %-8s copy %s chunk %3zu: mean KL %.2e\n", type.c_str(),
                  copy == PrefillCopy::On ? "on " : "off", chunk, kl);
      CHECK(kl <= 1e-3);
    }
  }
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
