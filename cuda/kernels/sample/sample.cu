// Picks tokens with any settings. Floor: the row read once from L2 or memory (128256 floats are 0.5
// MB), and a launch.
//
// A cluster holds a row in its shared memory, so that everything after the first pass is fast: the
// best token, the model's total weight, bias and penalties, then the draw. Nearly every filter
// leaves few tokens. Then one histogram ranks the tokens roughly, and block 0 gets the tokens above
// the cut, sorts them, cuts and draws. Otherwise each cut, and then the draw, is a search for the
// token at which a sum over the ranking reaches a goal.
#include "cuda/kernels/sample/sample.h"

#include <cfloat>

#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/sample/adjusted_logit.cuh"
#include "cuda/kernels/sample/row_search.cuh"
#include "engine/base/check.h"

namespace skald::cuda {
namespace {

// A block's shared memory, in front of its slice of the row.
struct alignas(16) SampleShared {
  RowShared row;
  SampleRow settings;
};

__device__ SampleShared& block_memory() {
  extern __shared__ __align__(16) unsigned char bytes[];
  return *reinterpret_cast<SampleShared*>(bytes);
}

// The blocks of a row, and this block's rank among them. Below sm_90, and where the row is not in
// shared memory, a row has one block (sample_shape()). The compiler then leaves out the code for
// several.
template <bool kInShared>
__device__ int row_blocks() {
#if __CUDA_ARCH__ >= 900
  if constexpr (kInShared) return static_cast<int>(gridDim.x);
#endif
  return 1;
}
template <bool kInShared>
__device__ int row_rank() {
#if __CUDA_ARCH__ >= 900
  if constexpr (kInShared) return static_cast<int>(blockIdx.x);
#endif
  return 0;
}

template <bool kInShared>
class RowSampler {
 public:
  __device__ RowSampler(const SampleLaunch& a, int index, SampleShared& shared)
      : launch_(a),
        index_(index),
        settings_(shared.settings),
        shared_(shared.row),
        raw_(a.logits + index * a.vocab),
        vocab_(static_cast<int>(a.vocab)),
        count_(kInShared ? static_cast<int>(a.shape.row_bytes / sizeof(float)) : vocab_),
        begin_(row_rank<kInShared>() * count_),
        x_(kInShared ? reinterpret_cast<float*>(&shared + 1) : raw_),
        row_(shared.row, row_rank<kInShared>(), row_blocks<kInShared>(), x_, begin_, count_),
        mask_(a.masks + index * mask_words(a.vocab)),
        adjustments_(a.adjustments + index * kMostAdjustments) {}

  __device__ void run(const SampleRow& row, SampleResult& result) {
    load(row);
    if (settings_.skipped) return;
    if (best_key_ == kBadKey) return report_bad(result);
    if (best_ < -FLT_MAX) return report(SampleStatus::AllMasked);
    const uint64_t model_best = best_key_;
    row_.send_total();
    if (settings_.top_tokens > 0) report_top(result);
    int token = 0;
    const SampleStatus status = choose(token);
    const uint64_t total = row_.blocks().total();  // no block exits before its total has arrived
    if (status != SampleStatus::Picked) return report(status);
    report(result, token, model_best, total);
  }

 private:
  __device__ SampleStatus choose(int& token) {
    token = settings_.forced;
    if (token >= 0) {
      return raw_[token] < -FLT_MAX ? SampleStatus::AllBanned : SampleStatus::Picked;
    }
    if (kInShared && settings_.masked) {
      forbid();
      if (best_ < -FLT_MAX) return SampleStatus::AllForbidden;
    }
    if (settings_.adjustments > 0) adjust();
    const bool any = best_ >= -FLT_MAX;
    if (any) token = id_of_key(settings_.temperature == 0 ? best_key_ : draw());
    restore();
    return any ? SampleStatus::Picked : SampleStatus::AllBanned;
  }

  // ---- The row ----

  // Loads the row into shared memory, four numbers at a time if rows are aligned for that. The
  // settings arrive meanwhile.
  __device__ void load(const SampleRow& row) {
    constexpr int kWords = sizeof(SampleRow) / sizeof(uint32_t);
    static_assert(sizeof(SampleRow) % sizeof(uint32_t) == 0 && kWords <= kRowThreads);
    const bool reads = threadIdx.x < kWords;
    uint32_t word = 0;
    if (reads) word = reinterpret_cast<const uint32_t*>(&row)[threadIdx.x];
    Best best;
    if (kInShared) {
      const bool aligned = vocab_ % 4 == 0;
#pragma unroll 4
      for (int i = 4 * static_cast<int>(threadIdx.x); i < count_; i += 4 * kRowThreads) {
        const float* from = raw_ + begin_ + i;
        const int left = vocab_ - begin_ - i;
        float4 four = make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
        if (aligned && left > 0) {
          four = *reinterpret_cast<const float4*>(from);
        } else if (left > 0) {
          four.x = from[0];
          if (left > 1) four.y = from[1];
          if (left > 2) four.z = from[2];
          if (left > 3) four.w = from[3];
        }
        *reinterpret_cast<float4*>(x_ + i) = four;
        best.see(four.x, begin_ + i);
        best.see(four.y, begin_ + i + 1);
        best.see(four.z, begin_ + i + 2);
        best.see(four.w, begin_ + i + 3);
      }
    } else {
      row_.each([&](float logit, int id) { best.see(logit, id); });
    }
    if (reads) reinterpret_cast<uint32_t*>(&settings_)[threadIdx.x] = word;
    __syncthreads();
    agree_on(best);
  }

  // The best of one thread's tokens.
  struct Best {
    float logit = -INFINITY;
    int id = 0;
    bool bad = false;

    __device__ void see(float other, int other_id) {
      bad |= !(other <= FLT_MAX);
      if (other > logit) logit = other, id = other_id;
    }
  };

  __device__ void find_best() {
    Best best;
    row_.each([&](float logit, int id) { best.see(logit, id); });
    agree_on(best);
  }

  __device__ void agree_on(const Best& best) {
    const uint64_t mine = best.bad ? kBadKey : rank_key(best.logit, best.id);
    best_key_ = row_.blocks().best(mine);
    best_ = logit_of_key(best_key_);
    row_.set_best(best_key_, mine);
  }

  // Gives -inf to all tokens that the mask does not allow.
  __device__ void forbid() {
    __syncthreads();  // all threads have read the unmasked row
    for (int i = threadIdx.x; i < min(count_, vocab_ - begin_); i += kRowThreads) {
      const int id = begin_ + i;
      if (!(__ldg(mask_ + id / 64) >> (id % 64) & 1)) x_[i] = -INFINITY;
    }
    __syncthreads();
    find_best();
  }

  // Applies bias and penalties. Each thread keeps one logit for restore().
  __device__ void adjust() {
    const int entry = threadIdx.x;
    static_assert(kMostAdjustments <= kRowThreads);
    __syncthreads();  // all threads have read the unadjusted row
    if (entry < settings_.adjustments) {
      const TokenAdjustment first = adjustments_[entry];
      const int i = first.token - begin_;
      const bool repeated = entry > 0 && adjustments_[entry - 1].token == first.token;
      if (i >= 0 && i < count_ && !repeated) {
        changed_ = i;
        was_ = x_[i];
        float logit = was_;
        for (int e = entry; e < settings_.adjustments && adjustments_[e].token == first.token;
             ++e) {
          logit = finite_logit(double{logit} + double{adjustments_[e].bias}, logit);
        }
        x_[i] = penalized_logit(logit, first.count, settings_);
      }
    }
    __syncthreads();
    find_best();
  }

  __device__ void restore() {
    if (kInShared || settings_.adjustments == 0) return;
    __syncthreads();  // all threads have read the changed row
    if (changed_ >= 0) x_[changed_] = was_;
    __syncthreads();
  }

  // ---- The draw ----

  // The share of the whole row that top-p keeps: its weight (0: not known), and the bin where that
  // weight is reached.
  struct Nucleus {
    uint64_t weight;
    Crossing end;
  };

  // All blocks call this. Only the result of block 0 counts.
  __device__ uint64_t draw() {
    const bool top_k = settings_.top_k > 0, top_p = settings_.top_p < 1;
    const float floor = fmaxf(best_ + settings_.log_min_p, -FLT_MAX);
    Nucleus nucleus = {0, {kBins, 0}};
    if (top_k && settings_.top_k <= kMostListed) {
      const int listed = row_.list_best(settings_.top_k);
      return draw_from_list(min(listed, settings_.top_k), floor, 0);
    }
    if (!top_k && top_p) {
      const bool all = settings_.adjustments == 0 && !settings_.masked;
      const uint64_t total = all ? row_.blocks().total() : row_.weigh(kAny, 1);
      nucleus.weight = nucleus_weight(settings_.top_p, total);
      nucleus.end = row_.reach_roughly({true, 1}, nucleus.weight);
    }
    if (!top_k && (top_p || floor > -FLT_MAX)) {
      const int listed = row_.list({0, nucleus.end.bin, lowest_key(floor)});
      if (listed <= kMostListed) {
        if (row_.blocks().leads()) sort_list(shared_, listed);
        return draw_from_list(listed, floor, nucleus.weight);
      }
    }
    return draw_from_all(floor, nucleus);
  }

  // The lowest key that a token with this logit could have.
  __device__ static uint64_t lowest_key(float floor) { return rank_key(floor, kIdMask); }

  // nucleus: the weight that top-p keeps; if 0, it is computed from the list's total.
  __device__ uint64_t draw_from_list(int count, float floor, uint64_t nucleus) {
    if (!row_.blocks().leads()) return 0;
    if (settings_.top_p < 1) {
      const int place = reach_in_list(shared_, count, {true, 1}, best_, [&](uint64_t total) {
        return nucleus > 0 ? nucleus : nucleus_weight(settings_.top_p, total);
      });
      count = min(count, place + 1);
    }
    if (settings_.top_k > 0) {  // without top-k, the list has no token below the floor
      uint64_t above = 0;
      for (int place = threadIdx.x; place < count; place += kRowThreads) {
        above += shared_.list[place] >= lowest_key(floor);
      }
      count = static_cast<int>(block_sum(above, shared_).total);
    }
    const int place =
        reach_in_list(shared_, count, {true, settings_.temperature}, best_,
                      [&](uint64_t total) { return drawn_weight(settings_.u, total); });
    return shared_.list[place];
  }

  // Cuts by top-k and by top-p, each at the last token kept. The draw is a third cut: the last
  // token that it keeps is the token drawn.
  __device__ uint64_t draw_from_all(float floor, const Nucleus& nucleus) {
    uint64_t last = kAny;
    enum { TopK, TopP, Draw };
#pragma unroll 1
    for (int stage = TopK; stage <= Draw; ++stage) {
      if (stage == TopK && settings_.top_k == 0) continue;
      if (stage == TopP && settings_.top_p == 1) continue;
      if (stage == Draw) last = max_key(last, lowest_key(floor));
      const Measure measure = {stage != TopK, stage == Draw ? settings_.temperature : 1};
      const bool known = stage == TopP && nucleus.weight > 0;
      uint64_t goal = stage == TopK ? static_cast<uint64_t>(settings_.top_k) : nucleus.weight;
      if (stage != TopK && !known) {
        const uint64_t total = row_.weigh(last, measure.temperature);
        goal = stage == Draw ? drawn_weight(settings_.u, total)
                             : nucleus_weight(settings_.top_p, total);
      }
      const Crossing end = known ? nucleus.end : row_.reach_roughly(measure, goal);
      last = max_key(last, row_.reach(end, measure, goal));  // 0: top-k exceeds the row's tokens
    }
    return last;
  }

  __device__ static uint64_t max_key(uint64_t a, uint64_t b) { return a > b ? a : b; }

  // ---- Results ----

  // All blocks have passed a barrier since they read the settings.
  __device__ void end(SampleStatus status, int token) {
    end_pick(launch_, index_, settings_.next, status, token);
  }

  __device__ void report(SampleStatus status) {
    if (row_.blocks().leads() && threadIdx.x == 0) end(status, 0);
  }

  // best: the best token's key, before adjustments.
  __device__ void report(SampleResult& result, int token, uint64_t best, uint64_t total) {
    if (!row_.blocks().leads() || threadIdx.x != 0) return;
    result.token = token;
    const float best_logit = logit_of_key(best);
    // A key does not have the sign of a zero, so zeros are read from the row.
    const bool known = token == id_of_key(best) && best_logit != 0;
    result.logit = known ? best_logit : raw_[token];
    result.best = best_logit;
    result.total = total;
    if (settings_.top_tokens == 0) result.top_tokens = 0;
    end(SampleStatus::Picked, token);
  }

  __device__ void report_bad(SampleResult& result) {
    uint64_t bad = 0, first = 0;
    row_.each([&](float logit, int id) {
      if (logit <= FLT_MAX) return;
      ++bad;
      const uint64_t rank = kIdMask - static_cast<uint64_t>(id);
      first = rank > first ? rank : first;
    });
    bad = row_.blocks().sum(bad).total;
    first = row_.blocks().best(first);
    if (row_.blocks().leads() && threadIdx.x == 0) {
      result.bad = static_cast<int32_t>(bad);
      result.first_bad = static_cast<int32_t>(kIdMask - first);
    }
    report(SampleStatus::NotFinite);
  }

  __device__ void report_top(SampleResult& result) {
    const int listed = row_.list_best(settings_.top_tokens);
    if (!row_.blocks().leads()) return;
    const int count = min(listed, settings_.top_tokens);
    const int place = threadIdx.x;
    if (place < count) {
      const int id = id_of_key(shared_.list[place]);
      result.top[place] = {id, raw_[id]};
    }
    if (place == 0) result.top_tokens = count;
    if (launch_.results_on_host) __threadfence_system();  // before another thread writes the status
  }

  const SampleLaunch& launch_;
  int index_;
  SampleRow& settings_;  // in shared memory
  RowShared& shared_;
  float* raw_;                 // [vocab], the row in the launch's memory
  int vocab_, count_, begin_;  // count_ tokens from begin_ on are this block's slice,
  float* x_;                   // [count_], the slice with its adjustments
  RowSearch<kInShared> row_;
  const uint64_t* mask_;  // [mask_words(vocab)], if settings_.masked
  const TokenAdjustment* adjustments_;
  int changed_ = -1;  // the entry of x_ that this thread changed, or -1,
  float was_ = 0;     // and that entry's earlier value
  uint64_t best_key_ = 0;
  float best_ = 0;  // the largest logit
};

template <bool kInShared>
__global__ void __launch_bounds__(kRowThreads) sample(const __grid_constant__ SampleLaunch a) {
  let_next_kernel_start();
  const int index = blockIdx.y;
  RowSampler<kInShared>(a, index, block_memory()).run(a.rows[index], a.results[index]);
}

}  // namespace

// The most blocks per row that fill the GPU once. With more blocks, some clusters would start late.
SampleShape sample_shape(int64_t vocab, int rows, const SampleGpu& gpu) {
  int blocks = gpu.most_blocks;
  while (blocks > 1 && int64_t{rows} * blocks > gpu.multiprocessors) blocks /= 2;
  const int64_t fours = (vocab + 4 * blocks - 1) / (4 * blocks);
  const int64_t row_bytes = fours * int64_t{sizeof(float4)};
  if (int64_t{sizeof(SampleShared)} + row_bytes > gpu.most_shared_bytes) return {1, false, 0};
  return {blocks, true, row_bytes};
}

int most_rows_in_shared(int64_t vocab, const SampleGpu& gpu) {
  int rows = gpu.multiprocessors;
  while (rows > 0 && !sample_shape(vocab, rows, gpu).in_shared) rows /= 2;
  return rows;
}

void launch_sample(const SampleLaunch& a, Stream stream) {
  if (a.count == 0) return;
  check(a.vocab <= kMostWeighedTokens, "a vocabulary that fits a token's key");
  check(a.shape.in_shared || a.shape.blocks == 1, "a row outside shared memory has one block");
  const auto kernel = a.shape.in_shared ? sample<true> : sample<false>;
  const int bytes = static_cast<int>(int64_t{sizeof(SampleShared)} + a.shape.row_bytes);
  SKALD_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = static_cast<unsigned>(a.shape.blocks);
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(a.shape.blocks, a.count);
  config.blockDim = dim3(kRowThreads);
  config.dynamicSmemBytes = static_cast<size_t>(bytes);
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = a.shape.blocks > 1 ? 1 : 0;
  SKALD_CUDA(cudaLaunchKernelEx(&config, kernel, a));
}

}  // namespace skald::cuda
