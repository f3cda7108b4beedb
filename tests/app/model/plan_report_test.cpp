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
  plan.unlocked = kGiB;
  CHECK(has(plan_notes(plan),
            "did not page-lock 1.00 GiB of them, so each step copies them more slowly"));
  plan.context_by = MemoryPlan::ContextBy::Weights;
  plan.model_context = 8192;
  CHECK(has(plan_notes(plan), "4096 of the model's 8192 tokens, which leaves memory for weights"));
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
  report.most_tokens = 0;
  CHECK(!has(stats_line(report), "at most"));
}

}  // namespace skald::test
