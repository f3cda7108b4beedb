#include "engine/schedule/swap_space.h"

#include <algorithm>
#include <new>
#include <utility>

#include "engine/base/error.h"

namespace skald {
namespace {

// The largest block that is allocated at once. Each new block is as large as all blocks before it,
// up to this size: so a small model takes little memory, and a large one seldom allocates.
constexpr int64_t kBlockBytes = int64_t{64} << 20;

// Returns false where `work` finds no memory.
template <class Work>
bool has_memory(const Work& work) {
  try {
    work();
    return true;
  } catch (const Error& error) {
    if (error.code() != Exit::Memory) throw;
  } catch (const std::bad_alloc&) {
  }
  return false;
}

template <class Byte>
std::span<Byte> bytes_at(std::byte* begin, int64_t bytes) {
  return {begin, static_cast<size_t>(bytes)};
}

}  // namespace

SwappedCache::~SwappedCache() {
  for (std::byte* page : pages_) space_.pages_.free.push_back(page);
  if (state_) space_.states_.free.push_back(state_);
}

std::byte* SwapSpace::Slots::take() {
  std::byte* const slot = free.back();
  free.pop_back();
  return slot;
}

SwapSpace::SwapSpace(Executor& executor, SwapLimits limits, const SecondsClock& clock)
    : executor_(executor), limits_(std::move(limits)), clock_(clock) {
  pages_.bytes = executor.page_bytes();
  states_.bytes = executor.state_bytes();
}

int64_t SwapSpace::bytes_used() const {
  int64_t bytes = 0;
  for (const Slots* slots : {&pages_, &states_}) {
    bytes += (slots->count - std::ssize(slots->free)) * slots->bytes;
  }
  return bytes;
}

// Returns true if `needed` slots are free.
bool SwapSpace::make_room(Slots& slots, int64_t needed) {
  const int64_t missing = needed - std::ssize(slots.free);
  if (missing <= 0) return true;
  const int64_t most = (limits_.bytes - allocated_) / slots.bytes;
  if (missing > most) return false;
  const int64_t more =
      std::min(most, std::max(missing, std::min(slots.count, kBlockBytes / slots.bytes)));
  const int64_t bytes = more * slots.bytes;
  if (limits_.may_take && !limits_.may_take(bytes)) return false;
  return has_memory([&] {
    // The lists have room for every slot, so that a SwappedCache is freed without an error.
    slots.free.reserve(static_cast<size_t>(slots.count + more));
    blocks_.push_back(executor_.host_memory(bytes));
    allocated_ += bytes;
    slots.count += more;
    for (int64_t i = 0; i < more; ++i) {
      slots.free.push_back(blocks_.back().get() + i * slots.bytes);
    }
  });
}

// The time of copies must not contain that of a step before them.
void SwapSpace::wait_for_device() {
  const double begin = clock_();
  executor_.device_seconds();
  times_.finished(clock_() - begin);
}

std::unique_ptr<SwappedCache> SwapSpace::save(const Sequence& sequence, int64_t first_page) {
  const auto pages = sequence.pages().subspan(static_cast<size_t>(first_page));
  const int64_t bytes = std::ssize(pages) * pages_.bytes + states_.bytes;
  if (limits_.bytes == 0 || pages.empty()) return nullptr;
  wait_for_device();
  if (!times_.copy_is_faster(bytes, sequence.length() - first_page * kPageTokens)) return nullptr;
  if (!make_room(pages_, std::ssize(pages))) return nullptr;
  if (states_.bytes > 0 && !make_room(states_, 1)) return nullptr;

  std::unique_ptr<SwappedCache> saved;
  const bool done = has_memory([&] {
    saved = std::make_unique<SwappedCache>(*this, first_page, sequence.length());
    saved->pages_.reserve(pages.size());
    std::vector<CacheRead> parts;
    for (const int32_t page : pages) {
      saved->pages_.push_back(pages_.take());
      parts.push_back(
          {CacheKind::Page, page, bytes_at<std::byte>(saved->pages_.back(), pages_.bytes)});
    }
    if (states_.bytes > 0) {
      saved->state_ = states_.take();
      parts.push_back(
          {CacheKind::State, sequence.state(), bytes_at<std::byte>(saved->state_, states_.bytes)});
    }
    const double begin = clock_();
    executor_.read_cache(parts);
    times_.copied_out(bytes, clock_() - begin);
  });
  return done ? std::move(saved) : nullptr;
}

bool SwapSpace::restore(const SwappedCache& saved, Sequence& sequence) {
  const int64_t length = sequence.length();
  const int64_t whole = length / kPageTokens;  // a page in part is written whole
  check(whole >= saved.first_page() && length <= saved.length(), "saved pages follow a sequence");
  check(states_.bytes == 0 || length == 0, "a sequence with a state is restored as a whole");
  if (!has_memory([&] { sequence.extend(saved.length() - length); })) return false;
  const bool done = has_memory([&] {
    std::vector<CacheWrite> parts;
    int64_t bytes = 0;
    for (int64_t i = whole; i < std::ssize(sequence.pages()); ++i) {
      std::byte* const from = saved.pages_[static_cast<size_t>(i - saved.first_page())];
      parts.push_back({CacheKind::Page, sequence.pages()[static_cast<size_t>(i)],
                       bytes_at<const std::byte>(from, pages_.bytes)});
      bytes += pages_.bytes;
    }
    if (saved.state_) {
      parts.push_back({CacheKind::State, sequence.state(),
                       bytes_at<const std::byte>(saved.state_, states_.bytes)});
      bytes += states_.bytes;
    }
    wait_for_device();
    const double begin = clock_();
    executor_.write_cache(parts);
    times_.copied_back(bytes, clock_() - begin);
  });
  if (!done) sequence.truncate(whole * kPageTokens);
  return done;
}

}  // namespace skald
