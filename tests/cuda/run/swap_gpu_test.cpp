// Cache pages and states between the GPU and the host's memory: several at once, and in a scheduler
// whose texts are preempted.
#include <algorithm>

#include "cuda/cuda.h"
#include "cuda/gpu/faults.h"
#include "engine/schedule/scheduler.h"
#include "models/open.h"
#include "tests/catch.h"
#include "tests/cuda/kernels/switches.h"
#include "tests/engine/random_llama.h"
#include "tests/golden.h"

namespace skald::test {
namespace {

std::vector<float> logits_after(Executor& executor, Sequence& sequence,
                                const std::vector<int32_t>& tokens) {
  const SeqRows rows{&sequence, tokens, Want::LastRow};
  executor.run({&rows, 1});
  const auto logits = executor.logits(0);
  return {logits.begin(), logits.end()};
}

// Copies the pages and the state of `from` to those of `to` by way of the host's memory.
void copy_over(Executor& executor, const Sequence& from, const Sequence& to) {
  const int64_t page = executor.page_bytes(), state = executor.state_bytes();
  const int64_t pages = std::ssize(from.pages());
  const auto memory = executor.host_memory(pages * page + state);
  std::vector<CacheRead> reads;
  std::vector<CacheWrite> writes;
  for (int64_t i = 0; i < pages; ++i) {
    const std::span<std::byte> bytes(memory.get() + i * page, static_cast<size_t>(page));
    const size_t index = static_cast<size_t>(i);
    reads.push_back({CacheKind::Page, from.pages()[index], bytes});
    writes.push_back({CacheKind::Page, to.pages()[index], bytes});
  }
  if (state > 0) {
    const std::span<std::byte> bytes(memory.get() + pages * page, static_cast<size_t>(state));
    reads.push_back({CacheKind::State, from.state(), bytes});
    writes.push_back({CacheKind::State, to.state(), bytes});
  }
  executor.read_cache(reads);
  std::vector<std::byte> one(static_cast<size_t>(page));
  for (const CacheRead& part : reads) {
    if (part.kind != CacheKind::Page) continue;
    executor.read_page(part.number, one);
    CHECK(std::equal(one.begin(), one.end(), part.bytes.begin()));
  }
  executor.write_cache(writes);
}

void check_copies(const Model& model) {
  RunOptions options;
  options.context = 512;
  options.sequences = 2;
  options.rows = 512;
  const auto executor = cuda::make_executor(model, options, 0, switches());
  const int64_t vocab = executor->program().vocab();
  Sequence sequence = executor->new_sequence();
  logits_after(*executor, sequence, random_tokens(300, 1, vocab));
  Sequence copy = executor->new_sequence();
  copy.extend(sequence.length());
  copy_over(*executor, sequence, copy);
  const auto tokens = random_tokens(1, 2, vocab);
  CHECK(logits_after(*executor, copy, tokens) == logits_after(*executor, sequence, tokens));
}

// The tokens of texts that share a cache of `cache_tokens`; 0: of one that holds them all.
std::vector<std::vector<int32_t>> texts(const Model& model, int64_t cache_tokens, bool swaps) {
  RunOptions options;
  options.context = 256;
  options.sequences = 8;
  options.rows = 64;
  options.cache_tokens = cache_tokens;
  options.reproducible = true;
  const auto executor = cuda::make_executor(model, options, 0, switches());
  // The clock stands still, so that no copy takes longer than computing.
  Scheduler scheduler(*executor, {.sequences = 8, .swap = {swaps ? 1 << 30 : 0}},
                      [] { return 0.0; });
  std::vector<Generation> all(8);
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].prompt =
        random_tokens(30 + 10 * static_cast<int64_t>(i), i, executor->program().vocab());
    all[i].max_tokens = 100;
    all[i].params.seed = 3;
    all[i].streams = {i};
    all[i].cancelled = std::make_unique<std::atomic<bool>[]>(1);
    scheduler.add(all[i]);
  }
  std::vector<std::vector<int32_t>> tokens(all.size());
  while (!scheduler.idle()) {
    for (const GenerationEvent& event : scheduler.step()) {
      if (event.kind != GenerationEvent::Kind::Token) continue;
      tokens[static_cast<size_t>(event.generation - all.data())].push_back(event.picked.token);
    }
  }
  const SchedulerCounts& counts = scheduler.counts();
  CHECK((counts.preemptions > 0) == (cache_tokens > 0));
  CHECK((counts.swapped > 0) == swaps);
  CHECK(scheduler.swap_space().bytes_used() == 0);
  return tokens;
}

}  // namespace

TEST_CASE("pages go to the host's memory and to other pages without a change", "[small][cublas]") {
  check_copies(random_llama({.type = DType::BF16}));
}

TEST_CASE("a state goes to the host's memory and to another slot with its pages") {
  const std::filesystem::path folder = find_golden("qwen3_5");
  if (folder.empty()) return;
  check_copies(open_model(folder).model);
}

TEST_CASE("swapped texts on the GPU have the tokens of texts that were never preempted") {
  Model model = random_llama({.type = DType::BF16});
  SECTION("pages") {}
  SECTION("pages and states") {
    const std::filesystem::path folder = find_golden("qwen3_5");
    if (folder.empty()) return;
    model = open_model(folder).model;
  }
  const auto expected = texts(model, 0, false);
  CHECK(texts(model, 448, true) == expected);
  CHECK(texts(model, 448, false) == expected);
}

TEST_CASE("the host's memory for copies is ordinary memory where none can be locked", "[small]") {
  RunOptions options;
  options.context = 64;
  const auto executor =
      cuda::make_executor(random_llama({.type = DType::BF16}), options, 0, switches());
  const cuda::FailingAcquisition failing(1);
  Sequence sequence = executor->new_sequence();
  sequence.extend(1);
  const auto memory = executor->host_memory(executor->page_bytes());
  CHECK(failing.happened());
  const std::span<std::byte> bytes(memory.get(), static_cast<size_t>(executor->page_bytes()));
  std::fill(bytes.begin(), bytes.end(), std::byte{7});
  executor->write_page(sequence.pages()[0], bytes);
  std::fill(bytes.begin(), bytes.end(), std::byte{0});
  executor->read_page(sequence.pages()[0], bytes);
  CHECK(std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{7}; }));
}

}  // namespace skald::test
