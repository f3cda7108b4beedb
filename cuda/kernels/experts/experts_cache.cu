// choose_slots and move_experts: the cache of a layer's experts. The floor of a move is the link's
// speed: the bytes of the experts that are copied. choose_slots takes some microseconds in one
// block.
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/experts/experts_cache.h"
#include "cuda/kernels/host_rows/turn.cuh"
#include "engine/base/check.h"

namespace skald::cuda {
namespace {

constexpr int kThreads = 512;
constexpr uint32_t kInUse = ~0u;  // the age of a slot whose expert this step has chosen

// What becomes of an expert in this step. Read: it has no slot, and kernels read it on the host.
enum Fate : int { kNotChosen, kChosen, kRead };

// Shared memory of choose_slots. missing: the chosen experts without a slot, in their order.
struct Lists {
  int *fates, *missing;  // [experts]
  uint32_t* used_at;     // [slots], or kInUse

  __device__ Lists(int* memory, int experts)
      : fates(memory),
        missing(memory + experts),
        used_at(reinterpret_cast<uint32_t*>(memory + 2 * experts)) {}
  // Whole words of 16 bytes: the compiler may read two ages at once.
  static int bytes(int experts, int slots) { return (2 * experts + slots + 3) / 4 * 16; }
};

// Lists the missing experts and returns their number. The first warp calls this.
__device__ inline int list_missing(const Lists& lists, const int32_t* slot_of, int experts) {
  const int lane = static_cast<int>(threadIdx.x);
  int count = 0;
  for (int base = 0; base < experts; base += 32) {
    const int expert = base + lane;
    const bool missing = expert < experts && lists.fates[expert] && slot_of[expert] < 0;
    const unsigned all = __ballot_sync(~0u, missing);
    if (missing) lists.missing[count + __popc(all & ((1u << lane) - 1))] = expert;
    count += __popc(all);
  }
  return count;
}

__global__ void __launch_bounds__(kThreads) choose_slots(ChooseSlotsLaunch a) {
  extern __shared__ int memory[];
  __shared__ int missing, in_use;
  const CacheState& cache = a.cache;
  const Routing& r = a.routing;
  const Lists lists(memory, r.count);
  const int thread = static_cast<int>(threadIdx.x), choices = r.rows * r.used;
  if (thread == 0) in_use = 0;
  for (int e = thread; e < r.count; e += kThreads) lists.fates[e] = kNotChosen;
  wait_for_kernel_ahead();
  __syncthreads();
  for (int i = thread; i < choices; i += kThreads) lists.fates[r.chosen[i]] = kChosen;
  const uint32_t step = *cache.step + 1;
  __syncthreads();
  for (int s = thread; s < cache.slots; s += kThreads) {
    const bool wanted = lists.fates[cache.expert_of[s]];
    if (wanted) cache.used_at[s] = step;
    if (wanted) atomicAdd(&in_use, 1);
    lists.used_at[s] = wanted ? kInUse : cache.used_at[s];
  }
  if (thread < 32) {
    const int count = list_missing(lists, cache.slot_of, r.count);
    if (thread == 0) missing = count;
  }
  __syncthreads();

  // The link brings the first ones of the missing experts, to slots as far as there are some.
  const int brought = a.cpu.rows ? copied_experts(missing, a.copied) : missing;
  const int moves = min(cache.slots - in_use, brought);
  for (int i = moves + thread; i < brought; i += kThreads) lists.fates[lists.missing[i]] = kRead;
  // Each slot finds out how many others were used before it.
  for (int s = thread; s < cache.slots; s += kThreads) {
    const uint32_t own = lists.used_at[s];
    if (own == kInUse || moves == 0) continue;
    int before = 0;
    for (int other = 0; other < cache.slots; ++other) {
      const uint32_t at = lists.used_at[other];
      before += at < own || (at == own && other < s);
    }
    if (before >= moves) continue;
    const int expert = lists.missing[before];
    cache.slot_of[cache.expert_of[s]] = -1;
    cache.slot_of[expert] = s;
    cache.expert_of[s] = expert;
    cache.used_at[s] = step;
    a.moves[2 + 2 * before] = expert;
    a.moves[3 + 2 * before] = s;
  }
  if (thread == 0) {
    a.moves[0] = missing > brought;
    a.moves[1] = moves;
    *cache.step = step;
    cache.counts->found += in_use;
    cache.counts->copied += moves;
    cache.counts->others += missing - moves;
  }
  __syncthreads();

  for (int e = thread; e < r.count; e += kThreads) {
    const int slot = cache.slot_of[e];
    if (lists.fates[e] != kNotChosen) a.slots[e] = lists.fates[e] == kRead ? slot : max(slot, 0);
  }
  if (!a.cpu.rows) return;
  if (missing == brought) return send_request(a.cpu.turn, Request::Nothing);
  for (int i = thread; i < choices; i += kThreads) {
    const int expert = r.chosen[i];
    const bool on_gpu = cache.slot_of[expert] >= 0 || lists.fates[expert] == kRead;
    a.cpu.chosen[i] = on_gpu ? -1 : expert;
    a.cpu.weights[i] = r.weights[i];
    if (!on_gpu) r.weights[i] = 0;
  }
  for (int64_t i = thread; i < a.cpu.bytes / 16; i += kThreads) {
    static_cast<uint4*>(a.cpu.to)[i] = static_cast<const uint4*>(a.cpu.rows)[i];
  }
  send_request(a.cpu.turn, Request::Compute);
}

// A chunk of a matrix, which a block copies at once: so many words of 16 bytes a thread.
constexpr int kWords = 4;
constexpr int64_t kChunk = int64_t{kThreads} * kWords * 16;

__device__ inline int chunks_of(const CachedStack& stack) {
  return static_cast<int>((stack.stride + kChunk - 1) / kChunk);
}

__global__ void __launch_bounds__(kThreads)
    move_experts(__grid_constant__ const MoveExpertsLaunch a) {
  wait_for_kernel_ahead();
  int each = 0;  // chunks of an expert
  for (int s = 0; s < a.count; ++s) each += chunks_of(a.stacks[s]);
  const int experts = a.moves ? a.moves[1] : a.experts;
  for (int at = static_cast<int>(blockIdx.x); at < experts * each;
       at += static_cast<int>(gridDim.x)) {
    int chunk = at % each, s = 0;
    while (chunk >= chunks_of(a.stacks[s])) chunk -= chunks_of(a.stacks[s++]);
    const CachedStack& stack = a.stacks[s];
    const int expert = a.moves ? a.moves[2 + 2 * (at / each)] : at / each;
    const int slot = a.moves ? a.moves[3 + 2 * (at / each)] : a.slot_of[expert];
    if (slot < 0) continue;
    std::byte* const cached = stack.cache + slot * stack.stride;
    const std::byte* const from = a.moves ? stack.host + expert * stack.stride : cached;
    std::byte* const to = a.moves ? cached : stack.all + expert * stack.stride;
    uint4 words[kWords];
    const auto place = [&](int i) {
      return chunk * kChunk + (int64_t{i} * kThreads + threadIdx.x) * 16;
    };
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      if (place(i) < stack.stride)
        words[i] = __ldcs(reinterpret_cast<const uint4*>(from + place(i)));
    }
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      if (place(i) < stack.stride) *reinterpret_cast<uint4*>(to + place(i)) = words[i];
    }
  }
}

}  // namespace

void launch_choose_slots(const ChooseSlotsLaunch& a, Stream stream) {
  constexpr int kMostBytes = 48 << 10;
  const int bytes = Lists::bytes(a.routing.count, a.cache.slots);
  check(bytes <= kMostBytes, "the lists of a cache fit a block");
  launch_kernel(choose_slots, {dim3(1), kThreads, static_cast<size_t>(bytes)}, stream, a);
}

void launch_move_experts(const MoveExpertsLaunch& a, Stream stream) {
  launch_kernel(move_experts, {dim3(static_cast<unsigned>(a.blocks)), kThreads}, stream, a);
}

}  // namespace skald::cuda
