#include "engine/step/backend.h"

#include <cstring>

#include "engine/base/buffer.h"

namespace skald {

std::vector<Picked> Executor::pick(std::span<const PickRequest> requests) {
  std::vector<Picked> picked;
  picked.reserve(requests.size());
  for (size_t row = 0; row < requests.size(); ++row) {
    picked.push_back(sampler_.pick(logits(static_cast<int64_t>(row)), *requests[row].params,
                                   requests[row].context));
  }
  return picked;
}

std::span<const float> Executor::features(Features, int64_t, int64_t) {
  check(false, "the backend gives features");
  return {};
}

std::shared_ptr<std::byte> Executor::host_memory(int64_t bytes) {
  const auto memory = std::make_shared<Buffer>(bytes, "copies of cache pages");
  // The system provides the memory now, and does not slow down the first copies.
  std::memset(memory->data(), 0, static_cast<size_t>(bytes));
  return {memory, memory->data()};
}

void Executor::read_page(int32_t page, std::span<std::byte> bytes) {
  const CacheRead part{CacheKind::Page, page, bytes};
  read_cache({&part, 1});
}

void Executor::write_page(int32_t page, std::span<const std::byte> bytes) {
  const CacheWrite part{CacheKind::Page, page, bytes};
  write_cache({&part, 1});
}

void Executor::read_state(int32_t slot, std::span<std::byte> bytes) {
  const CacheRead part{CacheKind::State, slot, bytes};
  read_cache({&part, 1});
}

void Executor::write_state(int32_t slot, std::span<const std::byte> bytes) {
  const CacheWrite part{CacheKind::State, slot, bytes};
  write_cache({&part, 1});
}

Picks Executor::pick_and_run(std::span<const PickRequest> requests, std::span<Sequence* const>) {
  return {pick(requests), 0};
}

std::vector<TokenScore> Executor::score(std::span<const int32_t> targets) {
  std::vector<TokenScore> scores(targets.size());
  for (size_t row = 0; row < targets.size(); ++row) {
    if (targets[row] < 0) continue;
    scores[row] = score_row(logits(static_cast<int64_t>(row)), targets[row]);
  }
  return scores;
}

std::vector<RowComparison> Executor::compare(Executor& base, std::span<const int32_t> targets) {
  std::vector<RowComparison> comparisons(targets.size());
  for (size_t row = 0; row < targets.size(); ++row) {
    if (targets[row] < 0) continue;
    const int64_t index = static_cast<int64_t>(row);
    comparisons[row] = compare_rows(logits(index), base.logits(index), targets[row]);
  }
  return comparisons;
}

}  // namespace skald
