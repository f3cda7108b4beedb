// What is said about a model whose weights lie partly in the host's memory.
#include "app/model/plan_report.h"

#include "app/run/report.h"
#include "tests/catch.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

MemoryPlan hosted_plan() {
  MemoryPlan plan;
  plan.device = {8 * kGiB, 8 * kGiB};
  plan.available = 8 * kGiB;
  plan.parts = {{"weights", 6 * kGiB}, {"weights on the host", 9 * kGiB, false, true}};
  plan.context = plan.most_context = 4096;
  plan.host_available = 16 * kGiB;
  plan.copied = 8 * kGiB;
  plan.row_copied = 4 * kGiB;
  return plan;
}

}  // namespace

TEST_CASE("weights on the host are not counted as the GPU's, and what they cost is said") {
  MemoryPlan plan = hosted_plan();
  CHECK(plan.needed() == 6 * kGiB);
  CHECK(plan.host() == 9 * kGiB);
  CHECK(plan.fits());
  CHECK(!fits_in_memory(plan));
  CHECK(plan_notes(plan) ==
        "skald: the GPU has no room for 9.00 GiB of the weights, which lie in the host's memory "
        "(--vram and --gpu-layers change that)\n"
        "skald: a token reads 4.00 GiB of them\n");
  plan.link = 4e9;
  plan.cpu = 8e9;
  CHECK(plan.most_tokens() == Approx(12e9 / (4.0 * kGiB)));
  CHECK(has(plan_notes(plan),
            "skald: a token reads 4.00 GiB of them: at most 2.79 tokens/s by the link (4 GB/s) and "
            "the CPU (8 GB/s)\n"));
  plan.cached = 2 * kGiB;
  CHECK(has(plan_notes(plan),
            "no room for 7.00 GiB of the weights, which lie in the host's memory (--vram and "
            "--gpu-layers change that)\nskald: of the experts there, the GPU keeps 2.00 GiB that "
            "were used last\n"));
  plan.cached = 0;
  plan.unlocked = kGiB;
  CHECK(has(plan_notes(plan),
            "did not page-lock 1.00 GiB of them, so each step copies them more slowly"));
  plan.exchange_on_host = true;
  CHECK(has(plan_notes(plan), "skald: the GPUs do not reach each other's memory; they exchange"));
  plan.context_by = MemoryPlan::ContextBy::Weights;
  plan.model_context = 8192;
  CHECK(has(plan_notes(plan), "4096 of the model's 8192 tokens, which leaves memory for weights"));
}

TEST_CASE("plans predict prompts and texts together, not only the decode of one text") {
  MemoryPlan plan = hosted_plan();
  plan.link = 4e9;
  plan.copy_link = 5e9;
  plan.rows = 2048;
  plan.sequences = 8;
  const double gib = kGiB;
  CHECK(plan.most_tokens() == Approx(4e9 / (4 * gib)));
  CHECK(plan.most_tokens(8) == Approx(8 * 5e9 / (8 * gib)));
  CHECK(plan.most_tokens(2048) == Approx(2048 * 5e9 / (8 * gib)));
  CHECK(plan.most_prompt_tokens(4096) == Approx(plan.most_tokens(2048)));
  // A rest takes a step of its own.
  CHECK(plan.most_prompt_tokens(2049) == Approx(2049 / (8 * gib / 5e9 + 4 * gib / 4e9)));
  CHECK(plan.most_prompt_tokens(0) == 0);
  CHECK(
      has(plan_notes(plan),
          "of them: at most 0.931 tokens/s by the link (4 GB/s); a prompt's step copies 8.00 GiB: "
          "at most 1192 tokens/s; 8 texts together: at most 4.66 tokens/s\n"));
  PlanReport report;
  report.memory = plan;
  report.by_sequences = {{1, 4096, 0.93}, {8, 512, 4.66}};
  report.cpu_helps = true;
  const std::string text = to_text(report);
  CAPTURE(text);
  CHECK(
      has(text, "host       a prompt's step copies 8.00 GiB of weights: at most 1192 tokens/s,\n"));
  CHECK(has(text, "by the link (4 GB/s); the CPU's help comes on top\n"));
  CHECK(has(text, "tokens/s of all, at most"));
  // In steps of few rows the CPU helps, and where the user gave it more, the link waits.
  plan.cpu = 8e9;
  plan.cpu_rows = 4;
  CHECK(plan.most_tokens(4) == Approx(4 * 12e9 / (8 * gib)));
  CHECK(plan.most_tokens(5) == Approx(5 * 5e9 / (8 * gib)));
  plan.cpu_share = 1;
  CHECK(plan.most_tokens() == Approx(8e9 / (4 * gib)));
  plan.cpu_share = 0.5;
  CHECK(plan.most_tokens() == Approx(8e9 / (4 * gib)));
  plan.cpu_share = 0;
  // Rows choose experts: two rows read fewer than twice what one reads.
  plan.copied_experts = 8 * kGiB;
  plan.chosen = plan.most_chosen = 0.5;
  CHECK(plan.step_bytes(2) == 8 * kGiB);
  plan.most_chosen = 0.75;
  CHECK(plan.step_bytes(2) == 6 * kGiB);
  plan.host_memory = HostMemoryKind::Mapped;
  CHECK(has(plan_notes(plan), "a prompt's step reads 8.00 GiB"));
  plan.host_memory = HostMemoryKind::Pageable;
  CHECK(has(plan_notes(plan), "they lie in ordinary memory, as --host-memory pageable asks"));
}

TEST_CASE("weights whose place the user chose are told apart") {
  MemoryPlan plan = hosted_plan();
  plan.host_by_rule = 9 * kGiB;
  CHECK(fits_in_memory(plan));
  CHECK(has(plan_notes(plan),
            "skald: 9.00 GiB of the weights lie in the host's memory, as --override-tensor or "
            "--cpu-moe ask\n"));
  CHECK(!has(plan_notes(plan), "has no room"));
  plan.host_by_rule = 4 * kGiB;
  CHECK(has(plan_notes(plan), "has no room for 5.00 GiB of the weights"));
  CHECK(has(plan_notes(plan), "4.00 GiB more of the weights"));
}

TEST_CASE("weights that neither the GPU nor the host holds are refused") {
  MemoryPlan plan = hosted_plan();
  plan.host_available = 9 * kGiB;
  CHECK(plan.fits());
  plan.host_available = 9 * kGiB - 1;
  CHECK(!plan.fits());
  const std::string text = error_text([&] { check_fits(plan, "cuda:0"); }, Exit::Memory);
  CHECK(has(text, "cuda:0 has no room for 9.00 GiB of this model's weights"));
}

TEST_CASE("after a run, its speed is compared with the expected one") {
  RunReport report;
  report.generated.tokens = 11;
  report.generated.last = report.generated.first + std::chrono::seconds(1);
  report.most_tokens = 20;
  const std::string line = stats_line(report);
  CAPTURE(line);
  CHECK(has(line, "10.0 tok/s (50 % of at most 20.0)"));
  report.prompt_tokens = 100;
  report.generated.first = report.generated.begin + std::chrono::seconds(1);
  report.most_prompt_tokens = 125;
  CHECK(has(stats_line(report), "(100.0 tok/s, 80 % of at most 125.0)"));
  report.most_tokens = report.most_prompt_tokens = 0;
  CHECK(!has(stats_line(report), "at most"));
}

}  // namespace skald::test
