// Tests where weights lie if a GPU's memory is too small for them, and when they are copied. Needs
// no GPU.
#include "cuda/plan/place.h"

#include <algorithm>
#include <random>

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
using cuda::StepKind;

cuda::FusedProgram fused_shape(const char* shape, const char* type) {
  return cuda::fuse_program(shape_model(shape, type).program());
}

// What the slots hold, byte range by byte range: which op's matrices.
class Slots {
 public:
  explicit Slots(const Placement& placement) : placement_(placement) {}

  // The copy of `op` begins: what it overwrites is gone.
  void copy(size_t op) {
    std::erase_if(held_, [&](size_t other) { return overlap(op, other); });
    held_.push_back(op);
  }
  bool holds(size_t op) const { return std::count(held_.begin(), held_.end(), op) > 0; }

 private:
  bool overlap(size_t a, size_t b) const {
    const cuda::OpPlace &x = placement_.ops[a], &y = placement_.ops[b];
    return x.slot < y.slot + y.bytes && y.slot < x.slot + x.bytes;
  }

  const Placement& placement_;
  std::vector<size_t> held_;
};

// Runs a plan as cuda/run does, with copies that end as early as they can: at once. So a copy that
// begins too early destroys what an op still reads.
void run_steps(const cuda::StepPlan& plan, const Placement& placement) {
  Slots slots(placement);
  for (size_t op : plan.begun) slots.copy(op);
  size_t awaited = placement.ops.size();
  for (int step = 0; step < 3; ++step) {
    std::vector<size_t> copied = plan.begun;
    for (const cuda::StepEntry& entry : plan.entries) {
      if (const auto* copy = std::get_if<cuda::CopyEntry>(&entry.kind)) {
        slots.copy(copy->op);
        copied.push_back(copy->op);
        continue;
      }
      if (std::holds_alternative<cuda::AwaitEntry>(entry.kind)) {
        CHECK(std::count(copied.begin(), copied.end(), entry.op) > 0);
        CHECK(slots.holds(entry.op));
        awaited = entry.op;
        continue;
      }
      if (entry.op == awaited) CHECK(slots.holds(entry.op));
    }
    // Each streamed op is copied once for each step, and the first ones for the next step.
    CHECK(std::vector<size_t>(copied.end() - std::ssize(plan.begun), copied.end()) == plan.begun);
  }
}

struct PlacedModel {
  Model model;
  cuda::FusedProgram fused;
  cuda::PlanSetting setting;
  MemoryPlan memory;

  PlacedModel(const char* shape, const char* type, int64_t bytes, RunOptions options = {})
      : model(shape_model(shape, type)), fused(cuda::fuse_program(model.program())) {
    options.memory.bytes = bytes;
    memory = cuda::plan_memory(fused, options, model.config, hopper());
    setting = cuda::planned_step(fused, options, model.config, memory, hopper()).setting;
  }
  cuda::StepPlan plan(int rows, bool decode) const {
    StepKind kind;
    kind.rows = rows;
    kind.decode = decode;
    kind.depth = decode ? 512 : 0;
    return cuda::plan_step(fused, setting, kind);
  }
};

int64_t gibibytes(double count) { return static_cast<int64_t>(count * 0x1p30); }

}  // namespace

TEST_CASE("weights fill the room that is there") {
  const cuda::FusedProgram fused = fused_shape("llama-3.1-8b", "bf16");
  const Placement all = cuda::place_weights(fused, {});
  CHECK(all.host == 0);
  CHECK(all.slots == 0);
  CHECK(cuda::place_weights(fused, {.room = all.device}).host == 0);
  for (const double share : {0.9, 0.7, 0.5, 0.3, 0.2}) {
    CAPTURE(share);
    const auto room = static_cast<int64_t>(share * static_cast<double>(all.device));
    const Placement placement = cuda::place_weights(fused, {.room = room});
    CHECK(placement.device + placement.slots <= room);
    CHECK(placement.device + placement.slots >= room - (int64_t{256} << 20));
    CHECK(placement.device + placement.host == all.device);
    // With the room that it takes, the placement is the same.
    const Placement again =
        cuda::place_weights(fused, {.room = placement.device + placement.slots});
    CHECK(again.streamed == placement.streamed);
  }
}

TEST_CASE("the embedding leaves the GPU first, because a step reads few of its rows") {
  const cuda::FusedProgram fused = fused_shape("llama-3.1-8b", "bf16");
  const Placement all = cuda::place_weights(fused, {});
  const Placement placement = cuda::place_weights(fused, {.room = all.device - (1 << 20)});
  CHECK(placement.home(0) == Home::InPlace);
  CHECK(placement.host == int64_t{128256} * 4096 * 2);
  CHECK(!placement.streams());
  // A head that shares the matrix reads all of it.
  const cuda::FusedProgram tied = fused_shape("llama-3.2-1b", "bf16");
  const int64_t bytes = cuda::place_weights(tied, {}).device;
  CHECK(cuda::place_weights(tied, {.room = bytes / 2}).home(0) == Home::Device);
}

TEST_CASE("without enough room the placement needs the least") {
  const cuda::FusedProgram fused = fused_shape("llama-3.1-8b", "bf16");
  const Placement least = cuda::place_weights(fused, {.room = 1});
  CHECK(least.streamed.size() == 4 * 32);  // per layer: q k v, o, gate and up, down
  // The slots take at least gate and up, down, and q, k and v; the head stays.
  CHECK(least.slots >= (int64_t{3} * 14336 + 6144) * 4096 * 2);
  CHECK(least.slots <= (int64_t{4} * 14336) * 4096 * 2);
  CHECK(least.home(fused.ops.size() - 1) == Home::Device);
}

TEST_CASE("a number of layers is a share of the layers' weights") {
  const cuda::FusedProgram fused = fused_shape("llama-3.1-8b", "q4_0");
  const Placement none = cuda::place_weights(fused, {.room = {}, .share = 0});
  const Placement half = cuda::place_weights(fused, {.room = {}, .share = 0.5});
  CHECK(none.streamed.size() == 4 * 32);
  CHECK(
      std::abs(static_cast<double>(half.streamed_bytes) / static_cast<double>(none.streamed_bytes) -
               0.5) < 0.01);
  CHECK(cuda::place_weights(fused, {.room = {}, .share = 1}).host == 0);
}

TEST_CASE("a looped model's layers stay, because each loop would copy them again") {
  const cuda::FusedProgram fused = fused_shape("nanbeige4.2-3b", "bf16");
  const Placement placement = cuda::place_weights(fused, {.room = 1});
  const std::vector<size_t>& first = fused.first_with_weights;
  for (size_t op : placement.streamed) CHECK(std::count(first.begin(), first.end(), op) == 1);
}

TEST_CASE("no copy destroys what an op still reads") {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    Placement placement;
    const int count = std::uniform_int_distribution(1, 9)(random);
    std::vector<size_t> some;
    for (int i = 0; i < count; ++i) {
      const int64_t bytes = 256 * std::uniform_int_distribution(1, 40)(random);
      placement.ops.push_back({Home::Streamed, bytes});
      placement.streamed.push_back(static_cast<size_t>(i));
      if (std::uniform_int_distribution(0, 2)(random) > 0) some.push_back(static_cast<size_t>(i));
    }
    cuda::place_slots(placement);
    for (const std::vector<size_t>& ops : {placement.streamed, some}) {
      Slots slots(placement);
      const std::vector<cuda::CopyTime> times = cuda::copy_times(placement, ops);
      REQUIRE(times.size() == ops.size());
      for (const cuda::CopyTime& time : times) {
        if (time.ahead) slots.copy(time.op);
      }
      for (int step = 0; step < 3; ++step) {
        for (size_t op : ops) {
          CHECK(slots.holds(op));
          for (const cuda::CopyTime& time : times) {
            if (time.after == op) slots.copy(time.op);
          }
        }
      }
    }
  }
}

TEST_CASE("three streamed ops that follow one another never share memory") {
  const PlacedModel placed("llama-3.1-8b", "bf16", gibibytes(6));
  const Placement& placement = placed.setting.placement;
  REQUIRE(placement.streamed.size() > 4);
  for (size_t i = 0; i + 2 < placement.streamed.size(); ++i) {
    const cuda::OpPlace& one = placement.ops[placement.streamed[i]];
    for (size_t after : {i + 1, i + 2}) {
      const cuda::OpPlace& next = placement.ops[placement.streamed[after]];
      CHECK((one.slot + one.bytes <= next.slot || next.slot + next.bytes <= one.slot));
    }
  }
}

TEST_CASE("a step of a model with streamed weights awaits each copy and begins the next ones") {
  for (const char* type : {"bf16", "q4_k_m"}) {
    const PlacedModel placed("llama-3.1-8b", type, gibibytes(type[0] == 'b' ? 8 : 3));
    const Placement& placement = placed.setting.placement;
    REQUIRE(placement.streams());
    for (const bool decode : {true, false}) {
      const cuda::StepPlan plan = placed.plan(decode ? 1 : 512, decode);
      CHECK(plan.begun.size() >= 2);
      run_steps(plan, placement);
      size_t awaits = 0, copies = 0;
      for (size_t i = 0; i < plan.entries.size(); ++i) {
        const cuda::StepEntry& entry = plan.entries[i];
        copies += std::holds_alternative<cuda::CopyEntry>(entry.kind);
        if (!std::holds_alternative<cuda::AwaitEntry>(entry.kind)) continue;
        ++awaits;
        // A kernel reads weights before it waits for its predecessor.
        CHECK(!plan.entries.at(i + 1).dependent);
      }
      CHECK(awaits == placement.streamed.size());
      CHECK(copies == placement.streamed.size());
    }
    StepKind head;
    head.rows = 1;
    head.head = true;
    CHECK(!cuda::plan_step(placed.fused, placed.setting, head).copies());
  }
}

TEST_CASE("few rows read their experts in place, many rows copy all") {
  const PlacedModel placed("qwen3-30b-a3b", "q4_k_m", gibibytes(6));
  const Placement& placement = placed.setting.placement;
  REQUIRE(placement.streams());
  const auto in_place = [](const cuda::StepPlan& plan) {
    return std::count_if(plan.entries.begin(), plan.entries.end(), [](const cuda::StepEntry& e) {
      const auto* experts = std::get_if<cuda::ExpertsEntry>(&e.kind);
      return experts && experts->in_place;
    });
  };
  const cuda::StepPlan one = placed.plan(1, true), many = placed.plan(2048, false);
  CHECK(in_place(one) > 40);
  CHECK(in_place(many) == 0);
  const auto caches = [](const cuda::StepPlan& plan) {
    return std::count_if(plan.entries.begin(), plan.entries.end(), [](const cuda::StepEntry& e) {
      return std::holds_alternative<cuda::CacheEntry>(e.kind);
    });
  };
  CHECK(caches(one) == 48);
  CHECK(caches(many) == 0);
  CHECK(many.begun.size() >= 2);
  CHECK(!one.copies());  // so the step can be a graph
  for (size_t op : placement.streamed) {
    CHECK(std::holds_alternative<cuda::FusedExperts>(placed.fused.ops[op].op));
  }
  run_steps(one, placement);
  run_steps(many, placement);
}

TEST_CASE("experts that fit are a cache of those on the host") {
  const cuda::FusedProgram fused = fused_shape("qwen3-30b-a3b", "q4_k_m");
  const Placement all = cuda::place_weights(fused, {});
  int most = 0;
  for (const double part : {0.9, 0.5, 0.3}) {
    CAPTURE(part);
    const auto room = static_cast<int64_t>(part * static_cast<double>(all.device));
    const Placement placement = cuda::place_weights(fused, {.room = room});
    CHECK(placement.on_device() <= room);
    CHECK(placement.on_device() >= room - (int64_t{256} << 20));
    int fewest = 128;
    int64_t slots = 0;
    for (size_t op : placement.streamed) {
      const cuda::OpPlace& place = placement.ops[op];
      CHECK(place.cache == slots);
      slots += place.bytes / 128 * place.cached;
      fewest = std::min(fewest, place.cached);
      most = std::max(most, place.cached);
    }
    CHECK(placement.streamed.size() == 48);
    CHECK(most - fewest <= 1);  // the same of each layer
    CHECK(placement.caches > slots);
    CHECK(placement.caches - slots < 48 * 4096);  // the states
    // What the caches have is not copied.
    CHECK(std::abs(placement.streamed_bytes - (placement.host - slots)) < (int64_t{1} << 30));
    most = 0;
  }
  // Without caches each expert lies in one place alone.
  const Placement apart =
      cuda::place_weights(fused, {.room = all.device / 2, .share = {}, .caches = false});
  CHECK(apart.caches < 48 * 4096);  // states of caches without slots
  CHECK(apart.device + apart.host == all.device);
  CHECK(apart.streamed.size() < 48);
}

TEST_CASE("a host without room for all experts has those that the GPU does not") {
  cuda::DeviceInfo gpu = hopper();
  gpu.total_bytes = gpu.free_bytes = int64_t{8} << 30;
  const Model model = shape_model("qwen3-30b-a3b", "q4_k_m");
  gpu.host_bytes = int64_t{32} << 30;
  const MemoryPlan cached = cuda::plan_memory(model, RunOptions(), gpu);
  gpu.host_bytes = cached.host() - 1;
  const MemoryPlan apart = cuda::plan_memory(model, RunOptions(), gpu);
  CHECK(cached.fits());
  CHECK(cached.cached > int64_t{2} << 30);
  CHECK(apart.cached == 0);
  CHECK(apart.fits());
  CHECK(apart.host() < cached.host() - (int64_t{2} << 30));
}

TEST_CASE("weights leave the GPU only where they must") {
  // With all weights on the GPU, a context that is asked for does not fit.
  RunOptions options;
  CHECK(PlacedModel("llama-3.1-8b", "bf16", gibibytes(24)).memory.host() == 0);
  options.context = 131072;
  const MemoryPlan longer = PlacedModel("llama-3.1-8b", "bf16", gibibytes(24), options).memory;
  CHECK(longer.fits());
  CHECK(longer.host() > 0);
  CHECK(longer.context == 131072);

  const MemoryPlan small = PlacedModel("llama-3.1-8b", "bf16", gibibytes(8)).memory;
  CHECK(small.fits());
  CHECK(small.context == 4096);
  CHECK(small.context_by == MemoryPlan::ContextBy::Weights);
  CHECK(small.needed() <= gibibytes(8));
  CHECK(small.host() > gibibytes(8));
  CHECK(small.copied > gibibytes(7));
  CHECK(small.copied < small.host());

  RunOptions all;
  all.gpu_layers = kAllLayers;
  CHECK(!PlacedModel("llama-3.1-8b", "bf16", gibibytes(8), all).memory.fits());
  // More layers than there are: what fits, as with auto.
  RunOptions many;
  many.gpu_layers = 99;
  const MemoryPlan as_auto = PlacedModel("llama-3.1-8b", "bf16", gibibytes(80), many).memory;
  CHECK(as_auto.host() == 0);
  CHECK(as_auto.context == PlacedModel("llama-3.1-8b", "bf16", gibibytes(80)).memory.context);
  CHECK(PlacedModel("llama-3.1-8b", "bf16", gibibytes(8), many).memory.host() == small.host());
  // A 16-bit copy that is asked for is never left out.
  RunOptions copy;
  copy.prefill_copy = PrefillCopy::On;
  CHECK(!PlacedModel("llama-3.1-8b", "q8_0", gibibytes(20), copy).memory.fits());
  copy.gpu_layers = 8;
  CHECK(has(
      error_text([&] { PlacedModel("llama-3.1-8b", "q8_0", gibibytes(40), copy); }, Exit::Usage),
      "--prefill-copy on"));
  RunOptions sixteen;
  sixteen.gpu_layers = 16;
  const MemoryPlan half = PlacedModel("llama-3.1-8b", "bf16", gibibytes(40), sixteen).memory;
  CHECK(half.copied > gibibytes(6));
  CHECK(half.copied < gibibytes(7));
}

TEST_CASE("a model that fits neither the GPU nor the host is refused with both numbers") {
  const Model model = shape_model("llama-3.1-70b", "bf16");
  cuda::DeviceInfo gpu = hopper();
  gpu.total_bytes = gpu.free_bytes = int64_t{80} << 30;
  gpu.host_bytes = int64_t{32} << 30;
  const MemoryPlan plan = cuda::plan_memory(model, RunOptions(), gpu);
  CHECK(!plan.fits());
  const std::string text = error_text([&] { check_fits(plan, "cuda:0"); }, Exit::Memory);
  CHECK(has(text, "cuda:0 has no room for "));
  CHECK(has(text, size_text(gpu.host_bytes)));
  gpu.host_bytes = int64_t{128} << 30;
  CHECK(cuda::plan_memory(model, RunOptions(), gpu).fits());
}

}  // namespace skald::test
