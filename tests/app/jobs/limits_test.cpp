#include "app/jobs/limits.h"

#include "engine/cpu/executor.h"
#include "engine/cpu/machine.h"
#include "engine/memory/kv_pages.h"
#include "models/open.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/small_models.h"

namespace skald::test {
namespace {

TEST_CASE("sequences, context and cache have the requested sizes, or the largest that fit") {
  const OpenedModel opened = open_model(small_gguf());
  RunOptions asked;
  asked.rows = 64;
  asked.context = 200;
  asked.threads = 1;
  const auto chosen = [&](int sequences) {
    return choose_job_limits(opened.model, asked, sequences, {});
  };
  const JobLimits roomy = chosen(8);
  CHECK(roomy.run.sequences == 8);
  CHECK(roomy.run.context == 200);
  CHECK(roomy.run.cache_tokens == pages_for(8 * 200) * kPageTokens);
  CHECK(roomy.plan.fits());
  CHECK(chosen(1000).run.sequences == 64);  // a step has 64 rows, one for each sequence
  CHECK(chosen(0).run.sequences == 32);

  // Memory for half of the cache, and for everything else.
  const JobLimits many = chosen(64);
  int64_t cache = 0;
  for (const MemoryPart& part : many.plan.parts) cache += part.name == "cache" ? part.bytes : 0;
  asked.memory.bytes = many.plan.needed() - many.plan.mapped() - cache / 2;
  const JobLimits tight = chosen(64);
  CHECK(tight.plan.fits());
  CHECK(tight.run.context == 200);
  CHECK(tight.run.cache_tokens >= 200);
  CHECK(tight.run.cache_tokens <= many.run.cache_tokens / 2);

  asked.memory.bytes = 1000;
  CHECK(has(error_text([&] { chosen(8); }, Exit::Memory), "does not hold this model"));
}

TEST_CASE("preempted texts get half of the memory that is left, which executors share") {
  const OpenedModel opened = open_model(small_gguf());
  RunOptions options;
  options.context = 200;
  options.threads = 1;
  std::vector<std::unique_ptr<Executor>> executors;
  executors.push_back(cpu::make_executor(opened.model, options));
  const int64_t needed = executors.front()->plan().needed(), left = cpu::lockable_memory();
  const SwapLimits one = swap_limits(executors, {});
  CHECK(one.bytes > left / 4);
  CHECK(one.bytes < left - needed);
  CHECK(one.may_take(1 << 20));
  CHECK(!one.may_take(left));

  options.memory.bytes = needed + 1000;  // a bound that the user gave
  executors.front() = cpu::make_executor(opened.model, options);
  CHECK(swap_limits(executors, {}).bytes == 500);
  executors.push_back(cpu::make_executor(opened.model, options));
  CHECK(swap_limits(executors, {}).bytes == 250);
}

}  // namespace
}  // namespace skald::test
