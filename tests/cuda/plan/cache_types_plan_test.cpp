// How GPUs compute with a KV cache whose types are not the activations'. Needs no GPU.
#include "cuda/plan/plan.h"
#include "cuda/plan/plan_text.h"
#include "cuda/plan/step_plan.h"
#include "tests/catch.h"
#include "tests/cuda/plan/plans.h"
#include "tests/engine/random_llama.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

struct CachePlan {
  cuda::FusedProgram fused;
  cuda::PlanSetting setting;
  cuda::Sizes sizes;
};

CachePlan cache_plan(const Model& model, const CacheTypeRequest& types, int capability = 90) {
  cuda::FusedProgram fused = cuda::fuse_program(model.program());
  RunOptions options;
  options.rows = 512;
  options.context = 4096;
  options.cache_types = types;
  cuda::DeviceInfo gpu = hopper();
  gpu.compute_capability = capability;
  const MemoryPlan memory = cuda::plan_memory(fused, options, model.config, gpu);
  cuda::PlannedStep step = cuda::planned_step(fused, options, model.config, memory, gpu);
  return {std::move(fused), std::move(step.setting), std::move(step.sizes)};
}

// The launches of the first layer's attention.
std::string attention_text(const CachePlan& p, const cuda::StepKind& kind) {
  const cuda::StepPlan plan = cuda::plan_step(p.fused, p.setting, kind);
  for (size_t op = 0; op < p.fused.ops.size(); ++op) {
    if (std::holds_alternative<cuda::FusedAttention>(p.fused.ops[op].op)) {
      return cuda::launches_text(p.fused, plan, op);
    }
  }
  return "";
}

cuda::StepKind cache_step(int rows, bool decode, bool several = false) {
  cuda::StepKind kind;
  kind.rows = rows;
  kind.decode = decode;
  kind.several = several;
  kind.depth = 1024;
  return kind;
}

CacheTypeRequest both(CacheType type) { return {type, type}; }

Model model_of(int head_dim) {
  RandomLlama shape;
  shape.type = DType::BF16;
  shape.head_dim = head_dim;
  shape.context = 4096;
  return random_llama(shape);
}

}  // namespace

TEST_CASE("decode reads codes of one type; other steps go by way of a plain cache") {
  const Model model = model_of(64);
  for (const CacheType type : {CacheType::Q8_0, CacheType::FP8, CacheType::Q4_0}) {
    const CachePlan p = cache_plan(model, both(type));
    CHECK(attention_text(p, cache_step(1, true)) == "attention_decode_codes_sm90");
    CHECK(attention_text(p, cache_step(4, true, true)) ==
          "rope_append + encode_cache + attention_decode_codes_sm90");
    CHECK(attention_text(p, cache_step(100, false)) ==
          "rope_append + encode_cache + decode_cache + attention_prefill_sm90");
  }
  for (const CacheTypeRequest& types :
       {both(CacheType::F32), both(CacheType::F16),
        CacheTypeRequest{CacheType::Q8_0, CacheType::Q4_0},
        CacheTypeRequest{CacheType::Q8_0, CacheType::FP8}, CacheTypeRequest{CacheType::Q8_0, {}}}) {
    CHECK(attention_text(cache_plan(model, types), cache_step(1, true)) ==
          "rope_append + encode_cache + decode_cache + attention_decode");
  }
}

TEST_CASE("heads and GPUs without a kernel for codes go by way of a plain cache") {
  const CacheTypeRequest bytes = both(CacheType::Q8_0);
  CHECK(attention_text(cache_plan(model_of(96), bytes), cache_step(1, true)) ==
        "rope_append + encode_cache + decode_cache + attention_decode");
  CHECK(attention_text(cache_plan(model_of(64), bytes, 80), cache_step(1, true)) ==
        "rope_append + encode_cache + decode_cache + attention_decode");
  CHECK(attention_text(cache_plan(model_of(64), bytes, 75), cache_step(1, true)) ==
        "rope_append + encode_cache + decode_cache + attention_plain");
}

TEST_CASE("a cache of codes has a plain one of one layer beside it") {
  const Model model = model_of(64);
  const cuda::Sizes plain = cache_plan(model, both(CacheType::BF16)).sizes;
  CHECK(plain.plain_page == 0);
  CHECK(attention_text(cache_plan(model, both(CacheType::BF16)), cache_step(1, true)) ==
        "attention_decode");
  const cuda::Sizes codes = cache_plan(model, both(CacheType::Q8_0)).sizes;
  CHECK(codes.plain_page == plain.page / 2);  // two layers
  CHECK(codes.page * 32 == plain.page * 17);  // 34 bytes for 32 numbers of 2
  CHECK(codes.plain_cache() == codes.plain_page * codes.pages);
  CHECK(error_text([&] { cache_plan(model_of(80), both(CacheType::Q8_0)); }, Exit::Usage)
            .find("80") != std::string::npos);
}

}  // namespace skald::test
