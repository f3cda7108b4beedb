// experts_one: experts_few and combine in one kernel, for one row. It computes the down products of
// all the row's experts and adds their weighted sum to the residual stream, with the same bits as
// the two kernels. A decode step has one kernel less in its chain, and blocks have more to read.
//
// A block has 16 weight rows of every chosen expert. A warp has a slice of the columns, as in
// experts_few, for one expert after the other.
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/experts/experts_tile.cuh"
#include "cuda/kernels/experts/experts_weights.cuh"

namespace skald::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kMostUsed = kMostOneUsed;
static_assert(kMostUsed * tiles::kRows <= kThreads);

template <class Part>
__global__ void __launch_bounds__(kThreads, 1)
    experts_one(__grid_constant__ const ExpertsLaunch a, float* x, float scale) {
#if SKALD_HAS_MMA
  __shared__ float partials[kMostUsed][kMostSlices][tiles::kRows], sums_of[kMostUsed][tiles::kRows];
  constexpr int kWarps = kThreads / 32;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int parts = parts_of(a.ins), slices = slices_of(parts), together = kWarps / slices;
  const int slice = warp % slices, first_expert = warp / slices, used = a.routing.used;
  const int64_t first = int64_t{blockIdx.x} * tiles::kRows;
  let_next_kernel_start();
  wait_for_kernel_ahead();

  const int chosen = lane < used ? __ldcg(a.routing.chosen + lane) : 0;
  // There are no more slices than parts, so every slice has a part.
  const int each = (parts - slice + slices - 1) / slices;
  const int experts = first_expert < used ? (used - first_expert + together - 1) / together : 0;
  const int steps = each * experts;
  using Step = PartAndInput<Part>;
  const auto load = [&](Step& to, int step) {
    const int place = first_expert + step / each * together;
    typename Part::Rows rows;
    rows.set(a, __shfl_sync(~0u, chosen, place), first);
    to.load(rows, static_cast<const typename Part::Number*>(a.in) + place * a.ins, a.ins,
            slice + step % each * slices);
  };
  Step now, next;
  if (steps > 0) load(now, 0);
  float sums[4] = {};
#pragma unroll 2
  for (int step = 0; step < steps; ++step) {
    if (step + 1 < steps) load(next, step + 1);
    now.multiply(sums);
    if (step % each == each - 1) {
      float* to = partials[first_expert + step / each * together][slice];
      if (lane % 4 == 0) {
        to[lane / 4] = sums[0];
        to[lane / 4 + 8] = sums[2];
      }
#pragma unroll
      for (float& sum : sums) sum = 0;
    }
    now = next;
  }
  __syncthreads();
  const int row = static_cast<int>(threadIdx.x) % tiles::kRows;
  const int place = static_cast<int>(threadIdx.x) / tiles::kRows;
  if (place < used) {
    float sum = 0;
    for (int i = 0; i < slices; ++i) sum += partials[place][i][row];
    sums_of[place][row] = sum;
  }
  __syncthreads();
  if (place > 0 || first + row >= a.outs) return;
  float sum = 0;
  for (int i = 0; i < used; ++i) sum = fmaf(__ldcg(a.routing.weights + i), sums_of[i][row], sum);
  x[first + row] = fmaf(scale, sum, __ldcg(x + first + row));
#endif
}

}  // namespace

void launch_experts_one(const ExpertsLaunch& a, float* x, float scale, Stream stream) {
  const dim3 blocks(static_cast<unsigned>(row_blocks(a, tiles::kRows)));
  dispatch_parts(a, [&](auto* part) {
    using Part = std::remove_pointer_t<decltype(part)>;
    launch_kernel(experts_one<Part>, {blocks, kThreads, 0, a.dependent}, stream, a, x, scale);
  });
}

}  // namespace skald::cuda
