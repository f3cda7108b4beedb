// Steps as data: which launches a kind of step has, and what they leave for one another. Needs no
// GPU.
#include "cuda/plan/step_plan.h"

#include <fstream>
#include <map>
#include <regex>
#include <set>

#include "cuda/plan/plan.h"
#include "cuda/plan/plan_text.h"
#include "models/random/random.h"
#include "tests/catch.h"
#include "tests/engine/random_llama.h"
#include "tests/family_golden.h"
#include "tests/paths.h"

namespace skald::test {
namespace {

using cuda::EdgeKind;
using cuda::StepKind;

struct Planned {
  cuda::FusedProgram fused;
  cuda::PlanSetting setting;

  explicit Planned(const Model& model, int capability = 90, bool reproducible = false)
      : fused(cuda::fuse_program(model.program())) {
    RunOptions options;
    options.rows = 512;
    options.sequences = 256;
    options.reproducible = reproducible;
    cuda::DeviceInfo gpu;
    gpu.compute_capability = capability;
    gpu.multiprocessors = 132;
    gpu.total_bytes = gpu.free_bytes = int64_t{140} << 30;
    const MemoryPlan memory = cuda::plan_memory(fused, options, model.config, gpu);
    setting = cuda::planned_step(fused, options, model.config, memory, gpu).setting;
  }

  cuda::StepPlan plan(const StepKind& kind) const { return cuda::plan_step(fused, setting, kind); }
};

StepKind decode(int rows) {
  StepKind kind;
  kind.rows = rows;
  kind.decode = true;
  kind.depth = 1024;
  return kind;
}

// Rows of the same sequences, as guesses are checked.
StepKind several(int rows) {
  StepKind kind = decode(rows);
  kind.several = true;
  return kind;
}

StepKind prompt(int rows) {
  StepKind kind;
  kind.rows = rows;
  return kind;
}

StepKind head(int rows) {
  StepKind kind;
  kind.rows = rows;
  kind.head = true;
  return kind;
}

std::map<EdgeKind, int> edges(const cuda::StepPlan& plan) {
  std::map<EdgeKind, int> count;
  for (const cuda::StepEntry& entry : plan.entries) {
    for (const cuda::Edge& edge : entry.leaves) ++count[edge.kind];
  }
  return count;
}

// Returns the product of an entry; null: the entry belongs to another op.
const cuda::FusedLinear* linear(const Planned& planned, const cuda::StepEntry& entry) {
  return std::get_if<cuda::FusedLinear>(&planned.fused.ops[entry.op].op);
}

// The whole plan as a line an entry.
std::string text(const Planned& planned, const cuda::StepPlan& plan) {
  std::string lines;
  for (const cuda::StepEntry& entry : plan.entries) {
    lines += concat(entry.op, entry.dependent ? " dependent " : " ",
                    cuda::entry_text(planned.fused, entry));
    for (const cuda::Edge& edge : entry.leaves) {
      lines += concat(", ", cuda::edge_name(edge.kind), " for ", edge.other);
    }
    lines += "\n";
  }
  return lines;
}

std::set<std::string> names_of_rows() {
  std::set<std::string> names;
  for (const auto& kernel : cuda::kProductKernels) names.insert(std::string(kernel.name));
  for (const auto& kernel : cuda::kAttentionKernels) names.insert(std::string(kernel.name));
  for (const auto& kernel : cuda::kExpertsKernels) names.insert(std::string(kernel.name));
  return names;
}

// Each launcher that a file of cuda/kernels specializes, by the name of its row.
std::multiset<std::string> names_of_launchers() {
  static const std::regex kLauncher(
      R"re(launch_(?:product|attention|experts)<kernel_id\("([^"]+)"\)>)re");
  std::multiset<std::string> names;
  for (const auto& file : fs::recursive_directory_iterator(source_dir() / "cuda/kernels")) {
    if (!file.is_regular_file()) continue;
    std::ifstream in(file.path());
    const std::string source((std::istreambuf_iterator<char>(in)), {});
    for (std::sregex_iterator at(source.begin(), source.end(), kLauncher), end; at != end; ++at) {
      names.insert((*at)[1].str());
    }
  }
  return names;
}

}  // namespace

TEST_CASE("every row of the kernel table has one launcher, and every launcher a row") {
  const std::set<std::string> rows = names_of_rows();
  const std::multiset<std::string> launchers = names_of_launchers();
  CHECK(rows.size() == std::size(cuda::kProductKernels) + std::size(cuda::kAttentionKernels) +
                           std::size(cuda::kExpertsKernels));
  CHECK(std::set<std::string>(launchers.begin(), launchers.end()) == rows);
  CHECK(launchers.size() == rows.size());
  std::set<cuda::KernelId> ids;
  for (const std::string& name : rows) ids.insert(cuda::kernel_id(name.c_str()));
  CHECK(ids.size() == rows.size());
}

TEST_CASE("a GPU gets no kernel whose code it cannot run") {
  const Planned old(shape_model("llama-3.1-8b", "q4_k_m"), 80);
  for (const StepKind& kind : {decode(1), decode(8), prompt(200), head(3)}) {
    const cuda::StepPlan plan = old.plan(kind);
    CHECK(edges(plan).empty());
    for (const cuda::StepEntry& entry : plan.entries) {
      CHECK(!entry.dependent);
      const auto* product = std::get_if<cuda::ProductEntry>(&entry.kind);
      if (product) CHECK(product->kernel->code == cuda::KernelCode::Any);
      const auto* attention = std::get_if<cuda::AttentionEntry>(&entry.kind);
      if (attention) CHECK(attention->code == cuda::AttentionCode::Mma);
    }
  }
}

TEST_CASE("one row of a quantized model: gate and up signal to down, q, k and v start attention") {
  const Planned planned(shape_model("llama-3.1-8b", "q4_k_m"));
  const cuda::StepPlan plan = planned.plan(decode(1));
  const std::map<EdgeKind, int> count = edges(plan);
  CHECK(count == std::map<EdgeKind, int>{{EdgeKind::Signal, 32}, {EdgeKind::LateStart, 32}});
  for (const cuda::StepEntry& entry : plan.entries) {
    if (entry.left(EdgeKind::Signal)) {
      CHECK(linear(planned, entry)->epilogue == cuda::Epilogue::Gated);
      const cuda::StepEntry& down = plan.entries[entry.left(EdgeKind::Signal)->other];
      CHECK(linear(planned, down)->in == linear(planned, entry)->out);
    }
    if (const cuda::Edge* late = entry.left(EdgeKind::LateStart)) {
      CHECK(std::holds_alternative<cuda::AttentionEntry>(plan.entries[late->other].kind));
    }
  }
  // 8 bits of q, k and v are too many for a late start.
  CHECK(edges(Planned(shape_model("llama-3.1-8b", "q8_0")).plan(decode(1))) ==
        std::map<EdgeKind, int>{{EdgeKind::Signal, 32}});
  CHECK(edges(Planned(shape_model("llama-3.1-8b", "bf16")).plan(decode(1))).empty());
}

TEST_CASE("some rows of a quantized model: each product's activations come from the one before") {
  const Planned planned(shape_model("llama-3.1-8b", "q8_0"));
  const cuda::StepPlan plan = planned.plan(decode(8));
  // Attention → o and gate, up → down are prepared. o → gate, up and down → q, k, v are carried;
  // so is the last down → head. The first layer's norm has nothing to take, and its q, k and v
  // no down before them.
  const std::map<EdgeKind, int> count = edges(plan);
  CHECK(count == std::map<EdgeKind, int>{
                     {EdgeKind::Prepared, 64}, {EdgeKind::Carried, 64}, {EdgeKind::Beside, 64}});
  for (const cuda::StepEntry& entry : plan.entries) {
    if (const cuda::Edge* edge = entry.left(EdgeKind::Carried)) {
      const cuda::FusedLinear* next = linear(planned, plan.entries[edge->other]);
      CHECK(linear(planned, entry)->epilogue == cuda::Epilogue::AddTo);
      CHECK(next->norm.has_value());
      CHECK(next->in == linear(planned, entry)->out);
    }
    if (const cuda::Edge* edge = entry.left(EdgeKind::Prepared)) {
      CHECK(!linear(planned, plan.entries[edge->other])->norm);
    }
  }
  // Beyond 32 rows larger blocks gain more than a place beside attention.
  CHECK(edges(planned.plan(decode(33))).count(EdgeKind::Beside) == 0);
  // Beyond 64 rows a matrix with a 16-bit copy goes to cuBLAS, which takes nothing from others.
  Planned copies = planned;
  copies.setting.copies = true;
  CHECK(!edges(copies.plan(decode(64))).empty());
  CHECK(edges(copies.plan(decode(65))).empty());
}

TEST_CASE("nothing is prepared where an op's output is observed or its bound is not known") {
  const Planned planned(shape_model("llama-3.1-8b", "q8_0"));
  StepKind observed = decode(8);
  observed.observed = true;
  const std::map<EdgeKind, int> count = edges(planned.plan(observed));
  CHECK(count.count(EdgeKind::Prepared) == 0);
  CHECK(count.at(EdgeKind::Carried) == 64);  // what AddTo adds to is written as well

  Planned unbounded = planned;
  unbounded.setting.bounds.assign(unbounded.setting.bounds.size(), 0);
  CHECK(edges(unbounded.plan(decode(8))).count(EdgeKind::Prepared) == 0);
  Planned huge = planned;
  for (float& bound : huge.setting.bounds) bound *= 0x1p100f;
  CHECK(edges(huge.plan(decode(8))).count(EdgeKind::Prepared) == 0);
}

TEST_CASE("launches that wait for the one ahead leave nothing") {
  Planned planned(shape_model("llama-3.1-8b", "q8_0"));
  CHECK(edges(planned.plan(prompt(8))).empty());
  planned.setting.dependent = false;
  CHECK(edges(planned.plan(decode(8))).empty());
  CHECK(edges(planned.plan(decode(1))).empty());
}

TEST_CASE("rows of one sequence are appended to the cache before they attend") {
  const Planned planned(shape_model("llama-3.1-8b", "q8_0"));
  const cuda::StepPlan plan = planned.plan(several(5));
  int appended = 0, attended = 0;
  for (const cuda::StepEntry& entry : plan.entries) {
    appended += std::holds_alternative<cuda::RopeAppendEntry>(entry.kind);
    const auto* attention = std::get_if<cuda::AttentionEntry>(&entry.kind);
    if (!attention) continue;
    ++attended;
    CHECK(attended == appended);
    CHECK(attention->kernel->decode);
    CHECK(attention->after_append);
    CHECK(!entry.dependent);  // it would read the cache before the rows are there
    CHECK(!entry.taken(EdgeKind::Beside));
  }
  CHECK(attended == 32);
  CHECK(plan.can_be_graph());
  for (const cuda::StepEntry& entry : planned.plan(decode(5)).entries) {
    CHECK(!std::holds_alternative<cuda::RopeAppendEntry>(entry.kind));
  }
}

TEST_CASE("a product that has no consumer next to it leaves nothing") {
  // The norm of a product stands between it and the next norm.
  RandomLlama shape;
  shape.type = DType::Q8_0;
  shape.family = &kGemma2;
  const Planned gemma(random_llama(shape));
  CHECK(edges(gemma.plan(decode(8))).count(EdgeKind::Carried) == 0);
  // Experts stand behind o: their router reads the residual stream.
  RandomLlama experts;
  experts.type = DType::Q8_0;
  experts.experts = {8, 2, 96, true, {}};
  const Planned moe(random_llama(experts));
  for (const cuda::StepEntry& entry : moe.plan(decode(8)).entries) {
    CHECK(!entry.left(EdgeKind::Carried));
    CHECK(!entry.left(EdgeKind::Signal));
  }
}

TEST_CASE("pieces of unlike formats are one launch, or share their activations") {
  const Planned planned(shape_model("llama-3.1-8b", "q4_k_m"));
  const auto pieces = [&](const cuda::StepPlan& plan) {
    int pairs = 0, others = 0;
    for (const cuda::StepEntry& entry : plan.entries) {
      const auto* product = std::get_if<cuda::ProductEntry>(&entry.kind);
      if (product && product->pieces.size() == 2) {
        ++pairs;
        CHECK(product->pieces[0].ticket + 1 == product->pieces[1].ticket);
        CHECK(product->pieces[1].out.first_col == product->pieces[0].shape.outs);
      }
      if (entry.left(EdgeKind::SharedActivations)) ++others;
    }
    return std::pair(pairs, others);
  };
  const auto [pairs, none] = pieces(planned.plan(decode(8)));
  CHECK(pairs > 0);
  CHECK(none == 0);
  Planned no_copies = planned;
  no_copies.setting.copies = false;
  const auto [no_pairs, shared] = pieces(no_copies.plan(prompt(100)));
  CHECK(no_pairs == 0);
  CHECK(shared == pairs);
}

TEST_CASE("a reproducible plan has the same kernels for any number of rows") {
  const Planned planned(shape_model("llama-3.2-1b", "q4_k_m"), 90, true);
  const auto kernels = [&](int rows) {
    std::string names;
    for (const cuda::StepEntry& entry : planned.plan(prompt(rows)).entries) {
      names += cuda::entry_text(planned.fused, entry) + "\n";
      if (const auto* product = std::get_if<cuda::ProductEntry>(&entry.kind)) {
        CHECK(product->kernel->any_rows);
        CHECK(product->pinned);
      }
    }
    return names;
  };
  CHECK(kernels(1) == kernels(7));
  CHECK(kernels(1) == kernels(300));
}

TEST_CASE("a plan is a pure function of its kind of step") {
  const Planned planned(shape_model("llama-3.2-1b", "q4_k_m"));
  const std::string first = text(planned, planned.plan(decode(4)));
  for (const StepKind& kind : {decode(1), prompt(100), head(1), decode(64)}) planned.plan(kind);
  CHECK(text(planned, planned.plan(decode(4))) == first);
}

TEST_CASE("the head is planned alone, with its rows from elsewhere") {
  const Planned planned(shape_model("llama-3.2-1b", "bf16"));
  const cuda::StepPlan plan = planned.plan(head(40));
  REQUIRE(!plan.entries.empty());
  for (const cuda::StepEntry& entry : plan.entries) {
    CHECK(entry.op + 1 == planned.fused.ops.size());
  }
  const auto& norm = std::get<cuda::RmsNormEntry>(plan.entries.front().kind);
  CHECK(norm.in.kind == cuda::BufferName::Kind::HeadInput);
  const auto& product = std::get<cuda::ProductEntry>(plan.entries[1].kind);
  CHECK(product.pieces.front().out.kind == cuda::BufferName::Kind::Logits);
  // Its ticket is the last, as in a whole step.
  const cuda::StepPlan whole = planned.plan(decode(40));
  const auto& last = std::get<cuda::ProductEntry>(whole.entries.back().kind);
  CHECK(product.pieces.front().ticket == last.pieces.front().ticket);
}

TEST_CASE("every op of every family has launches, and edges join neighbours") {
  const std::string name = GENERATE(
      "nemo", "ministral", "yarn", "dynamic", "granite", "smollm3", "longrope", "gemma", "gemma2",
      "gemma3", "olmo2", "olmo3", "qwen3", "qwen3-window", "mixtral", "qwen3moe", "qwen3moe-dense");
  const int capability = GENERATE(75, 80, 90);
  CAPTURE(name, capability);
  TempFolder temp;
  const Planned planned(open_model(write_folder(temp, name)).model, capability);
  for (const StepKind& kind :
       {decode(1), decode(8), several(8), decode(100), prompt(1), prompt(300)}) {
    const cuda::StepPlan plan = planned.plan(kind);
    std::set<size_t> ops;
    for (size_t i = 0; i < plan.entries.size(); ++i) {
      const cuda::StepEntry& entry = plan.entries[i];
      CHECK((ops.empty() || entry.op >= *ops.rbegin()));
      ops.insert(entry.op);
      for (const cuda::Edge& edge : entry.leaves) {
        REQUIRE(edge.other > i);
        const cuda::StepEntry& other = plan.entries[edge.other];
        CHECK(other.op <= entry.op + 1);
        CHECK(other.taken(edge.kind)->other == i);
      }
    }
    // The head of prompts is planned alone.
    CHECK(ops.size() == planned.fused.ops.size() - (kind.decode ? 0 : 1));
  }
  CHECK(!planned.plan(head(3)).entries.empty());
}

}  // namespace skald::test
