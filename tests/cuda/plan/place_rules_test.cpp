// Tests where the user's rules put weights, and where the other weights go. Needs no GPU.
#include "cuda/plan/place_rules.h"

#include <algorithm>

#include "app/model/weight_rules.h"
#include "cuda/plan/plan.h"
#include "engine/base/size_text.h"
#include "models/random/random.h"
#include "tests/catch.h"
#include "tests/cuda/plan/plans.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

using cuda::Home;
using cuda::Placement;

struct Ruled {
  Model model;
  cuda::FusedProgram fused;

  Ruled(const char* shape, const char* type)
      : model(shape_model(shape, type)), fused(cuda::fuse_program(model.program())) {}

  Placement place(const std::vector<WeightRule>& rules, std::optional<int64_t> room = {},
                  std::optional<double> share = {}) const {
    RunOptions options;
    options.weight_rules = rules;
    return cuda::place_weights(
        fused, {.room = room, .share = share, .rules = cuda::place_rules(fused, options)});
  }
  Placement place(const std::string& rules, std::optional<int64_t> room = {},
                  std::optional<double> share = {}) const {
    return place(rules.empty() ? std::vector<WeightRule>() : parse_weight_rules(rules), room,
                 share);
  }
  MemoryPlan plan(const std::string& rules, int64_t gibibytes, RunOptions options = {}) const {
    options.weight_rules = parse_weight_rules(rules);
    return plan(options, gibibytes);
  }
  MemoryPlan plan(RunOptions options, int64_t gibibytes) const {
    options.memory.bytes = gibibytes << 30;
    return cuda::plan_memory(fused, options, model.config, hopper());
  }
  template <class Op>
  int64_t count(const Placement& placement, Home home) const {
    int64_t count = 0;
    for (size_t i = 0; i < fused.ops.size(); ++i) {
      count += std::holds_alternative<Op>(fused.ops[i].op) && placement.home(i) == home;
    }
    return count;
  }
  std::string refusal(const std::string& rules) const {
    return error_text([&] { place(rules); }, Exit::Usage);
  }
};

}  // namespace

TEST_CASE("all experts leave the GPU, or those of the first layers") {
  const Ruled moe("qwen3-30b-a3b", "q4_k_m");
  const Placement all = moe.place({expert_rule({})}), three = moe.place({expert_rule(3)});
  CHECK(moe.count<cuda::FusedExperts>(all, Home::Streamed) == 48);
  CHECK(all.streamed.size() == 48);
  CHECK(three.streamed.size() == 3);
  CHECK(std::equal(three.streamed.begin(), three.streamed.end(), all.streamed.begin()));
  CHECK(moe.place({expert_rule(99)}).streamed == all.streamed);
  CHECK(moe.place("ffn_.*_exps=CPU").streamed == all.streamed);
  CHECK(moe.place("blk\\.7\\.ffn_up_exps=cpu").streamed.size() == 1);
  CHECK(all.host == all.host_by_rule);
  CHECK(all.device + all.host == moe.place("").device);
  for (size_t op : all.streamed) CHECK(all.ops[op].rule == WeightPlace::Cpu);
  // Each op's copy has memory of its own beside those of its neighbours, as ever.
  CHECK(all.slots >= 2 * all.ops[all.streamed[0]].bytes);
}

TEST_CASE("experts that a rule names have no cache, nor have mapped and ordinary ones") {
  const Ruled moe("qwen3-30b-a3b", "q4_k_m");
  const Placement some = moe.place({expert_rule(3)}, {}, 0.5);
  CHECK(some.caches > 0);
  for (size_t op : some.streamed) {
    if (!std::holds_alternative<cuda::FusedExperts>(moe.fused.ops[op].op)) continue;
    CHECK((some.ops[op].cached > 0) == !some.ops[op].rule);
  }
  for (const HostMemoryKind kind : {HostMemoryKind::Mapped, HostMemoryKind::Pageable}) {
    // Caches without slots have a state, but for mapped experts.
    const int64_t most = kind == HostMemoryKind::Mapped ? 0 : 48 * 4096;
    CHECK(cuda::place_weights(moe.fused, {.share = 0.5, .host = kind}).caches <= most);
    RunOptions options;
    options.host_memory = kind;
    for (const MemoryPart& part : moe.plan(options, 6).parts)
      CHECK(part.name != "cache of experts");
  }
  RunOptions all;
  all.weight_rules = {expert_rule({})};
  for (const MemoryPart& part : moe.plan(all, 2).parts) CHECK(part.name != "cache of experts");
}

TEST_CASE("one matrix of a fused op decides for all, and the first rule decides") {
  const Ruled dense("llama-3.1-8b", "q8_0");
  const Placement keys = dense.place("blk\\.2\\.attn_k=stream");
  REQUIRE(keys.streamed.size() == 1);
  const auto& linear = std::get<cuda::FusedLinear>(dense.fused.ops[keys.streamed[0]].op);
  CHECK(linear.parts.size() == 3);
  CHECK(dense.place("blk\\.2\\.attn_[qkv]=stream,attn=cpu").ops[keys.streamed[0]].rule ==
        WeightPlace::Stream);
  const Placement last = dense.place("blk\\.2\\.attn_q=gpu,attn_[qkv]=cpu");
  CHECK(last.streamed.size() == 31);
  CHECK(last.home(keys.streamed[0]) == Home::Device);
  // The head, norms and biases stay where a rule names everything.
  const Placement none = dense.place(".=cpu");
  CHECK(none.streamed.size() == 4 * 32);
  CHECK(none.home(0) == Home::InPlace);
  CHECK(none.home(dense.fused.ops.size() - 1) == Home::Device);
  CHECK(dense.place(".=stream").streamed == none.streamed);
  const Placement kept = dense.place(".=gpu", 1);
  CHECK(kept.host == 0);
  CHECK(kept.device_by_rule > int64_t{7} << 30);
}

TEST_CASE("what rules leave is placed automatically") {
  const Ruled dense("llama-3.1-8b", "bf16");
  const int64_t all = dense.place("").device;
  const Placement half = dense.place("blk\\.0\\.=gpu,ffn_down=stream", all / 2);
  CHECK(half.on_device() <= all / 2);
  int64_t first_layer = 0, down = 0;
  for (size_t i = 0; i < dense.fused.ops.size(); ++i) {
    const cuda::OpPlace& op = half.ops[i];
    if (op.rule == WeightPlace::Gpu) first_layer += op.home == Home::Device;
    if (op.rule == WeightPlace::Stream) down += op.home == Home::Streamed;
  }
  CHECK(first_layer == 4);
  CHECK(down == 31);
  CHECK(half.host > half.host_by_rule);
  CHECK(std::is_sorted(half.streamed.begin(), half.streamed.end()));
  // A number of layers counts the matrices that no rule names.
  const Placement none = dense.place("ffn_down=gpu", {}, 0);
  CHECK(none.streamed.size() == 3 * 32);
  CHECK(dense.place("ffn_down=stream", {}, 1).streamed.size() == 32);
}

TEST_CASE("a rule that cannot be followed is refused with names of tensors") {
  const Ruled dense("llama-3.1-8b", "bf16"), tied("llama-3.2-1b", "bf16");
  const std::string none = dense.refusal("ffn_upp=cpu");
  CHECK(has(none, "--override-tensor 'ffn_upp=cpu' matches no tensor of this model; "));
  CHECK(has(none, "blk.0.attn_k.weight"));
  CHECK(has(error_text([&] { dense.place({expert_rule({})}); }, Exit::Usage),
            "--cpu-moe matches no tensor"));
  CHECK(has(dense.refusal("^output\\.=cpu"), "(output.weight) cannot leave the GPU's memory"));
  CHECK(has(dense.refusal("attn_norm=stream"), "(blk.0.attn_norm.weight) cannot leave"));
  CHECK(has(tied.refusal("token_embd=cpu"), "(token_embd.weight) cannot leave"));
  CHECK(dense.place("token_embd=stream").home(0) == Home::InPlace);
  CHECK(dense.place("^output=gpu").host == 0);
  const Ruled looped("nanbeige4.2-3b", "bf16");
  CHECK(has(looped.refusal("ffn_up=cpu"), "of a looped model"));
}

TEST_CASE("a plan keeps to the rules, and says what they need") {
  const Ruled moe("qwen3-30b-a3b", "q4_k_m");
  RunOptions experts;
  experts.weight_rules = {expert_rule({})};
  const MemoryPlan plan = moe.plan(experts, 12);
  CHECK(plan.fits());
  CHECK(plan.host() == plan.host_by_rule);
  CHECK(plan.context_by == MemoryPlan::ContextBy::Model);
  CHECK(plan.copied > int64_t{14} << 30);
  CHECK(cuda::has_copies(plan) == false);
  // The executor repeats the plan's placement.
  const Placement placed =
      cuda::planned_step(moe.fused, experts, moe.model.config, plan, hopper()).sizes.placement;
  CHECK(placed.host == plan.host());
  CHECK(placed.on_device() == cuda::weight_room(plan));
  // With less memory, other weights follow.
  const MemoryPlan less = moe.plan(experts, 2);
  CHECK(less.fits());
  CHECK(less.host() > less.host_by_rule);
  // What must stay on the GPU does not fit.
  const MemoryPlan kept = moe.plan("_exps=gpu", 12);
  CHECK(!kept.fits());
  const std::string text = error_text([&] { check_fits(kept, "cuda:0"); }, Exit::Memory);
  CHECK(has(text, concat("; --override-tensor keeps ", size_text(kept.device_by_rule),
                         " of the weights in cuda:0's memory; ")));
  experts.prefill_copy = PrefillCopy::On;
  CHECK(has(error_text([&] { moe.plan(experts, 40); }, Exit::Usage), "--cpu-moe"));
  MemoryPlan host = plan;
  host.host_available = int64_t{8} << 30;
  CHECK(has(error_text([&] { check_fits(host, "cuda:0"); }, Exit::Memory),
            "which --override-tensor or --cpu-moe put there; 8.00 GiB may be used"));
}

TEST_CASE("an op that a rule gives to the CPU is computed there, whatever the speeds are") {
  for (const char* type : {"bf16", "q4_k_m"}) {
    const Ruled dense("llama-3.1-8b", type);
    const Placement placement = dense.place("ffn_down=cpu,ffn_up=stream", {}, 0);
    const auto part = [&](double cpu, double link, bool able) {
      return cuda::host_part(dense.fused, placement,
                             {std::vector<bool>(dense.fused.ops.size(), able), cpu, link});
    };
    const auto ruled = [&](const cuda::HostPart& some, WeightPlace place) {
      return std::count_if(some.ops.begin(), some.ops.end(),
                           [&](size_t op) { return placement.ops[op].rule == place; });
    };
    CHECK(part(1e9, 900e9, true).ops.size() == 32);
    CHECK(ruled(part(1e9, 900e9, true), WeightPlace::Cpu) == 32);
    CHECK(ruled(part(900e9, 1e9, true), WeightPlace::Stream) == 0);
    CHECK(part(900e9, 1e9, true).ops.size() > 90);
    CHECK(part(900e9, 1e9, false).ops.empty());
  }
}

TEST_CASE("mapped weights are read in place, by every step and without slots") {
  for (const char* type : {"bf16", "q4_k_m"}) {
    const Ruled dense("llama-3.1-8b", type);
    const Placement mapped =
        cuda::place_weights(dense.fused, {.share = 0, .host = HostMemoryKind::Mapped});
    const Placement streamed = cuda::place_weights(dense.fused, {.share = 0});
    CHECK(mapped.mapped == streamed.streamed);
    CHECK(mapped.hosted() == streamed.hosted());
    CHECK(mapped.streamed.empty());
    CHECK(mapped.slots == 0);
    CHECK(mapped.device == streamed.device);
    CHECK(mapped.streamed_bytes == streamed.streamed_bytes);
    CHECK(dense.count<cuda::FusedLinear>(mapped, Home::InPlace) == 4 * 32);
    // Nothing runs beside the CPU, so it gets all or nothing.
    const auto part = [&](double cpu) {
      return cuda::host_part(dense.fused, mapped,
                             {std::vector<bool>(dense.fused.ops.size(), true), cpu, 50e9});
    };
    CHECK(part(100e9).bytes == mapped.streamed_bytes);
    CHECK(part(20e9).bytes == 0);
    RunOptions options;
    options.host_memory = HostMemoryKind::Mapped;
    const MemoryPlan plan = dense.plan(options, 3);
    CHECK(plan.fits());
    CHECK(plan.host_memory == HostMemoryKind::Mapped);
    const cuda::PlanSetting setting =
        cuda::planned_step(dense.fused, options, dense.model.config, plan, hopper()).setting;
    CHECK(setting.placement.host == plan.host());
    for (const int rows : {1, 512}) {
      cuda::StepKind kind;
      kind.rows = rows;
      kind.decode = rows == 1;
      kind.depth = rows == 1 ? 512 : 0;
      CHECK(cuda::plan_step(dense.fused, setting, kind).can_be_graph());
    }
  }
  const Ruled moe("qwen3-30b-a3b", "q4_k_m");
  RunOptions options;
  options.host_memory = HostMemoryKind::Mapped;
  options.weight_rules = {expert_rule({})};
  const MemoryPlan experts = moe.plan(options, 12);
  CHECK(experts.host() == experts.host_by_rule);
  CHECK(experts.needed() < moe.plan("_exps=cpu", 12).needed());
}

TEST_CASE("kernels read no ordinary memory: embeddings stay, and experts are copied") {
  const Ruled dense("llama-3.1-8b", "bf16"), moe("qwen3-30b-a3b", "q4_k_m");
  const auto pageable = [](const Ruled& model) {
    return cuda::place_weights(model.fused, {.share = 0, .host = HostMemoryKind::Pageable});
  };
  CHECK(pageable(dense).home(0) == Home::Device);
  CHECK(pageable(dense).streamed.size() == 4 * 32);
  const Placement experts = pageable(moe);
  CHECK(experts.row_bytes == experts.streamed_bytes);
  RunOptions options;
  options.host_memory = HostMemoryKind::Pageable;
  options.weight_rules = parse_weight_rules("token_embd=cpu");
  CHECK(has(error_text([&] { dense.plan(options, 12); }, Exit::Usage),
            "with --host-memory pageable embeddings, "));
  options.weight_rules = {expert_rule({})};
  const MemoryPlan plan = moe.plan(options, 12);
  CHECK(plan.step_bytes(1) == plan.copied);
  const cuda::PlanSetting setting =
      cuda::planned_step(moe.fused, options, moe.model.config, plan, hopper()).setting;
  cuda::StepKind kind;
  kind.rows = 1;
  kind.decode = true;
  kind.depth = 512;
  const cuda::StepPlan step = cuda::plan_step(moe.fused, setting, kind);
  CHECK(step.copies());
  for (const cuda::StepEntry& entry : step.entries) {
    const auto* each = std::get_if<cuda::ExpertsEntry>(&entry.kind);
    CHECK(!(each && each->in_place));
  }
}

TEST_CASE("a plan predicts what steps of several rows read") {
  const Ruled moe("qwen3-30b-a3b", "q4_k_m");
  RunOptions options;
  options.weight_rules = {expert_rule({})};
  options.rows = 2048;
  const MemoryPlan plan = moe.plan(options, 12);
  CHECK(plan.rows == 2048);
  CHECK(plan.copied_experts == plan.copied);
  CHECK(plan.chosen == 8 / 128.0);
  CHECK(plan.step_bytes(1) == plan.row_copied);
  // Two rows share some of their experts.
  CHECK(plan.step_bytes(2) < 2 * plan.step_bytes(1));
  CHECK(plan.step_bytes(2) > plan.step_bytes(1));
  CHECK(plan.step_bytes(64) == plan.copied);
}

}  // namespace skald::test
