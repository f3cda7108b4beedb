#include "engine/memory/memory_plan.h"

#include <string>

#include "engine/base/size_text.h"
#include "engine/memory/kv_pages.h"
#include "tests/catch.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

// 1000 bytes of weights, and 10 bytes for each token in the cache's pages.
PlanRequest simple_request(int64_t free, bool mapped = false) {
  PlanRequest request;
  request.model_context = 1000;
  request.device = {4 * free, free};
  request.parts = [mapped](int64_t context) -> std::vector<MemoryPart> {
    return {{"weights", 1000, mapped}, {"cache", pages_for(context) * kPageTokens * 10}};
  };
  return request;
}

}  // namespace

TEST_CASE("without -c the context is the model's own, where it fits") {
  const MemoryPlan plan = make_plan(simple_request(1000 + 1024 * 10));
  CHECK(plan.context == 1000);
  CHECK(plan.context_by == MemoryPlan::ContextBy::Model);
  CHECK(plan.most_context == 1000);
  CHECK(plan.fits());
  CHECK(plan.needed() == 1000 + 1024 * 10);
}

TEST_CASE("without -c a context that does not fit is reduced to whole pages") {
  for (const int64_t pages : {1, 2, 9, 15}) {
    for (const int64_t spare : {0, 1, 639}) {
      const MemoryPlan plan = make_plan(simple_request(1000 + pages * 640 + spare));
      CAPTURE(pages, spare);
      CHECK(plan.context == pages * 64);
      CHECK(plan.context_by == MemoryPlan::ContextBy::Memory);
      CHECK(plan.most_context == plan.context);
      CHECK(plan.fits());
    }
  }
}

TEST_CASE("without -c a model's short context is used, unless the prompt is longer") {
  PlanRequest request = simple_request(1000 + 1024 * 10);
  request.short_context = 100;
  MemoryPlan plan = make_plan(request);
  CHECK(plan.context == 100);
  CHECK(plan.context_by == MemoryPlan::ContextBy::Short);
  CHECK(plan.most_context == 1000);
  request.context = 500;
  CHECK(make_plan(request).context == 500);
  request.context = 0;
  request.tokens = 101;
  CHECK(make_plan(request).context == 1000);
  CHECK(make_plan(request).context_by == MemoryPlan::ContextBy::Model);
  request.tokens = 100;
  CHECK(make_plan(request).context == 100);
  request.short_context = 1000;
  CHECK(make_plan(request).context_by == MemoryPlan::ContextBy::Model);
  request = simple_request(1000 + 640);
  request.short_context = 100;
  plan = make_plan(request);
  CHECK(plan.context == 64);
  CHECK(plan.context_by == MemoryPlan::ContextBy::Memory);
}

TEST_CASE("a requested context is kept, and refused with all numbers where it does not fit") {
  PlanRequest request = simple_request(1000 + 3 * 640 + 100);
  request.context = 192;
  CHECK(make_plan(request).fits());
  CHECK(make_plan(request).context_by == MemoryPlan::ContextBy::Asked);
  request.context = 193;
  request.sequences = 2;
  const MemoryPlan plan = make_plan(request);
  CHECK(plan.context == 193);
  CHECK(!plan.fits());
  CHECK(plan.most_context == 192);
  const std::string message = error_text([&] { check_fits(plan, "the GPU"); }, Exit::Memory);
  for (const char* part : {"the GPU", "a context of 193", "each of 2 sequences", "weights 1.0 KiB",
                           "cache 2.5 KiB", "the largest context that fits is 192 (-c)"}) {
    CAPTURE(message, part);
    CHECK(has(message, part));
  }
}

TEST_CASE("weights that do not fit leave no room for a context, and the error says so") {
  const MemoryPlan plan = make_plan(simple_request(1000 + 639));
  CHECK(plan.most_context == 0);
  CHECK(!plan.fits());
  const std::string message = error_text([&] { check_fits(plan, "the GPU"); }, Exit::Memory);
  CHECK(has(message, "not even a context of 64 fits"));
}

TEST_CASE(
    "mapped weights need not fit, but the plan keeps them in memory where a context still fits") {
  const MemoryPlan beside = make_plan(simple_request(1000 + 2 * 640, true));
  CHECK(beside.context == 128);
  PlanRequest asked = simple_request(1000 + 2 * 640, true);
  asked.context = 192;
  CHECK(make_plan(asked).fits());
  CHECK(make_plan(asked).mapped() == 1000);
  CHECK(make_plan(asked).needed() > asked.device.free);
  const MemoryPlan alone = make_plan(simple_request(900, true));
  CHECK(alone.context == 64);
  CHECK(alone.fits());
  asked.context = 4 * 64;
  CHECK(!make_plan(asked).fits());
}

TEST_CASE("a limit is a number of bytes or a share of the device, and never adds memory") {
  PlanRequest request = simple_request(10000);
  request.cap.bytes = 5000;
  CHECK(make_plan(request).available == 5000);
  request.cap = {0, 0.1};
  CHECK(make_plan(request).available == 4000);
  request.cap = {0, 1};
  CHECK(make_plan(request).available == 10000);
  request.cap.bytes = 50000;
  CHECK(make_plan(request).available == 10000);
}

TEST_CASE("bisection finds the same largest context as trying each") {
  for (int64_t free = 900; free < 13000; free += 97) {
    const PlanRequest request = simple_request(free);
    int64_t most = 0;
    for (int64_t context = 1; context <= request.model_context; ++context) {
      const auto parts = request.parts(context);
      const bool fits = parts[0].bytes + parts[1].bytes <= free;
      if (fits && (context % 64 == 0 || context == request.model_context)) most = context;
    }
    CAPTURE(free);
    CHECK(make_plan(request).most_context == most);
  }
}

TEST_CASE("products that overflow become a huge number") {
  CHECK(bytes_product(3, 5) == 15);
  CHECK(bytes_product(0, INT64_MAX) == 0);
  CHECK(bytes_product(int64_t{1} << 40, int64_t{1} << 40) == int64_t{1} << 59);
  CHECK(bytes_product(int64_t{1} << 31, int64_t{1} << 31) == int64_t{1} << 59);
}

TEST_CASE("sizes print with up to two decimals") {
  CHECK(size_text(0) == "0.0 KiB");
  CHECK(size_text(3072) == "3.0 KiB");
  CHECK(size_text(5 << 20) == "5.0 MiB");
  CHECK(size_text(int64_t{5} << 28) == "1.25 GiB");
  CHECK(size_text(int64_t{3} << 40) == "3072.00 GiB");
}

}  // namespace skald::test
