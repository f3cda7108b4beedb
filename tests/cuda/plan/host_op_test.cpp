// Fused ops that the CPU computes for a GPU: from the same inputs, the same results as in a model
// that runs on the CPU alone. Needs no GPU.
#include "cuda/plan/host_op.h"

#include <cmath>
#include <map>

#include "cuda/plan/step_plan.h"
#include "engine/cpu/executor.h"
#include "engine/cpu/plan.h"
#include "engine/cpu/row_ops.h"
#include "models/convert/quantized.h"
#include "models/open.h"
#include "models/random/random.h"
#include "tests/catch.h"
#include "tests/cuda/plan/plans.h"
#include "tests/engine/random_llama.h"
#include "tests/golden.h"

namespace skald::test {
namespace {

using Buffers = std::map<ActId, std::vector<float>>;

// What all buffers hold before each op of a step, and in the end.
std::vector<Buffers> run_observed(const Model& model, const RunOptions& options) {
  const auto executor = cpu::make_executor(model, options);
  const Program& program = executor->program();
  std::vector<Buffers> before(1);
  executor->observe([&](const OpOutput& output) {
    Buffers next = before.back();
    const ActId* act = op_output(program.ops[output.op]);
    next[*act].assign(output.values.begin(), output.values.end());
    before.push_back(std::move(next));
  });
  const std::vector<int32_t> tokens = {1, 5, 9, 12, 3};
  Sequence sequence = executor->new_sequence();
  const SeqRows rows{&sequence, tokens, Want::Nothing};
  executor->run({&rows, 1});
  return before;
}

void run_range(cpu::RowOps& ops, const Program& program, const cuda::HostOp& host, int64_t rows) {
  for (size_t i = host.first; i < host.end; ++i) {
    std::visit(
        [&](const auto& op) {
          constexpr bool kRuns = cpu::kIsRowOp<std::decay_t<decltype(op)>>;
          CHECK(kRuns);
          if constexpr (kRuns) ops.run(op, rows);
        },
        program.ops[i]);
  }
}

// Returns how many of the model's products and experts the CPU can compute, and of how many.
std::pair<int, int> check_host_ops(const Model& model) {
  RunOptions options;
  options.rows = 8;
  options.context = 64;
  const std::vector<Buffers> before = run_observed(model, options);
  const cuda::FusedProgram fused = cuda::fuse_program(model.program());
  const auto kernels = cpu::fast_kernels(cpu::kernel_options(fused.program, options));
  cpu::RowOps ops(fused.program, *kernels, options.rows);
  int able = 0, all = 0;
  for (size_t i = 0; i + 1 < fused.ops.size(); ++i) {
    const auto& op = fused.ops[i].op;
    all += std::holds_alternative<cuda::FusedLinear>(op) ||
           std::holds_alternative<cuda::FusedExperts>(op);
    const auto host = cuda::host_op(fused, i);
    if (!host) continue;
    ++able;
    CAPTURE(i);
    int64_t rows = 0;
    for (ActId in : host->in) {
      const std::vector<float>& values = before.at(host->first).at(in);
      rows = std::ssize(values) / fused.program.act(in).cols;
      std::copy(values.begin(), values.end(), ops.data(in));
    }
    run_range(ops, fused.program, *host, rows);
    for (const auto& out : host->out) {
      for (ActId part : out.parts) {
        const std::vector<float>& expected = before.at(host->end).at(part);
        CHECK(std::equal(expected.begin(), expected.end(), ops.data(part)));
      }
    }
  }
  return {able, all};
}

}  // namespace

TEST_CASE("products and experts get all that they read, and leave all that is read later") {
  for (const char* name :
       {"llama-mha", "llama3-gqa-tied-ropescale", "qwen2-bias-tied", "gemma2-softcap", "phi3-fused",
        "mixtral-moe", "gemma4-dense", "gemma4-moe", "qwen2_moe", "gpt_oss-bf16", "muse_glimmer"}) {
    const std::filesystem::path folder = find_golden(name);
    if (folder.empty()) continue;
    CAPTURE(name);
    // Some folders have rows in another order, which are read once for the CPU.
    const auto [able, all] = check_host_ops(made_model(open_model(folder).model, {}));
    std::printf("%s: the CPU can compute %d of %d products and experts\n", name, able, all);
    CHECK(able > 0);
  }
  const auto [able, all] = check_host_ops(random_llama({.type = DType::BF16}));
  CHECK(able == all);
  const auto [experts_able, experts_all] =
      check_host_ops(random_llama({.type = DType::BF16, .experts = {8, 2, 512, true, {}}}));
  CHECK(experts_able == experts_all);
}

TEST_CASE("the CPU gets the share of products that it reads while the link copies the others") {
  const Model model = shape_model("llama-3.1-8b", "bf16");
  const cuda::FusedProgram fused = cuda::fuse_program(model.program());
  cuda::PlanSetting setting;
  setting.gpu = {90, 132};
  setting.bounds = cuda::assumed_bounds(fused);
  setting.dependent = true;
  setting.placement = cuda::place_weights(fused, {.room = {}, .share = 0});
  setting.host.able.assign(fused.ops.size(), true);
  setting.host.cpu = 90e9;
  setting.host.link = 45e9;
  const auto bytes = [&](const cuda::StepPlan& plan, auto entry) {
    int64_t sum = 0;
    for (const cuda::StepEntry& each : plan.entries) {
      if (std::holds_alternative<decltype(entry)>(each.kind)) {
        sum += setting.placement.ops[each.op].bytes;
      }
    }
    return static_cast<double>(sum);
  };
  cuda::StepKind kind;
  kind.decode = true;
  kind.depth = 512;
  for (kind.rows = 1; kind.rows <= cuda::kMostHostRows; ++kind.rows) {
    const cuda::StepPlan plan = cuda::plan_step(fused, setting, kind);
    const double host = bytes(plan, cuda::HostEntry()), copied = bytes(plan, cuda::AwaitEntry());
    CHECK(host + copied == static_cast<double>(setting.placement.streamed_bytes));
    CHECK(std::abs(host / (host + copied) - 1 / 1.6) < 0.02);
    CHECK(plan.waits);
    CHECK(!plan.can_be_graph());
  }
  const cuda::StepPlan many = cuda::plan_step(fused, setting, kind);
  CHECK(bytes(many, cuda::HostEntry()) == 0);
  CHECK(!many.waits);
}

TEST_CASE("of experts on the host, link and CPU have a part each") {
  const Model model = shape_model("qwen3-30b-a3b", "q4_k_m");
  const cuda::FusedProgram fused = cuda::fuse_program(model.program());
  cuda::PlanSetting setting;
  setting.gpu = {90, 132};
  setting.bounds = cuda::assumed_bounds(fused);
  setting.dependent = true;
  setting.placement = cuda::place_weights(fused, {.room = int64_t{6} << 30});
  setting.host = {std::vector<bool>(fused.ops.size(), true), 90e9, 54e9};
  cuda::StepKind kind;
  kind.decode = true;
  kind.depth = 512;
  const auto entries = [&](double copied) {
    int caches = 0, parts = 0;
    for (const cuda::StepEntry& entry : cuda::plan_step(fused, setting, kind).entries) {
      const bool whole = std::holds_alternative<cuda::HostEntry>(entry.kind);
      CHECK(!(whole && std::holds_alternative<cuda::FusedExperts>(fused.ops[entry.op].op)));
      parts += std::holds_alternative<cuda::HostExpertsEntry>(entry.kind);
      const auto* cache = std::get_if<cuda::CacheEntry>(&entry.kind);
      if (!cache) continue;
      ++caches;
      CHECK(cache->copied == Approx(copied));
      CHECK(cache->for_cpu == (copied < 1));
    }
    return std::pair(caches, parts);
  };
  for (kind.rows = 1; kind.rows <= cuda::kMostSharedRows; ++kind.rows) {
    CHECK(entries(0.6 / 1.6) == std::pair(48, 48));
  }
  CHECK(entries(1) == std::pair(48, 0));  // too many rows for the CPU
  // Without slots too: the GPU reads its part on the host.
  const cuda::Placement some = setting.placement;
  setting.placement = cuda::place_weights(fused, {.room = {}, .share = 0});
  kind.rows = 1;
  CHECK(entries(0.6 / 1.6) == std::pair(48, 48));
  setting.placement = some;
  kind.rows = 1;
  setting.host.cpu = 4e9;
  CHECK(entries(1) == std::pair(48, 0));  // the link alone is as fast
  const cuda::StepPlan plan = cuda::plan_step(fused, setting, kind);
  CHECK(plan.can_be_graph());
  CHECK(!plan.waits);
  // Kernels for float32 know no slots: then the CPU computes all of a layer's experts.
  setting.host.cpu = 90e9;
  const Model floats = random_llama({.type = DType::F32, .experts = {32, 2, 512, true, {}}});
  const cuda::FusedProgram small = cuda::fuse_program(floats.program());
  setting.bounds = cuda::assumed_bounds(small);
  setting.placement = cuda::place_weights(small, {.room = {}, .share = 0.5});
  setting.host.able.assign(small.ops.size(), true);
  int whole = 0;
  for (const cuda::StepEntry& entry : cuda::plan_step(small, setting, kind).entries) {
    CHECK(!std::holds_alternative<cuda::CacheEntry>(entry.kind));
    whole += std::holds_alternative<cuda::HostEntry>(entry.kind);
  }
  CHECK(whole == 2);
}

TEST_CASE("speeds that differ a little give the CPU the same ops") {
  const Model model = shape_model("llama-3.1-8b", "bf16");
  const cuda::FusedProgram fused = cuda::fuse_program(model.program());
  const cuda::Placement placement = cuda::place_weights(fused, {.room = {}, .share = 0});
  cuda::HostShare share = {std::vector<bool>(fused.ops.size(), true), 90e9, 54e9};
  const auto part = [&](double cpu) {
    share.cpu = cpu;
    return cuda::host_part(fused, placement, share);
  };
  CHECK(part(79e9).ops == part(101e9).ops);
  CHECK(part(75e9).ops == part(90e9).ops);
  CHECK(part(20e9).bytes < part(90e9).bytes);
  CHECK(part(400e9).bytes > part(90e9).bytes);
  share.link = 0;  // all
  CHECK(part(1).bytes == placement.streamed_bytes);
  share.able.clear();
  CHECK(part(90e9).ops.empty());
}

TEST_CASE("no launch leaves anything for an op that the CPU computes") {
  for (const char* type : {"bf16", "q4_k_m"}) {
    const Model model = shape_model("llama-3.1-8b", type);
    const cuda::FusedProgram fused = cuda::fuse_program(model.program());
    cuda::PlanSetting setting;
    setting.gpu = {90, 132};
    setting.bounds = cuda::assumed_bounds(fused);
    setting.dependent = true;
    setting.attention = cuda::AttentionCode::Wgmma;
    setting.placement = cuda::place_weights(fused, {.room = {}, .share = 0.3});
    setting.host.able.assign(fused.ops.size(), true);
    setting.host.cpu = setting.host.link = 50e9;
    cuda::StepKind kind;
    kind.decode = true;
    kind.depth = 512;
    for (kind.rows = 1; kind.rows <= cuda::kMostHostRows; ++kind.rows) {
      const cuda::StepPlan plan = cuda::plan_step(fused, setting, kind);
      CHECK(plan.waits);
      for (const cuda::StepEntry& entry : plan.entries) {
        if (!std::holds_alternative<cuda::HostEntry>(entry.kind)) continue;
        CHECK(entry.takes.empty());
        CHECK(entry.leaves.empty());
      }
    }
  }
}

}  // namespace skald::test
