// Every kernel on the list of cases (engine/selftest/cases.h), not only the one that would be
// selected; and the kernels that an older GPU would run.
#include <algorithm>
#include <cstdio>

#include "cuda/cuda.h"
#include "tests/catch.h"

namespace skald::test {
namespace {

using selftest::Extent;
using selftest::Line;
using selftest::Report;
using selftest::Request;
using selftest::Sort;

Request only(Sort sort, Extent extent = Extent::Full) {
  return {extent,
          1,
          sort == Sort::Product,
          sort == Sort::Attention,
          sort == Sort::Pointwise,
          sort == Sort::Score,
          sort == Sort::Experts,
          sort == Sort::State};
}

Report run(const Request& request, int compute_capability = 0) {
  Report report;
  cuda::self_test(request, 0, compute_capability, report);
  for (const Line& line : report.lines()) {
    std::printf("%-26s %-4s %4d cases, %4d selected: error %.1e, bound %.1e  (%s)\n",
                line.kernel.c_str(), std::string(name(line.type)).c_str(), line.cases,
                line.selected, line.error, line.bound, line.worst.c_str());
  }
  for (const std::string& failure : report.failures()) {
    UNSCOPED_INFO(failure);
  }
  CHECK(report.failed() == 0);
  return report;
}

int cases_of(const Report& report, std::string_view kernel, DType type) {
  int cases = 0;
  for (const Line& line : report.lines()) {
    if (line.kernel == kernel && line.type == type) cases += line.cases;
  }
  return cases;
}

int compute_capability() { return cuda::list_devices().devices.front().compute_capability; }

}  // namespace

TEST_CASE("products on the GPU are right by every kernel") {
  const Report report = run(only(Sort::Product));
  for (DType type : {DType::F32, DType::F16, DType::BF16}) {
    CHECK(cases_of(report, "gemv_plain", type) > 200);
    CHECK(cases_of(report, "gemm_cublas", type) > 100);
    const bool sm90 = compute_capability() == 90 && type != DType::F32;
    CHECK(cases_of(report, "gemv_sm90", type) > (sm90 ? 100 : -1));
  }
  int formats = 0;
  for (const DTypeInfo& format : all_dtypes()) {
    if (format.block_elems == 1) continue;
    ++formats;
    CHECK(cases_of(report, "gemv_plain", format.type) > 20);
    CHECK(cases_of(report, "gemv_q_sm90", format.type) > (compute_capability() == 90 ? 10 : -1));
  }
  CHECK(formats >= 14);
}

TEST_CASE("attention on the GPU is right by every kernel") {
  const Report report = run(only(Sort::Attention));
  for (DType type : {DType::F32, DType::F16, DType::BF16}) {
    CHECK(cases_of(report, "attention_plain", type) > 100);
    const bool half = type != DType::F32;
    const bool mma = half && compute_capability() >= 80, wgmma = half && compute_capability() == 90;
    CHECK(cases_of(report, "attention_prefill", type) > (mma ? 100 : -1));
    CHECK(cases_of(report, "attention_decode", type) > (mma ? 50 : -1));
    CHECK(cases_of(report, "attention_decode, clusters", type) > (wgmma ? 50 : -1));
    CHECK(cases_of(report, "attention_prefill_sm90", type) > (wgmma ? 20 : -1));
  }
}

TEST_CASE("the small kernels on the GPU are right") { run(only(Sort::Pointwise)); }

TEST_CASE("routed experts on the GPU are right by every kernel") {
  const Report report = run(only(Sort::Experts));
  for (const DTypeInfo& format : all_dtypes()) {
    const bool block = format.block_elems > 1, fast = compute_capability() >= 80;
    CHECK(cases_of(report, "experts_plain", format.type) > (block ? 10 : 40));
    const int least = !fast || format.type == DType::F32 ? -1 : block ? 10 : 20;
    CHECK(cases_of(report, "experts_few", format.type) > least);
    CHECK(cases_of(report, "experts_many", format.type) > least);
    const bool wgmma = compute_capability() == 90;
    CHECK(cases_of(report, "experts_many_sm90", format.type) > (wgmma ? least : -1));
  }
}

TEST_CASE("delta nets on the GPU are right by every kernel") {
  const Report report = run(only(Sort::State));
  for (DType type : {DType::F32, DType::F16, DType::BF16}) {
    CHECK(cases_of(report, "delta_decode", type) > 5);
    CHECK(cases_of(report, "delta_rows", type) > 10);
    CHECK(cases_of(report, "delta_plain", type) > 10);
  }
  CHECK(cases_of(report, "delta_chunks", DType::BF16) > (compute_capability() >= 80 ? 5 : -1));
}

TEST_CASE("rows of logits are scored and compared right on the GPU") { run(only(Sort::Score)); }

TEST_CASE("as on an older GPU, its kernels are selected and right") {
  const int limit = GENERATE(75, 80);
  CAPTURE(limit);
  Request request;
  request.seed = 2;
  request.extent = Extent::Small;  // scripts/gpu_check runs the full selftest with both limits
  request.pointwise = false;
  const Report report = run(request, limit);
  for (const Line& line : report.lines()) {
    CHECK(line.kernel != "gemv_sm90");
    CHECK(line.kernel != "attention_prefill_sm90");
    CHECK(line.kernel != "attention_decode, clusters");
    const bool needs_sm80 = line.kernel == "attention_decode" || line.kernel == "attention_prefill";
    CHECK((limit >= 80 || !needs_sm80));
  }
}

TEST_CASE("a few cases of each kernel", "[small]") { run({.extent = Extent::Small}); }

TEST_CASE("other random numbers give the same verdicts") {
  Request request;
  request.seed = 77;
  run(request);
}

}  // namespace skald::test
