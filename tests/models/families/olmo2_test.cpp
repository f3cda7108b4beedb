// OLMo 2 and 3: norms after attention and feed-forward, and norms of whole queries and keys.
#include "tests/family_golden.h"

namespace skald::test {
namespace {

TEST_CASE("tiny OLMos agree with transformers' logits and greedy tokens, as folder and as GGUF") {
  const std::string name = GENERATE("olmo2", "olmo3");
  const auto kernels = GENERATE(cpu::KernelSet::Fast, cpu::KernelSet::Reference);
  TempFolder temp;
  const OpenedModel folder = open_model(write_folder(temp, name));
  const OpenedModel gguf = open_model(write_gguf(temp, name));
  for (const OpenedModel& opened : {folder, gguf}) {
    CHECK(opened.family == "OLMo");
    CHECK(!opened.model.config.rope.interleaved);
    CHECK(!opened.model.config.tied);
    check_model(opened.model, name, kernels);
  }
}

TEST_CASE("OLMo 2 normalizes queries, keys, and the outputs of attention and feed-forward") {
  TempFolder temp;
  const Program program = open_model(write_folder(temp, "olmo2")).model.program();
  std::string order;
  for (const Op& op : program.ops) {
    const auto* norm = std::get_if<Norm>(&op);
    if (norm) order += program.weight(norm->weight).name + " ";
    if (std::holds_alternative<Add>(op)) order += "add ";
  }
  CHECK(order ==
        "blk.0.attn_q_norm.weight blk.0.attn_k_norm.weight blk.0.post_attention_norm.weight add "
        "blk.0.post_ffw_norm.weight add "
        "blk.1.attn_q_norm.weight blk.1.attn_k_norm.weight blk.1.post_attention_norm.weight add "
        "blk.1.post_ffw_norm.weight add output_norm.weight ");
}

TEST_CASE("omitted keys of OLMo 2's configuration have transformers' defaults") {
  const ModelConfig c =
      config_of("olmo2", {{"rms_norm_eps", "erase"}, {"rope_theta", "erase"}, {"mlp_bias", true}});
  CHECK(c.norm_eps == 1e-5f);
  CHECK(c.rope_base == 10000);
  CHECK(!c.mlp_bias);
  CHECK(has(refusal("olmo2", {{"num_key_value_heads", nullptr}}),
            "tensor 'blk.0.attn_k.weight' is [8, 16], expected [16, 16]"));
}

TEST_CASE("OLMo 3 has windows in three of four layers, and scales the rope of the fourth only") {
  const ModelConfig c = config_of("olmo3");
  CHECK(c.windows == std::vector<int>{7, 0});
  CHECK(c.rope_scaling == "yarn");
  CHECK(c.window_rope.scale == 1);
  CHECK(c.window_rope.inv_freq != c.rope.inv_freq);
  CHECK(c.window_rope.inv_freq[0] == 1);
  TempFolder temp;
  const ModelConfig gguf = open_model(write_gguf(temp, "olmo3")).model.config;
  CHECK(gguf.windows == c.windows);
  CHECK(gguf.rope.inv_freq == c.rope.inv_freq);
  CHECK(gguf.window_rope.inv_freq == c.window_rope.inv_freq);

  const ModelConfig silent = config_of(
      "olmo3", {{"layer_types", "erase"}, {"sliding_window", "erase"}, {"rope_scaling", "erase"}});
  CHECK(silent.windows == std::vector<int>{4096, 4096});
  CHECK(silent.window_rope.inv_freq == silent.rope.inv_freq);
  CHECK(config_of("olmo2").windows.empty());
}

}  // namespace
}  // namespace skald::test
