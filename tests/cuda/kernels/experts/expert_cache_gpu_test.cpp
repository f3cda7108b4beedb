// A layer's cache of experts: which experts get slots, what is copied, and what the CPU gets.
#include "cuda/kernels/experts/experts_cache.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "cuda/gpu/check.h"
#include "cuda/gpu/handles.h"
#include "cuda/gpu/memory.h"
#include "tests/catch.h"

namespace skald::test {
namespace {

using cuda::DeviceMemory;
using cuda::PinnedMemory;

template <class T>
std::vector<T> download(const T* from, size_t count) {
  std::vector<T> values(count);
  SKALD_CUDA(cudaMemcpy(values.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost));
  return values;
}
// Waits like on_device() in random_tiles.h.
template <class T>
void upload(T* to, const std::vector<T>& values) {
  SKALD_CUDA(cudaMemcpy(to, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  SKALD_CUDA(cudaDeviceSynchronize());
}

// What the host expects of a cache: the experts by the last step that chose them.
struct Expected {
  std::vector<int> expert_of, used_at;
  std::set<int> read, on_cpu;  // chosen experts without a slot in the last step
  int step = 0;

  explicit Expected(int slots)
      : expert_of(static_cast<size_t>(slots)), used_at(static_cast<size_t>(slots)) {
    std::iota(expert_of.begin(), expert_of.end(), 0);
  }
  int slot_of(int expert) const {
    const auto at = std::find(expert_of.begin(), expert_of.end(), expert);
    return at == expert_of.end() ? -1 : static_cast<int>(at - expert_of.begin());
  }
  // Returns how many experts are copied.
  int choose(const std::set<int>& chosen, float copied) {
    ++step;
    read.clear();
    on_cpu.clear();
    std::vector<int> missing;
    int in_use = 0;
    for (int e : chosen) {
      const int slot = slot_of(e);
      if (slot < 0) missing.push_back(e);
      if (slot >= 0) used_at[static_cast<size_t>(slot)] = step, ++in_use;
    }
    const int most = static_cast<int>(expert_of.size()) - in_use;
    const int brought = cuda::copied_experts(static_cast<int>(missing.size()), copied);
    const int moves = std::min(most, brought);
    for (int i = moves; i < static_cast<int>(missing.size()); ++i) {
      (i < brought ? read : on_cpu).insert(missing[static_cast<size_t>(i)]);
    }
    for (int i = 0; i < moves; ++i) {
      const auto oldest = std::min_element(used_at.begin(), used_at.end());
      expert_of[static_cast<size_t>(oldest - used_at.begin())] = missing[static_cast<size_t>(i)];
      *oldest = step;
    }
    return moves;
  }
};

class CacheOfLayer {
 public:
  CacheOfLayer(int experts, int slots, int used, int rows)
      : experts_(experts), slots_(slots), used_(used), rows_(rows), expected_(slots) {
    std::vector<int32_t> numbers(static_cast<size_t>(cuda::cache_state_size(experts, slots)));
    for (int e = 0; e < experts; ++e) numbers[static_cast<size_t>(e)] = e < slots ? e : -1;
    for (int s = 0; s < slots; ++s) numbers[static_cast<size_t>(experts + s)] = s;
    upload(state_.as<int32_t>(), numbers);
    std::vector<int32_t> values(static_cast<size_t>(x_.bytes() / 4));
    std::iota(values.begin(), values.end(), 1);
    upload(x_.as<int32_t>(), values);
    // choose_slots writes the slots of chosen experts only.
    SKALD_CUDA(cudaMemset(step_slots_.as<void>(), 0, static_cast<size_t>(step_slots_.bytes())));
    SKALD_CUDA(cudaMemset(counts_.as<void>(), 0, sizeof(cuda::CacheCounts)));
    for (int s = 0; s < 2; ++s) {
      auto* host = host_[s].as<uint32_t>();
      for (int64_t i = 0; i < experts * kStrides[s] / 4; ++i) {
        host[i] = static_cast<uint32_t>(i) * 2654435761u + static_cast<uint32_t>(s);
      }
      SKALD_CUDA(cudaMemcpy(cache_[s].as<void>(), host, static_cast<size_t>(slots * kStrides[s]),
                            cudaMemcpyHostToDevice));
    }
  }

  void step(const std::vector<int32_t>& chosen, bool for_cpu, float copied) {
    upload(chosen_.as<int32_t>(), chosen);
    std::vector<float> weights(chosen.size());
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i) + 1;
    upload(weights_.as<float>(), weights);
    cuda::ChooseSlotsLaunch choose = {};
    auto* const numbers = state_.as<int32_t>();
    auto* const used_at = reinterpret_cast<uint32_t*>(numbers + experts_ + slots_);
    choose.cache = {
        numbers, numbers + experts_, used_at, used_at + slots_, counts_.as<cuda::CacheCounts>(),
        slots_};
    choose.routing = {{rows_, used_, experts_},
                      chosen_.as<int32_t>(),
                      weights_.as<float>(),
                      nullptr,
                      nullptr,
                      nullptr};
    choose.slots = step_slots_.as<int32_t>();
    choose.moves = moves_.as<int32_t>();
    if (for_cpu) {
      choose.copied = copied;
      choose.cpu = {
          x_.as<void>(),
          x_.bytes(),
          cpu_x_.as<void>(),
          cpu_chosen_.as<int32_t>(),
          cpu_weights_.as<float>(),
          {turn_.as<cuda::Request>(), turn_.as<uint32_t>() + 1, turn_.as<uint32_t>() + 2}};
    }
    launch_choose_slots(choose, stream_);
    cuda::MoveExpertsLaunch move = {};
    for (int s = 0; s < 2; ++s) {
      move.stacks[s] = {host_[s].as<std::byte>(), cache_[s].as<std::byte>(),
                        all_[s].as<std::byte>(), kStrides[s]};
    }
    move.count = 2;
    move.slot_of = numbers;
    move.experts = experts_;
    move.blocks = 5;
    move.moves = choose.moves;
    SKALD_CUDA(cudaStreamSynchronize(stream_));
    launch_move_experts(move, stream_);
    move.moves = nullptr;
    for (DeviceMemory& all : all_) {
      SKALD_CUDA(cudaMemsetAsync(all.as<void>(), 0, static_cast<size_t>(all.bytes()), stream_));
    }
    launch_move_experts(move, stream_);  // those that the cache has
    SKALD_CUDA(cudaStreamSynchronize(stream_));
    check(chosen, weights, for_cpu, copied);
  }

  cuda::CacheCounts counts() const { return download(counts_.as<cuda::CacheCounts>(), 1)[0]; }

 private:
  void check(const std::vector<int32_t>& chosen, const std::vector<float>& weights, bool for_cpu,
             float copied) {
    const std::set<int> wanted(chosen.begin(), chosen.end());
    const int moves = expected_.choose(wanted, for_cpu ? copied : 1);
    const auto slot_of = download(state_.as<int32_t>(), static_cast<size_t>(experts_));
    const auto slots = download(step_slots_.as<int32_t>(), static_cast<size_t>(experts_));
    const bool asked = !expected_.on_cpu.empty();
    const auto lists = download(moves_.as<int32_t>(), 2);
    CHECK(lists[0] == asked);
    CHECK(lists[1] == moves);
    if (for_cpu) {
      CHECK(turn_.as<cuda::Request>()[0] ==
            (asked ? cuda::Request::Compute : cuda::Request::Nothing));
    }
    for (int e = 0; e < experts_; ++e) {
      const int slot = expected_.slot_of(e);
      CHECK(slot_of[static_cast<size_t>(e)] == slot);
      if (wanted.count(e)) {
        CHECK(slots[static_cast<size_t>(e)] == (expected_.on_cpu.count(e) ? 0 : slot));
      }
      for (int s = 0; s < 2; ++s) {
        const size_t bytes = static_cast<size_t>(kStrides[s]);
        const std::byte* host = host_[s].as<std::byte>() + e * kStrides[s];
        const std::vector<std::byte> right(host, host + bytes);
        const auto together = download(all_[s].as<std::byte>() + e * kStrides[s], bytes);
        CHECK(together == (slot < 0 ? std::vector<std::byte>(bytes) : right));
        if (slot < 0) continue;
        CHECK(download(cache_[s].as<std::byte>() + slot * kStrides[s], bytes) == right);
      }
    }
    const auto left = download(weights_.as<float>(), chosen.size());
    for (size_t i = 0; i < chosen.size(); ++i) {
      const bool on_cpu = expected_.on_cpu.count(chosen[i]) > 0;
      CHECK(left[i] == (on_cpu ? 0 : weights[i]));
      if (!asked) continue;
      CHECK(cpu_chosen_.as<int32_t>()[i] == (on_cpu ? chosen[i] : -1));
      CHECK(cpu_weights_.as<float>()[i] == weights[i]);
    }
    if (!asked) return;
    const auto rows = download(x_.as<std::byte>(), static_cast<size_t>(x_.bytes()));
    CHECK(std::equal(rows.begin(), rows.end(), cpu_x_.as<std::byte>()));
  }

  static constexpr int64_t kStrides[2] = {48 * 1024, 33 * 1024 + 16};

  int experts_, slots_, used_, rows_;
  Expected expected_;
  cuda::StreamOwner stream_;
  DeviceMemory state_{cuda::cache_state_size(experts_, slots_) * 4, "a test"},
      counts_{sizeof(cuda::CacheCounts), "a test"}, chosen_{rows_ * used_ * 4, "a test"},
      weights_{rows_ * used_ * 4, "a test"}, step_slots_{experts_ * 4, "a test"},
      moves_{(2 + 2 * experts_) * 4, "a test"}, x_{rows_ * 512, "a test"};
  PinnedMemory turn_{12, "a test"}, cpu_x_{rows_ * 512, "a test"},
      cpu_chosen_{rows_ * used_ * 4, "a test"}, cpu_weights_{rows_ * used_ * 4, "a test"};
  PinnedMemory host_[2] = {{experts_ * kStrides[0], "a test"}, {experts_ * kStrides[1], "a test"}};
  DeviceMemory cache_[2] = {{slots_ * kStrides[0], "a test"}, {slots_ * kStrides[1], "a test"}};
  DeviceMemory all_[2] = {{experts_ * kStrides[0], "a test"}, {experts_ * kStrides[1], "a test"}};
};

}  // namespace

TEST_CASE("chosen experts take the slots of those that were used longest ago", "[small]") {
  std::mt19937 random(3);
  struct Case {
    int experts, slots, used, rows;
  };
  for (const Case& c : {Case{8, 0, 2, 1}, Case{8, 1, 2, 1}, Case{8, 7, 2, 3}, Case{40, 12, 6, 1},
                        Case{40, 5, 6, 4}, Case{130, 64, 8, 2}}) {
    for (const bool for_cpu : {false, true}) {
      CAPTURE(c.experts, c.slots, c.used, c.rows, for_cpu);
      CacheOfLayer cache(c.experts, c.slots, c.used, c.rows);
      for (int step = 0; step < 12; ++step) {
        CAPTURE(step);
        std::vector<int32_t> chosen, all(static_cast<size_t>(c.experts));
        std::iota(all.begin(), all.end(), 0);
        for (int row = 0; row < c.rows; ++row) {
          // Low numbers more often, as some experts are in a real model.
          const int most = step % 3 == 0 ? c.experts : std::max(c.used, c.experts / 2);
          std::shuffle(all.begin(), all.begin() + most, random);
          std::sort(all.begin(), all.begin() + c.used);
          chosen.insert(chosen.end(), all.begin(), all.begin() + c.used);
        }
        cache.step(chosen, for_cpu, static_cast<float>(step % 4) / 4);
      }
      const cuda::CacheCounts counts = cache.counts();
      CHECK(counts.found + counts.copied + counts.others > 12u * static_cast<unsigned>(c.used) / 2);
    }
  }
}

}  // namespace skald::test
