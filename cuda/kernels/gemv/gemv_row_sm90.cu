// gemv_sm90 for one row: the same sums in the same order, with fewer instructions. Instructions
// take most of a short kernel's time: a warp issues one in about five cycles.
//
// The weights are the large operand (16 rows) of the tensor cores' product, in the order in which
// they lie in memory. A lane loads 8 adjacent columns of a weight row: columns 0, 1, 4 and 5 are
// the operand's row g, the other four its row g + 8. The activation row is the small operand,
// staged in the same order. Columns 0 and 1 of the result belong to those two rows in one half of a
// step, columns 2 and 3 in the other half. The other columns of the result are unused.
//
// Warps do not wait for each other between groups of 8 weight rows. Each stores its share of a
// group's sums and goes on to the next group. They take turns at finishing: one warp waits for all
// shares of a group and writes its results.
#include "cuda/kernels/gemv/gemv_row_sm90.h"

#include <algorithm>

#include "cuda/kernels/device/all_shared.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/mma.cuh"
#include "cuda/kernels/device/number.cuh"
#include "cuda/kernels/gemv/activations.cuh"
#include "cuda/kernels/gemv/gemv_layout.h"
#include "cuda/kernels/gemv/weight_ring.cuh"

namespace skald::cuda {
namespace {

constexpr int kThreads = kConsumers + 32;

using namespace gemv_row;  // its shared memory

// The groups that a block multiplies. Tickets are drawn two groups ahead of their use: under load
// the answer takes as long as a group.
struct RowGroups {
  int taken = 0;
  unsigned ticket = 0;  // in lanes 0 and 1 by turns

  // All lanes of a warp must call this together.
  template <class AnyLayout>
  __device__ int next(const LinearLaunch& a, const AnyLayout& layout) {
    const int block = static_cast<int>(blockIdx.x), blocks = static_cast<int>(gridDim.x);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int shared = layout.own * blocks, extra = taken - layout.own;
    int group = block * layout.own + taken;
    if (extra >= 0 && layout.by_ticket) {
      group = shared + static_cast<int>(__shfl_sync(~0u, ticket, extra & 1));
    } else if (extra >= 0) {
      group = extra == 0 ? shared + block : layout.groups;
    }
    if (group >= layout.groups) {
      // Each block draws two numbers that are too high. The block that draws the last one sets the
      // ticket back to zero.
      const int last = layout.groups - shared + 2 * blocks - 1;
      if (layout.by_ticket && lane < 2 && static_cast<int>(ticket) == last) *a.gemv.ticket = 0;
      return kNoMore;
    }
    if (layout.by_ticket && extra >= -2 && lane == (extra & 1))
      ticket = atomicAdd(a.gemv.ticket, 1u);
    ++taken;
    return group;
  }

  // The block's i-th group, or kNoMore if the group depends on a ticket.
  template <class AnyLayout>
  static __device__ int known(const AnyLayout& layout, int i) {
    const int block = static_cast<int>(blockIdx.x);
    if (i < layout.own) return block * layout.own + i;
    const int group = layout.own * static_cast<int>(gridDim.x) + block;
    return i == layout.own && !layout.by_ticket && group < layout.groups ? group : kNoMore;
  }
};

// The one result that a lane has in a group (8 weight rows, or 4 gated pairs). begin() loads the
// bias and the old value of the output, long before write() needs them.
template <class T>
struct Finish {
  float bias[2] = {0, 0}, old = 0;
  bool mine = false;

  __device__ void begin(const LinearLaunch& a, int group) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const bool gated = a.epilogue == Epilogue::Gated;
    const int64_t row = int64_t{group} * kTileRows + (gated ? 2 * lane : lane);
    mine = lane < (gated ? kTileRows / 2 : kTileRows) && row < a.outs;
    if (!mine) return;
    if (a.bias) {
      bias[0] = a.bias[row];
      if (gated) bias[1] = a.bias[row + 1];
    }
    if (a.epilogue == Epilogue::AddTo) old = __ldcg(static_cast<const float*>(a.out) + row);
  }

  __device__ void write(const LinearLaunch& a, int group, const float* set) const {
    if (!mine) return;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const auto sum_of = [&](int row, float sum) {
      const float4* shares = reinterpret_cast<const float4*>(set + row * kConsumerWarps);
#pragma unroll
      for (int i = 0; i < kConsumerWarps / 4; ++i) {
        const float4 four = shares[i];
        sum += four.x, sum += four.y, sum += four.z, sum += four.w;
      }
      return sum;
    };
    if (a.epilogue == Epilogue::Gated) {
      const float gate = sum_of(2 * lane, bias[0]), up = sum_of(2 * lane + 1, bias[1]);
      static_cast<T*>(a.out)[int64_t{group} * (kTileRows / 2) + lane] =
          from_float<T>(activate_briefly(gate, a.activation) * up);
      return;
    }
    const float sum = sum_of(lane, bias[0]);
    const int64_t at = int64_t{group} * kTileRows + lane;
    if (a.epilogue == Epilogue::Store) {
      static_cast<T*>(a.out)[at] =
          from_float<T>(a.activates ? activate_briefly(sum, a.activation) : sum);
    } else {
      static_cast<float*>(a.out)[at] = old + a.scale * sum;
    }
  }
};

// The layout of staged activations, in bytes: columns 4 i and 4 i + 1 at place_of(4 i), the next
// two columns kOtherRow further.
template <class T>
struct Staged {
  static constexpr int kOtherRow = 32;
  static __device__ int place_of(int col) {
    return col / kStep * 128 + col % kStep / 32 * 64 + col % 32 / 8 * 8 + col % 8;
  }
};

// The first kConsumers threads call this after the wait for the kernel ahead.
template <class T>
__device__ void stage_row(const LinearLaunch& a, char* activations) {
  constexpr int kInFlight = 8;
  const uint4* in = static_cast<const uint4*>(a.in);
  const int count = static_cast<int>(a.ins / 8);
#pragma unroll 1
  for (int first = threadIdx.x; first < count; first += kInFlight * kConsumers) {
    uint4 x[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (first + i * kConsumers < count) x[i] = __ldcg(in + first + i * kConsumers);
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int at = first + i * kConsumers;
      if (at >= count) break;
      char* to = activations + Staged<T>::place_of(8 * at);
      *reinterpret_cast<uint2*>(to) = {x[i].x, x[i].z};
      *reinterpret_cast<uint2*>(to + Staged<T>::kOtherRow) = {x[i].y, x[i].w};
    }
  }
}

// The first kConsumers threads call this. It loads the norm's weights, and then waits for the
// kernel ahead.
template <class T>
__device__ void stage_normed_row(const LinearLaunch& a, char* activations, float* scratch) {
  constexpr int kKept = 4;  // float4 that a thread keeps: all of a row of up to 4096 columns
  const float* in = static_cast<const float*>(a.in);
  const int count = static_cast<int>(a.ins / 4), mine = static_cast<int>(threadIdx.x);
  float4 x[kKept], weight[kKept];
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    if (mine + i * kConsumers < count) weight[i] = load4(a.norm_weight, mine + i * kConsumers);
  }
  const float share = 1 / static_cast<float>(a.ins);
  wait_for_kernel_ahead();
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    x[i] = mine + i * kConsumers < count ? load4(in, mine + i * kConsumers) : float4{};
  }
#pragma unroll
  for (int i = 0; i < kKept; ++i) sum += squares(x[i]);
#pragma unroll 1
  for (int at = mine + kKept * kConsumers; at < count; at += kConsumers) {
    sum += squares(load4(in, at));
  }
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = sum;
  consumers_synchronize();
  sum = 0;
#pragma unroll
  for (int warp = 0; warp < kConsumerWarps; ++warp) sum += scratch[warp];
  const float scale = norm_scale(a, sum, share);
  const auto store = [&](int at, float4 v, float4 w) {
    char* to = activations + Staged<T>::place_of(4 * at);
    *reinterpret_cast<uint32_t*>(to) = pack(T(), v.x * scale * w.x, v.y * scale * w.y);
    *reinterpret_cast<uint32_t*>(to + Staged<T>::kOtherRow) =
        pack(T(), v.z * scale * w.z, v.w * scale * w.w);
  };
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    const int at = mine + i * kConsumers;
    if (at < count) store(at, x[i], weight[i]);
  }
#pragma unroll 1
  for (int at = mine + kKept * kConsumers; at < count; at += kConsumers) {
    store(at, load4(in, at), load4(a.norm_weight, at));
  }
}

// Multiplies 8 weight rows by 32 columns.
template <class T>
__device__ void multiply(float (&sums)[4], uint4 weights, uint2 in) {
  mma(T(), sums, {weights.x, weights.y, weights.z, weights.w}, in.x, in.y);
}

// `begun`: this warp's first group is known, and finish.begin() was called for it.
template <class T>
__device__ void consume(const LinearLaunch& a, const Layout& layout, const char* tiles, Ring& ring,
                        float* sets, const char* activations, Finish<T> finish, bool begun) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, c = lane % 4;
  // Byte offsets of this lane's 8 columns. `begin`: the lane's weight row in the first half of a
  // step; `other`: distance from there to the second half. `row` and `other_in` are the same for
  // activations, which lanes 16 to 31 load a second time.
  const int begin = g * kRowBytes + warp * 128 + c * 16 + g % 2 * 64;
  const int other = g % 2 ? -64 : 64;
  const int half = g % 4 / 2;
  const char* const row =
      activations + warp * 128 + half * 64 + g % 2 * Staged<T>::kOtherRow + c * 8;
  const int other_in = half ? -64 : 64;
  constexpr int kTileSteps = kTileCols / kStep;
  // The number of the first of kConsumerWarps named barriers, which groups use in turn.
  constexpr int kFirstBarrier = 2;
  // Bytes from a warp's first step of a tile to its second.
  constexpr int kNext = kConsumerWarps * 128;
  Turn turn;
  for (int count = 0;; ++count) {
    const char* in_at = row;
    // Steps from this warp's next step to the end of the row, including other warps' steps.
    int steps = layout.steps - warp;
    uint2 in[4];
    const auto load_in = [&] {
      const int far = steps > kConsumerWarps ? kNext : 0;
      in[0] = *reinterpret_cast<const uint2*>(in_at);
      in[1] = *reinterpret_cast<const uint2*>(in_at + other_in);
      in[2] = *reinterpret_cast<const uint2*>(in_at + far);
      in[3] = *reinterpret_cast<const uint2*>(in_at + far + other_in);
    };
    // The activations arrive while the warp waits for weights.
    if (steps > 0) load_in();
    barrier_wait(&ring.full[turn.slot], turn.lap & 1);
    const int group = ring.group_at[turn.slot];
    if (group == kNoMore) break;
    const bool finishes = count % kConsumerWarps == warp;
    if (finishes && !begun) finish.begin(a, group);
    if (finishes) begun = false;
    float sums[4] = {};
    for (;;) {
      const char* tile = tiles + turn.slot * kSlotBytes + begin;
      const auto weights = [&](int at) { return *reinterpret_cast<const uint4*>(tile + at); };
      uint4 w[4];
      if (steps > 0) w[0] = weights(0), w[1] = weights(other);
      if (steps > kConsumerWarps) w[2] = weights(kNext), w[3] = weights(kNext + other);
      __syncwarp();
      if (lane == 0) barrier_arrive(&ring.empty[turn.slot]);
      turn.next(layout.slots);
      if (steps > 0) {
        multiply<T>(sums, w[0], in[0]);
        multiply<T>(sums, w[1], in[1]);
      }
      if (steps > kConsumerWarps) {
        multiply<T>(sums, w[2], in[2]);
        multiply<T>(sums, w[3], in[3]);
      }
      in_at += kRowBytes;
      steps -= kTileSteps;
      if (steps + warp <= 0) break;
      if (steps > 0) load_in();
      barrier_wait(&ring.full[turn.slot], turn.lap & 1);
    }
    // Results of even weight rows are in columns 0 and 1, those of odd rows in columns 2 and 3.
    float* set = sets + count % kSets * kSetFloats;
    if (c == g % 2) set[g * kConsumerWarps + warp] = sums[0] + sums[3];
    const int id = kFirstBarrier + count % kConsumerWarps;
    if (finishes) {
      asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(kConsumers) : "memory");
      finish.write(a, group, set);
    } else {
      asm volatile("bar.arrive %0, %1;" ::"r"(id), "n"(kConsumers) : "memory");
    }
  }
}

// Few enough registers that two blocks and one of attention_decode fit on a multiprocessor.
template <class T>
__global__ void __launch_bounds__(kThreads + 32, 3)
    gemv_row(__grid_constant__ const LinearLaunch a, __grid_constant__ const Layout layout) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) char shared[];
  __shared__ Ring ring;
  __shared__ float scratch[kConsumerWarps];
  ring.init(layout.slots, kConsumerWarps);
  __syncthreads();
  let_next_kernel_start();
  if (threadIdx.x >= kConsumers) {
    fetch_weights<T>(a, layout, RowGroups(), shared, ring);
    return;
  }
  char* activations = shared + layout.activations_at;
  Finish<T> finish;
  bool begun = false;
  if (a.norm_weight) {
    stage_normed_row<T>(a, activations, scratch);
  } else {
    wait_for_kernel_ahead();
    const int first = RowGroups::known(layout, static_cast<int>(threadIdx.x) / 32);
    begun = first != kNoMore;
    if (begun) finish.begin(a, first);
    stage_row<T>(a, activations);
  }
  consumers_synchronize();
  consume<T>(a, layout, shared, ring, reinterpret_cast<float*>(shared + layout.sets_at),
             activations, finish, begun);
#endif
}

template <class T>
void launch(const LinearLaunch& a, int multiprocessors, Stream stream) {
  const Layout layout = layout_for(a, a.gemv.paired, multiprocessors);
  SKALD_CUDA(cudaFuncSetAttribute(gemv_row<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  kMostBlockBytes));
  ask_for_all_shared(gemv_row<T>);
  launch_kernel(gemv_row<T>,
                {dim3(multiprocessors), kThreads, static_cast<size_t>(layout.bytes), a.dependent},
                stream, a, layout);
}

}  // namespace

void launch_gemv_row_sm90(const LinearLaunch& a, int multiprocessors, Stream stream) {
  if (a.type == DType::F16) {
    launch<Half>(a, multiprocessors, stream);
  } else {
    launch<Bf16>(a, multiprocessors, stream);
  }
}

}  // namespace skald::cuda
