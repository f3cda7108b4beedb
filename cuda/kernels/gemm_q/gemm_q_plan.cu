// Chooses the share of each block of gemm_q_sm90, by a cost model fitted to time stamps and by the
// number of blocks that the GPU runs at a time.
#include <algorithm>

#include "cuda/gpu/check.h"
#include "cuda/kernels/gemm_q/gemm_q.cuh"
#include "cuda/kernels/gemm_q/gemm_q.h"
#include "cuda/kernels/tiles/odd_columns.h"
#include "cuda/kernels/tiles/pairs.h"

namespace skald::cuda {
namespace {

constexpr int kMostBytes = 226 * 1024;
constexpr int kAlign = 1024;
constexpr int kMostPairWaves = 16;

// The most groups of a block, which its registers allow, and its most bytes.
struct Limits {
  int groups = kMostGroups, bytes = kMostBytes;
};

// Attention's 128 threads take 128 registers each, or 224 if strips are loaded straight into
// registers. Which of the two depends on the bytes that attention reads. Here the rows decide, for
// simplicity: from 5 rows on the KV cache of most models has enough bytes for the ring.
constexpr int kRowsInRegisters = 4;
Limits limits_of(const LinearLaunch& a) {
  if (!a.gemm_q.beside_attention) return {};
  return {a.rows <= kRowsInRegisters ? 8 : 12, kBytesBesideAttention};
}

__global__ void whole_multiprocessor() {}  // is never launched

// Completes a plan with the bytes of its rings, within `most_bytes`. False if fewer than two slots
// of weights fit beside the ring of activations.
template <class F>
bool fill(GemmQPlan& plan, int most_bytes) {
  const int chunk = std::min(kStepCols<F> * plan.tile_rows * 2, 16384);
  plan.warps = (plan.tile_groups + 3) / 4 * 4;
  constexpr int kBytes = kStepRecords<F> * F::kRecordBytes;
  // If records are not multiples of 128 bytes, a record may begin anywhere in a line of memory.
  plan.pitch = (kBytes + (F::kRecordBytes % 128 ? 127 + 128 - 16 : 127)) / 128 * 128;
  plan.slot_sums_at = (plan.tile_groups * plan.pitch + 255) / 256 * 256;
  plan.slot_bytes = plan.slot_sums_at + (kSumsApart<F> ? plan.tile_rows * kRowSumBytes : 0);
  const int steps = (plan.steps + plan.splits - 1) / plan.splits;
  const int chunks = steps * (kStepCols<F> * plan.tile_rows * 2 / chunk);
  plan.activation_slots = std::clamp(std::min(49152 / chunk, chunks), 3, kGemmMostSlots);
  const int left = most_bytes - kAlign - plan.activation_slots * chunk;
  plan.weight_slots = std::min(left / plan.slot_bytes, kGemmMostSlots);
  const int rings = plan.activation_slots * chunk + plan.weight_slots * plan.slot_bytes;
  const int sent = plan.tile_rows <= kMostRowsSent ? plan.tile_rows + plan.splits - 1 : 0;
  const int sums = (plan.tile_rows + sent) * (plan.tile_groups * tiles::kRows + 4) * 4;
  plan.bytes = std::max(rings, sums) + kAlign;
  return plan.weight_slots >= 2 && plan.bytes <= most_bytes;
}

int clusters_of(int blocks, const GemmQRoom& room) {
  // A twentieth stays in reserve: if all clusters were needed, the last one would wait for the last
  // blocks of the kernel ahead.
  const double all = blocks == 1 ? room.multiprocessors : 0.95 * room.clusters.of[blocks];
  return std::max(1, static_cast<int>(all * room.share));
}

// Estimates a product's cycles with `at_once` clusters at a time, to compare plans. Fitted to time
// stamps of Q4_K: a part of a tile takes a warp 290 cycles by itself, and 60 + 5.2 * rows for each
// warp on its scheduler.
template <class F>
double cost(const GemmQPlan& plan, const GemmQRoom& room, int at_once, double work = 1) {
  const int tiles = plan.tiles * plan.row_tiles;
  const int waves = (tiles + at_once - 1) / at_once;
  const int steps = (plan.steps + plan.splits - 1) / plan.splits;
  const double parts = steps * kStepParts<F>;
  const double loop = work * parts * (290 + (60 + 5.2 * plan.tile_rows) * (plan.warps / 4));
  // The read bandwidth of one multiprocessor, and of all.
  const double bytes = double{kStepRecords<F>} * F::kRecordBytes * steps * plan.tile_groups;
  const int blocks = std::min(tiles, at_once) * plan.splits;
  const double memory =
      std::max(bytes / 25, bytes * blocks / (17.0 * room.multiprocessors * room.share));
  const int of_warp =
      (plan.tile_rows / plan.splits * (plan.tile_groups > 8 ? 2 : 1) + plan.warps - 1) / plan.warps;
  const double end = 1000.0 * of_warp + (plan.splits > 1 ? 600 + 800 * plan.splits : 0);
  return waves * (3000 + std::max(loop, memory) + end);
}

// The fields that all plans of a product share.
template <class F>
GemmQPlan begin_plan(const LinearLaunch& a) {
  GemmQPlan plan = {};
  plan.tile_rows = gemm_q_tile_rows(a.rows);
  plan.row_tiles = (a.rows + plan.tile_rows - 1) / plan.tile_rows;
  plan.groups = static_cast<int>((a.outs + tiles::kRows - 1) / tiles::kRows);
  plan.records = static_cast<int>((a.ins + F::kRecordCols - 1) / F::kRecordCols);
  plan.column_share = 1 / static_cast<float>(a.ins);
  plan.steps = (plan.records + kStepRecords<F> - 1) / kStepRecords<F>;
  plan.at = PreparedLayout(a.rows, a.ins);
  plan.next_at = PreparedLayout(a.rows, a.outs);
  if (a.gemm_q.next_norm_weight) plan.next_odd = odd_columns(a.gemm_q.next_format);
  return plan;
}

template <class F>
bool divide(GemmQPlan& plan, int splits, int tile_groups, const Limits& limits) {
  if (tile_groups > limits.groups || splits > std::min(kMostCluster, plan.steps)) return false;
  plan.splits = splits;
  plan.inverse =
      ((1u << kInverseBits) + static_cast<unsigned>(splits) - 1) / static_cast<unsigned>(splits);
  plan.tile_groups = tile_groups;
  plan.less = 0;
  plan.tiles = (plan.groups + tile_groups - 1) / tile_groups;
  return fill<F>(plan, limits.bytes);
}

// Gives every multiprocessor a block. The blocks of the first multiprocessors have more groups than
// the others, by one warpgroup's groups. They start while the kernel ahead still runs, so their
// rings are full when the other blocks start.
void even_out(GemmQPlan& plan, int at_once) {
  constexpr int kLess = 4, kFewest = 8;
  const int narrow = plan.tile_groups - kLess;
  if (plan.splits > 1 || plan.row_tiles > 1 || narrow < kFewest) return;
  const int places = (plan.tiles + at_once - 1) / at_once * at_once;
  const int wide = (plan.groups - places * narrow + kLess - 1) / kLess;
  if (wide < 0 || wide >= plan.tiles) return;
  plan.wide_tiles = wide;
  plan.less = kLess;
  plan.tiles = wide + (plan.groups - wide * plan.tile_groups + narrow - 1) / narrow;
}

template <class F>
GemmQPlan make_plan(const LinearLaunch& a, const GemmQRoom& room) {
  const Limits limits = limits_of(a);
  GemmQPlan plan = begin_plan<F>(a), best = {};
  double least = 0;
  for (int splits = 1; splits <= kMostCluster; ++splits) {
    for (int groups = 1; groups <= kMostGroups; ++groups) {
      // Stored activations have a sum for every 32 columns, gated ones for every 16. A block must
      // have all columns of a sum, so the number of groups is even.
      if ((a.gemm_q.next_norm_weight || a.gemm_q.prepares.memory) && groups % 2 > 0) continue;
      if (!divide<F>(plan, splits, groups, limits)) continue;
      const double cycles = cost<F>(plan, room, clusters_of(splits, room));
      // With equal costs the plan with fewer blocks is better: it reads activations less often.
      if (best.bytes > 0 && cycles > least) continue;
      best = plan;
      least = cycles;
    }
  }
  if (best.bytes > 0) even_out(best, clusters_of(1, room));
  return best;
}

// The time of a part relative to Q4_K, by bytes. For Q6_K that is 1.4; time stamps show 1.5.
template <class F>
constexpr double part_work = double{F::kRecordBytes} / F::kParts /
                             (double{tiles::Q4_K::kRecordBytes} / tiles::Q4_K::kParts);

// Takes as few waves of blocks as possible, divided so that both matrices end soonest.
template <class F, class G>
void make_pair_plans(GemmQPair& pair, const GemmQRoom& whole) {
  const Limits limits = limits_of(pair.a);
  GemmQPlan plan = begin_plan<F>(pair.a), other = begin_plan<G>(pair.b);
  GemmQRoom room = whole, other_room = whole;
  room.share = double{F::kRecordBytes} * plan.records * plan.groups;
  other_room.share = double{G::kRecordBytes} * other.records * other.groups;
  const double bytes = room.share + other_room.share;
  room.share /= bytes, other_room.share /= bytes;
  double least = 0;
  for (int waves = 1; pair.plan.bytes == 0 && waves <= kMostPairWaves; ++waves) {
    for (int splits = 1; splits <= kMostCluster; ++splits) {
      const int clusters = waves * clusters_of(splits, whole);
      for (int own = 1; own < clusters; ++own) {
        const int rest = clusters - own;
        if (!divide<F>(plan, splits, (plan.groups + own - 1) / own, limits) ||
            !divide<G>(other, splits, (other.groups + rest - 1) / rest, limits)) {
          continue;
        }
        const double cycles = std::max(cost<F>(plan, room, plan.tiles, part_work<F>),
                                       cost<G>(other, other_room, other.tiles, part_work<G>));
        if (pair.plan.bytes > 0 && cycles > least) continue;
        pair.plan = plan;
        pair.b_plan = other;
        least = cycles;
      }
    }
  }
}

}  // namespace

GemmQPlan plan_gemm_q(const LinearLaunch& launch, const GemmQRoom& room) {
  GemmQPlan plan = {};
  tiles::dispatch(launch.format, [&](auto f) { plan = make_plan<decltype(f)>(launch, room); });
  return plan;
}

GemmQPair plan_gemm_q_pair(const LinearLaunch& a, const LinearLaunch& b, const GemmQRoom& room) {
  GemmQPair pair = {a, b, {}, {}};
  tiles::dispatch_pair(a.format, b.format, [&]<class F, class G>(tiles::Pair<F, G>) {
    make_pair_plans<F, G>(pair, room);
  });
  return pair;
}

ClusterRoom cluster_room() {
  ClusterRoom room;
  const auto kernel = whole_multiprocessor;
  SKALD_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostBytes));
  for (int blocks = 1; blocks <= kMostCluster; ++blocks) {
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = static_cast<unsigned>(blocks);
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(static_cast<unsigned>(blocks));
    config.blockDim = dim3(128);
    config.dynamicSmemBytes = kMostBytes;
    config.attrs = &cluster;
    config.numAttrs = 1;
    SKALD_CUDA(cudaOccupancyMaxActiveClusters(&room.of[blocks], kernel, &config));
  }
  return room;
}

}  // namespace skald::cuda
