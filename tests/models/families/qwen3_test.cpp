// Qwen3: norms of single heads, and windows where the configuration uses them.
#include "tests/family_golden.h"

namespace skald::test {
namespace {

using Json = nlohmann::json;

TEST_CASE(
    "a tiny Qwen3 agrees with transformers' logits and greedy tokens, as folder and as GGUF") {
  const auto kernels = GENERATE(cpu::KernelSet::Fast, cpu::KernelSet::Reference);
  TempFolder temp;
  const OpenedModel folder = open_model(write_folder(temp, "qwen3"));
  const OpenedModel gguf = open_model(write_gguf(temp, "qwen3"));
  for (const OpenedModel& opened : {folder, gguf}) {
    CHECK(opened.family == "Qwen3");
    CHECK(opened.model.config.qk_norm == QkNorm::Heads);
    CHECK(opened.model.config.tied);
    CHECK(!opened.model.config.attention_bias);
    CHECK(!opened.model.config.rope.interleaved);
    check_model(opened.model, "qwen3", kernels);
  }
}

TEST_CASE("a tiny Qwen3 with a window in its last layer agrees with transformers' logits") {
  const auto kernels = GENERATE(cpu::KernelSet::Fast, cpu::KernelSet::Reference);
  TempFolder temp;
  const Model model = open_model(write_folder(temp, "qwen3-window")).model;
  CHECK(model.config.windows == std::vector<int>{0, 7});
  check_model(model, "qwen3-window", kernels);
}

TEST_CASE("Qwen3's windows apply only where the configuration uses them") {
  const Json used{{"use_sliding_window", true}, {"sliding_window", 9}};
  const auto with = [&](Json changes) {
    changes.update(used);
    return changes;
  };
  CHECK(config_of("qwen3", {{"sliding_window", 9}}).windows.empty());
  CHECK(config_of("qwen3", {{"sliding_window", 9}}).window == 0);
  CHECK(config_of("qwen3", with({{"max_window_layers", 1}})).windows == std::vector<int>{0, 9});
  CHECK(config_of("qwen3", used).windows == std::vector<int>{0, 0});  // by default from layer 28 on
  CHECK(config_of("qwen3", with({{"layer_types", {"sliding_attention", "full_attention"}}}))
            .windows == std::vector<int>{9, 0});
  CHECK(has(refusal("qwen3", {{"layer_types", {"sliding_attention", "full_attention"}}}),
            "but there is no 'sliding_window'"));
  CHECK(has(refusal("qwen3", {{"head_dim", "erase"}}), "expected [256, 16]"));
  CHECK(has(refusal("qwen3", {{"hidden_act", "relu"}}), "activation 'relu' is not supported"));
}

TEST_CASE("a Qwen3 without one of its norms is incomplete") {
  TempFolder temp;
  const fs::path folder = write_folder(temp, "qwen3");
  std::string weights = read_file(folder / "model.safetensors");
  weights.replace(weights.find("1.self_attn.k_norm"), 18, "1.self_attn.x_norm");
  temp.write("m/model.safetensors", weights);
  CHECK(has(error_text([&] { open_model(folder); }),
            "tensor 'blk.1.attn_k_norm.weight' is missing (expected [12])"));
}

}  // namespace
}  // namespace skald::test
