// The logits of every family's tiny model agree with those of Hugging Face transformers in f32.
#include <cmath>

#include "engine/cpu/executor.h"
#include "models/convert/quantized.h"
#include "models/open.h"
#include "tests/golden_check.h"

namespace skald::test {
namespace {

using cpu::KernelSet;

}  // namespace

TEST_CASE("the logits and greedy tokens of every golden folder agree with Hugging Face's") {
  const std::string name = GENERATE(
      "llama-mha", "llama3-gqa-tied-ropescale", "llama3-long-3000", "openllama-headdim100",
      "llama-bias-linear-rope", "llama-config-v5", "mistral-swa-headdim64", "qwen2-bias-tied",
      "qwen3-qknorm", "gemma2-softcap", "phi3-fused", "cohere2", "granite4", "granite4-hybrid",
      "nemotron_h", "qwen3_vl", "seed_oss", "ernie4_5", "glm4", "exaone4", "starcoder2",
      "qwen2_moe", "olmoe", "ministral3", "hunyuan_v1_dense", "gpt_oss", "gpt_oss-bf16",
      "minimax_m2", "lfm2", "muse_glimmer", "deepseek_v3", "mistral4", "glm4_moe", "qwen3_5",
      "qwen3_5_moe", "qwen3_next", "gemma4-dense", "gemma4-moe", "gemma4-ple", "kq256");
  const KernelSet kernels = GENERATE(KernelSet::Fast, KernelSet::Reference);
  const std::filesystem::path folder = find_golden(name);
  if (folder.empty() || (name == "llama3-long-3000" && kernels == KernelSet::Reference)) return;
  CAPTURE(name, kernels == KernelSet::Fast);
  const OpenedModel opened = open_model(folder);
  const Model model = made_model(opened.model, {});
  const auto executor = cpu::make_executor(model, {.exact = true}, kernels);
  // In one row of this model a head's result is nearly zero. Its norm magnifies the rounding of
  // sums in float32 a hundred times; the reference's sums are in double.
  const bool magnified = name == "qwen3_next" && kernels == KernelSet::Fast;
  check_logits(*executor, folder / "golden.json", folder / "logits.npy",
               magnified ? 3e-4 : kLogitTolerance);
  const nlohmann::json golden = read_json(folder / "golden.json");
  if (golden.contains("greedy_ids")) check_greedy(*executor, golden);
}

TEST_CASE("a GGUF of every type gives the logits of its dequantized weights") {
  const KernelSet kernels = GENERATE(KernelSet::Fast, KernelSet::Reference);
  for (const std::string& type : gguf_types()) {
    CAPTURE(type, kernels == KernelSet::Fast);
    const std::filesystem::path gguf = find_gguf("kq256." + type + ".gguf");
    const OpenedModel opened = open_model(gguf);
    const auto executor = cpu::make_executor(opened.model, {.exact = true}, kernels);
    const std::string stem = (gguf.parent_path() / ("kq256." + type)).string();
    check_logits(*executor, stem + ".json", stem + ".logits.npy");
  }
}

TEST_CASE("activations in 8 bits change the logits of quantized models by less than 2 %") {
  for (const std::string& type : gguf_types()) {
    if (type == "f16") continue;  // its activations stay in float32
    CAPTURE(type);
    const std::filesystem::path gguf = find_gguf("kq256." + type + ".gguf");
    const OpenedModel opened = open_model(gguf);
    const auto executor = cpu::make_executor(opened.model, {});
    const std::string stem = (gguf.parent_path() / ("kq256." + type)).string();
    const Matrix expected = read_npy(stem + ".logits.npy");
    const auto ids = read_json(stem + ".json")["input_ids"].get<std::vector<int32_t>>();
    double difference = 0, size = 0;
    for_each_logits(*executor, ids, [&](size_t position, std::span<const float> logits) {
      for (size_t i = 0; i < logits.size(); ++i) {
        const double reference = expected.row(static_cast<int64_t>(position))[i];
        difference += std::pow(logits[i] - reference, 2);
        size += reference * reference;
      }
    });
    // Steps of 1/127 of the largest of 32 activations give an error of about 0.5 % after one
    // product.
    CHECK(std::sqrt(difference / size) < 0.02);
  }
}

TEST_CASE("stories260K generates its known story and continues its prompts") {
  if (!have_shared("goldens/stories260K")) return;
  const std::filesystem::path folder = shared_dir() / "goldens/stories260K";
  const nlohmann::json golden = read_json(folder / "golden.json");
  const OpenedModel opened = open_model(folder);
  const auto executor = cpu::make_executor(opened.model, {});
  auto continue_text = [&](const std::vector<int32_t>& prompt, size_t count) {
    Session session(*executor, SamplingParams{.temperature = 0});
    session.feed(prompt);
    std::vector<int32_t> ids;
    while (ids.size() < count) ids.push_back(session.next().token);
    return ids;
  };
  auto story = golden["greedy_from_bos_ids"].get<std::vector<int32_t>>();
  CHECK(continue_text({story.front()}, story.size() - 1) ==
        std::vector<int32_t>(story.begin() + 1, story.end()));
  for (const nlohmann::json& row : golden["greedy"]) {
    const auto ids = row["ids"].get<std::vector<int32_t>>();
    CHECK(continue_text(row["prompt_ids"].get<std::vector<int32_t>>(), ids.size()) == ids);
  }
}

}  // namespace skald::test
