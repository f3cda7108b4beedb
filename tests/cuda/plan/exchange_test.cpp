// Checks what the CUDA planner makes of a shard: where its parts are added up. Needs no GPU.
#include "engine/program/shard.h"
#include "models/open.h"
#include "tests/catch.h"
#include "tests/cuda/plan/plans.h"
#include "tests/engine/random_llama.h"
#include "tests/golden.h"

namespace skald::test {

TEST_CASE("a shard's sums are launches of their own, which add to the residual stream") {
  Model model = random_llama({.layers = 1});
  CHECK(fused_text(model.program()) ==
        "embed norm+linear attention linear norm+linear linear norm+linear");
  model.shard = {1, 2};
  CHECK(fused_text(model.program()) ==
        "embed norm+linear attention linear exchange norm+linear linear exchange norm+linear");
  const std::string launches = kernels(model, 1);
  CHECK(launches.find("[256]: all_reduce\n") != std::string::npos);
  CHECK(launches.find("all_gather\n") != std::string::npos);
  // The sizes include mail and the rank's part of the logits only where there are other ranks.
  const cuda::Sizes sizes = sizes_of(model);
  CHECK(sizes.mail > 0);
  CHECK(sizes.logits_part == sizes.logit_rows * 108 * 4);
  model.shard = {};
  CHECK(sizes_of(model).mail == 0);
  CHECK(sizes_of(model).logits_part == 0);
}

TEST_CASE("CUDA has kernels for the shards of every family that it runs") {
  const std::string name = GENERATE(
      "llama-mha", "openllama-headdim100", "llama-bias-linear-rope", "qwen3-qknorm",
      "gemma2-softcap", "phi3-fused", "cohere2", "granite4", "glm4", "exaone4", "starcoder2",
      "mixtral-moe", "olmoe", "qwen2_moe", "gpt_oss", "gpt_oss-bf16", "minimax_m2", "lfm2",
      "muse_glimmer", "glm4_moe", "qwen3_5", "qwen3_5_moe", "qwen3_next", "gemma4-dense",
      "gemma4-moe", "gemma4-ple", "granite4-hybrid", "nemotron_h", "nemotron_h-moe");
  const std::filesystem::path folder = find_golden(name);
  if (folder.empty()) return;
  Model model = open_model(folder).model;
  for (const Shard shard : {Shard{0, 2}, Shard{1, 2}, Shard{2, 3}, Shard{3, 4}}) {
    CAPTURE(name, shard.rank, shard.of);
    model.shard = shard;
    const Program program = model.program();
    const auto exchanges = ops_of<cuda::FusedExchange>(cuda::fuse_program(program));
    CHECK(std::ssize(exchanges) == count_all_reduces(program));
    if (shard.of == 2) CHECK(std::ssize(exchanges) > 0);  // three have no whole block each
  }
}

}  // namespace skald::test
