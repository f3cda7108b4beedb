// An expert that every row has can be one more of the chosen experts in a step of one row. Needs no
// GPU.
#include "cuda/plan/plan.h"
#include "cuda/plan/step_plan.h"
#include "models/random/random.h"
#include "tests/catch.h"
#include "tests/cuda/plan/plans.h"
#include "tests/engine/random_llama.h"

namespace skald::test {
namespace {

constexpr const char* kJoined =
    "router in gemv_q_experts_sm90 + gemv_q_experts_sm90 (sum), shared expert\n";

RandomLlama with_shared(int64_t shared_dim, bool gate) {
  RandomLlama shape;
  shape.type = DType::Q8_0;
  shape.experts = {8, 2, 256, true, {}, shared_dim, gate};
  return shape;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// What a step of one row launches for the ops of the shared expert.
int launches_of_shared(const cuda::FusedProgram& fused, const cuda::StepPlan& plan) {
  int count = 0;
  for (const cuda::StepEntry& entry : plan.entries) {
    for (size_t back = 1; back <= 3 && back <= entry.op; ++back) {
      const auto* experts = std::get_if<cuda::FusedExperts>(&fused.ops[entry.op - back].op);
      count += experts && back <= experts->shared_ops;
    }
  }
  return count;
}

}  // namespace

TEST_CASE("the shared expert of one row is one more of the chosen experts") {
  for (const bool gate : {false, true}) {
    const Model model = random_llama(with_shared(256, gate));
    const auto experts = ops_of<cuda::FusedExperts>(cuda::fuse_program(model.program()));
    REQUIRE(experts.size() == 2);
    CHECK(experts[0].shared_ops == (gate ? 3 : 2));
    const std::string one = kernels(model, 1), two = kernels(model, 2);
    CHECK(has(one, kJoined));
    CHECK(has(one, "ffn_gate_shexp ffn_up_shexp [512, 256] Q8_0: -\n"));
    CHECK(has(one, "ffn_down_shexp [256, 256] Q8_0: -\n"));
    CHECK(has(one, "row_gate") == false);
    CHECK(has(two, "ffn_down_shexp [256, 256] Q8_0: gemm_q_sm90\n"));
    CHECK(has(two, "row_gate") == gate);
  }
}

TEST_CASE("models with a shared expert of the same size get it in one launch") {
  for (const char* name : {"qwen3.5-35b-a3b", "qwen3-next-80b-a3b", "glm-4.7-flash"}) {
    INFO(name);
    CHECK(has(kernels(shape_model(name, "q4_k_m"), 1), kJoined));
  }
  CHECK_FALSE(has(kernels(shape_model("qwen1.5-moe-a2.7b", "q4_k_m"), 1), kJoined));
}

TEST_CASE("a shared expert stays apart where it cannot be one of the chosen experts") {
  // Another width.
  CHECK(has(kernels(random_llama(with_shared(512, true)), 1), "row_gate"));
  // 16 bits: another kernel.
  RandomLlama plain = with_shared(256, true);
  plain.type = DType::BF16;
  CHECK(has(kernels(random_llama(plain), 1), "row_gate"));
  // More experts than a warp has lanes.
  RandomLlama many = with_shared(256, true);
  many.experts.count = many.experts.used = 32;
  CHECK(has(kernels(random_llama(many), 1), "row_gate"));
  many.experts.used = 31;
  CHECK(has(kernels(random_llama(many), 1), kJoined));
}

TEST_CASE("where an observer reads each op's result, the shared expert has launches of its own") {
  const Model model = random_llama(with_shared(256, true));
  const cuda::FusedProgram fused = cuda::fuse_program(model.program());
  RunOptions options;
  options.rows = 512;
  const MemoryPlan memory = cuda::plan_memory(fused, options, model.config, hopper());
  const cuda::PlanSetting setting =
      cuda::planned_step(fused, options, model.config, memory, hopper()).setting;
  cuda::StepKind kind;
  kind.rows = 1;
  CHECK(launches_of_shared(fused, cuda::plan_step(fused, setting, kind)) == 0);
  kind.observed = true;
  CHECK(launches_of_shared(fused, cuda::plan_step(fused, setting, kind)) == 2 * 3);
}

}  // namespace skald::test
