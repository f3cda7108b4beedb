// Models whose ops are shared by several ranks predict what Hugging Face transformers predict.
#include "engine/cpu/executor.h"
#include "engine/program/shard.h"
#include "models/convert/quantized.h"
#include "models/open.h"
#include "tests/golden_check.h"

namespace skald::test {

TEST_CASE("golden models computed by a group of ranks agree with Hugging Face's") {
  const std::string name = GENERATE(
      "llama-mha", "llama3-gqa-tied-ropescale", "openllama-headdim100", "llama-bias-linear-rope",
      "llama-config-v5", "mistral-swa-headdim64", "qwen2-bias-tied", "qwen3-qknorm",
      "gemma2-softcap", "phi3-fused", "cohere2", "granite4", "qwen3_vl", "seed_oss", "ernie4_5",
      "glm4", "exaone4", "starcoder2", "qwen2_moe", "olmoe", "ministral3", "hunyuan_v1_dense",
      "gpt_oss", "gpt_oss-bf16", "minimax_m2", "lfm2", "muse_glimmer", "deepseek_v3", "mistral4",
      "glm4_moe", "qwen3_5", "qwen3_5_moe", "qwen3_next", "gemma4-dense", "gemma4-moe",
      "gemma4-ple", "kq256");
  const std::filesystem::path folder = find_golden(name);
  if (folder.empty()) return;
  const Model model = made_model(open_model(folder).model, {});
  for (const int ranks : {2, 3, 4}) {
    CAPTURE(name, ranks);
    const auto group = cpu::make_group(model, {.exact = true}, ranks);
    Model shard = model;
    shard.shard = {1, ranks};
    const Program program = shard.program();
    std::fprintf(stderr, "%s %d: %ld of %d layers x 2, %zu ops\n", name.c_str(), ranks,
                 count_all_reduces(program), model.config.layers, program.ops.size());
    const bool magnified = name == "qwen3_next";  // tests/models/golden_test.cpp
    check_logits(*group, folder / "golden.json", folder / "logits.npy",
                 magnified ? 3e-4 : kLogitTolerance);
    const nlohmann::json golden = read_json(folder / "golden.json");
    if (golden.contains("greedy_ids")) check_greedy(*group, golden);
  }
}

}  // namespace skald::test
