// Models that a group of ranks computes together predict what Hugging Face transformers predict.
#include "engine/cpu/executor.h"
#include "engine/program/shard.h"
#include "models/convert/quantized.h"
#include "models/open.h"
#include "tests/golden_check.h"

namespace skald::test {
namespace {

// A golden, and how often its layers add up parts if two ranks compute it.
struct Cut {
  const char* name;
  int sums;
};

}  // namespace

TEST_CASE("golden models computed by a group of ranks agree with Hugging Face's") {
  const Cut cut = GENERATE(
      Cut{"llama-mha", 4}, Cut{"llama3-gqa-tied-ropescale", 4}, Cut{"openllama-headdim100", 2},
      Cut{"llama-bias-linear-rope", 4}, Cut{"llama-config-v5", 4}, Cut{"mistral-swa-headdim64", 4},
      Cut{"qwen2-bias-tied", 4}, Cut{"qwen3-qknorm", 4}, Cut{"gemma2-softcap", 4},
      Cut{"phi3-fused", 2}, Cut{"cohere2", 8}, Cut{"granite4", 8}, Cut{"granite4-hybrid", 9},
      Cut{"nemotron_h", 3}, Cut{"qwen3_vl", 8}, Cut{"seed_oss", 8}, Cut{"ernie4_5", 8},
      Cut{"glm4", 8}, Cut{"exaone4", 8}, Cut{"starcoder2", 8}, Cut{"qwen2_moe", 12},
      Cut{"olmoe", 4}, Cut{"ministral3", 8}, Cut{"hunyuan_v1_dense", 8}, Cut{"gpt_oss", 8},
      Cut{"gpt_oss-bf16", 8}, Cut{"minimax_m2", 4}, Cut{"lfm2", 5}, Cut{"muse_glimmer", 8},
      Cut{"deepseek_v3", 7}, Cut{"mistral4", 8}, Cut{"glm4_moe", 11}, Cut{"qwen3_5", 5},
      Cut{"qwen3_5_moe", 9}, Cut{"qwen3_next", 9}, Cut{"gemma4-dense", 12}, Cut{"gemma4-moe", 18},
      Cut{"gemma4-ple", 18}, Cut{"kq256", 2});
  const std::string name = cut.name;
  const std::filesystem::path folder = find_golden(name);
  if (folder.empty()) return;
  const Model model = made_model(open_model(folder).model, {});
  Model half = model;
  half.shard = {1, 2};
  CHECK(count_all_reduces(half.program()) == cut.sums);
  // Three ranks have parts of different sizes. Some of four ranks share their keys and values.
  for (const int ranks : {2, 3, 4}) {
    CAPTURE(name, ranks);
    const auto group = cpu::make_group(model, {.exact = true}, ranks);
    const bool magnified = name == "qwen3_next";  // as in tests/models/golden_test.cpp
    check_logits(*group, folder / "golden.json", folder / "logits.npy",
                 magnified ? 3e-4 : kLogitTolerance);
    const nlohmann::json golden = read_json(folder / "golden.json");
    if (golden.contains("greedy_ids")) check_greedy(*group, golden);
  }
}

// Fewer heads than ranks: heads are copied, and some ranks may have nothing of an op to compute.
TEST_CASE("golden models computed by eight ranks agree with Hugging Face's") {
  const std::string name =
      GENERATE("llama3-gqa-tied-ropescale", "phi3-fused", "cohere2", "granite4", "granite4-hybrid",
               "nemotron_h", "olmoe", "gpt_oss", "lfm2", "glm4_moe", "qwen3_5");
  const std::filesystem::path folder = find_golden(name);
  if (folder.empty()) return;
  CAPTURE(name);
  const auto group = cpu::make_group(made_model(open_model(folder).model, {}), {.exact = true}, 8);
  check_logits(*group, folder / "golden.json", folder / "logits.npy");
}

TEST_CASE("a GGUF of every type gives the same logits on two ranks") {
  for (const std::string& type : gguf_types()) {
    CAPTURE(type);
    const std::filesystem::path gguf = find_gguf("kq256." + type + ".gguf");
    const auto group = cpu::make_group(open_model(gguf).model, {.exact = true}, 2);
    const std::string stem = (gguf.parent_path() / ("kq256." + type)).string();
    check_logits(*group, stem + ".json", stem + ".logits.npy");
  }
}

}  // namespace skald::test
