// OLMo 2: norms after each half of a layer, and of whole queries and keys.
#include "tests/family_golden.h"
#include "tests/gguf_writer.h"

namespace skald::test {
namespace {

TEST_CASE("a tiny OLMo 2 gives transformers' logits and greedy tokens, as folder and as GGUF") {
  const auto kernels = GENERATE(cpu::KernelSet::Fast, cpu::KernelSet::Reference);
  TempFolder temp;
  const OpenedModel folder = open_model(write_folder(temp, "olmo2"));
  const OpenedModel gguf = open_model(write_gguf(temp, "olmo2"));
  for (const OpenedModel& opened : {folder, gguf}) {
    CHECK(opened.family == "OLMo 2");
    CHECK(!opened.model.config.rope.interleaved);
    CHECK(!opened.model.config.tied);
    check_model(opened.model, "olmo2", kernels);
  }
}

TEST_CASE("OLMo 2 norms whole queries and keys, and what it adds") {
  TempFolder temp;
  const Program program = open_model(write_folder(temp, "olmo2")).model.program();
  std::string order;
  for (const Op& op : program.ops) {
    const auto* norm = std::get_if<RmsNorm>(&op);
    if (norm) order += program.weight(norm->weight).name + " ";
    if (std::holds_alternative<Add>(op)) order += "add ";
  }
  CHECK(order ==
        "blk.0.attn_q_norm.weight blk.0.attn_k_norm.weight blk.0.post_attention_norm.weight add "
        "blk.0.post_ffw_norm.weight add "
        "blk.1.attn_q_norm.weight blk.1.attn_k_norm.weight blk.1.post_attention_norm.weight add "
        "blk.1.post_ffw_norm.weight add output_norm.weight ");
}

TEST_CASE("what OLMo 2's configuration leaves out is as transformers has it") {
  const ModelConfig c =
      config_of("olmo2", {{"rms_norm_eps", "erase"}, {"rope_theta", "erase"}, {"mlp_bias", true}});
  CHECK(c.norm_eps == 1e-5f);
  CHECK(c.rope_base == 10000);
  CHECK(!c.mlp_bias);
  CHECK(has(refusal("olmo2", {{"num_key_value_heads", nullptr}}),
            "tensor 'blk.0.attn_k.weight' is [8, 16], expected [16, 16]"));
}

TEST_CASE("a GGUF of OLMo 3, which GGUF calls olmo2 too, is refused by its windows") {
  GgufWriter w;
  w.text("general.architecture", "olmo2");
  w.u32("olmo2.block_count", 1);
  w.u32("olmo2.embedding_length", 16);
  w.u32("olmo2.feed_forward_length", 16);
  w.u32("olmo2.attention.head_count", 2);
  w.f32("olmo2.attention.layer_norm_rms_epsilon", 1e-5f);
  w.u32("olmo2.attention.sliding_window", 4096);
  w.tensors.push_back({"token_embd.weight", {16, 8}, 0, std::string(16 * 8 * 4, '\0')});
  TempFolder temp;
  CHECK(has(error_text([&] { open_model(temp.write("m.gguf", w.file())); }),
            "'olmo2.attention.sliding_window' is 4096; windows, as OLMo 3 has them"));
}

}  // namespace
}  // namespace skald::test
