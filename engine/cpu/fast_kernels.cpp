// The fast CPU kernels: SIMD for this CPU, chosen at run time, on a pool of threads.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "engine/base/buffer.h"
#include "engine/cpu/cache_rows.h"
#include "engine/cpu/fast_attention.h"
#include "engine/cpu/fast_experts.h"
#include "engine/cpu/fast_linear.h"
#include "engine/cpu/fast_pointwise.h"
#include "engine/cpu/fast_share.h"
#include "engine/cpu/fast_states.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/thread_pool.h"
#include "engine/memory/kv_pages.h"

namespace skald::cpu {
namespace {

class FastKernels final : public Kernels {
 public:
  explicit FastKernels(const KernelOptions& options)
      : pool_(options.threads, options.patient),
        linear_(options, pool_),
        experts_(options, pool_, linear_),
        pointwise_(pointwise_kernels()) {
    tiles_.reserve(static_cast<size_t>(options.max_rows));
    runs_.reserve(static_cast<size_t>(options.max_rows));
  }

  void embed(const EmbedArgs& a) override {
    const auto decode = info(a.weight.type).decode_row;
    each(a.rows, a.weight.cols, [&](int64_t r) {
      float* out = a.out + r * a.weight.cols;
      decode(a.weight.row(a.tokens[r]), out, a.weight.cols);
      if (a.scale != 1) pointwise_.cap(out, a.weight.cols, a.scale, 0);
    });
  }

  void rms_norm(const RmsNormArgs& a) override {
    each(a.rows, a.dim, [&](int64_t r) {
      pointwise_.rms_norm(a.in + r * a.dim, a.weight_of(r), a.out + r * a.dim, a.dim, a.eps);
    });
  }

  void layer_norm(const LayerNormArgs& a) override {
    each(a.rows, a.dim, [&](int64_t r) {
      pointwise_.layer_norm(a.in + r * a.dim, a.weight, a.bias, a.out + r * a.dim, a.dim, a.eps);
    });
  }

  void linear(const LinearArgs& a) override { linear_.run(a); }

  void rope(const RopeArgs& a) override {
    const RotationTable table = rotations(a);
    each(a.rows, int64_t{a.heads} * a.head_dim, [&](int64_t r) {
      for (int h = 0; h < a.heads; ++h) {
        pointwise_.rotate(table, r, a.x + (r * a.heads + h) * a.head_dim);
      }
    });
  }

  void attention(const AttentionArgs& a) override {
    const AttentionSpec& s = a.spec;
    const int64_t floats = attention_scratch_floats(s, a.cache.types);
    if (floats > scratch_floats_) {  // first call for this model
      scratch_ = Buffer(floats * pool_.threads() * int64_t{sizeof(float)}, "attention's workspace");
      scratch_floats_ = floats;
    }
    split_into_tiles(a);
    const int64_t tiles = static_cast<int64_t>(tiles_.size()) * s.kv_heads;
    std::atomic<int64_t> next{0};
    pool_.run([&](int thread, int threads) {
      float* const scratch = scratch_.as<float>() + thread * scratch_floats_;
      for (int64_t r = thread; a.k && r < a.rows; r += threads) append(a, r, scratch);
      pool_.barrier();
      for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < tiles;) {
        AttentionTile tile = tiles_[static_cast<size_t>(i / s.kv_heads)];
        tile.kv_head = i % s.kv_heads;
        attention_.attend(tile, scratch);
      }
    });
  }

  void head_part(const HeadPartArgs& a) override {
    const HeadPart& p = a.part;
    each(a.rows, a.in_cols, [&](int64_t r) {
      const float* in = a.in + r * a.in_cols + p.first;
      float* out = a.out + r * a.out_cols + p.to;
      for (int64_t h = 0; h < p.heads; ++h) {
        std::copy_n(in + h * (a.in_cols / p.heads), p.cols,
                    out + h * (p.width == 0 ? p.cols : p.width));
      }
    });
  }

  void causal_conv(const CausalConvArgs& a) override {
    split_into_runs(a.at, a.rows);
    share_range(pool_, a.cols, [&](int64_t from, int64_t count) {
      for (const StateRun& run : runs_) states_.causal_conv(a, run, from, count);
    });
  }

  void delta_net(const DeltaNetArgs& a) override {
    split_into_runs(a.at, a.rows);
    const int64_t floats = delta_scratch_floats(a.spec);
    delta_scratch_.resize(static_cast<size_t>(floats * pool_.threads()));
    const int64_t units = std::ssize(runs_) * a.spec.value_heads;
    std::atomic<int64_t> next{0};
    pool_.run([&](int thread, int) {
      for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < units;) {
        const StateRun& run = runs_[static_cast<size_t>(i / a.spec.value_heads)];
        states_.delta_net(a, run, static_cast<int>(i % a.spec.value_heads),
                          delta_scratch_.data() + thread * floats);
      }
    });
  }

  void state_space(const StateSpaceArgs& a) override {
    split_into_runs(a.at, a.rows);
    const int64_t heads = a.spec.heads, units = std::ssize(runs_) * heads;
    std::atomic<int64_t> next{0};
    pool_.run([&](int, int) {
      for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < units;) {
        states_.state_space(a, runs_[static_cast<size_t>(i / heads)], static_cast<int>(i % heads));
      }
    });
  }

  void gated_act(const GatedActArgs& a) override {
    ranges(a.count, [&](int64_t from, int64_t count) {
      pointwise_.gated_act(a.activation, a.gate + from, a.up + from, a.out + from, count);
    });
  }

  void activate(const ActivateArgs& a) override {
    ranges(a.count, [&](int64_t from, int64_t count) {
      pointwise_.activate(a.activation, a.in + from, a.out + from, count);
    });
  }

  void row_gate(const RowGateArgs& a) override {
    each(a.rows, a.dim + a.cols, [&](int64_t r) {
      const double dot = pointwise_.dot(a.in + r * a.dim, a.weight, a.dim);
      const float factor = static_cast<float>(1 / (1 + std::exp(-dot)));
      pointwise_.cap(a.x + r * a.cols, a.cols, factor, 0);
    });
  }

  void experts(const ExpertsArgs& a) override { experts_.run(a); }

  void add(const AddArgs& a) override {
    ranges(a.count, [&](int64_t from, int64_t count) {
      pointwise_.add({a.x + from, a.y + from, count, a.scale, a.keep});
    });
  }

  void cap(const CapArgs& a) override {
    ranges(a.count, [&](int64_t from, int64_t count) {
      pointwise_.cap(a.x + from, count, a.scale, a.softcap);
    });
  }

  uint64_t read_all(std::span<const std::byte> bytes) override {
    constexpr int64_t kChunk = 1 << 20;
    const int64_t size = static_cast<int64_t>(bytes.size());
    std::atomic<int64_t> next{0};
    std::atomic<uint64_t> total{0};
    pool_.run([&](int, int) {
      uint64_t sum = 0;
      for (int64_t from; (from = next.fetch_add(kChunk, std::memory_order_relaxed)) < size;) {
        sum += pointwise_.sum_bytes(bytes.data() + from, std::min(kChunk, size - from));
      }
      total.fetch_add(sum, std::memory_order_relaxed);
    });
    return total;
  }

  std::string description() const override {
    const int threads = pool_.threads();
    return std::string(pointwise_.target) + ", " + std::to_string(threads) +
           (threads == 1 ? " thread" : " threads");
  }

 private:
  template <class Fn>
  void each(int64_t rows, int64_t cols, const Fn& fn) {
    share_rows(pool_, rows, cols, fn);
  }

  template <class Fn>
  void ranges(int64_t count, const Fn& fn) {
    share_range(pool_, count, fn);
  }

  // Cosines and sines of one RopeSpec for the positions of a call. They are kept between calls
  // because all layers of a step rotate q and k by the same angles.
  struct Rotations {
    std::vector<float> inv_freq;
    float scale = 1;
    std::vector<int64_t> positions;
    std::vector<float> cos, sin;  // [positions, inv_freq]
  };

  Rotations& rotations_of(const RopeSpec& spec) {
    constexpr size_t kMost = 4;  // a model has one or two specs
    for (Rotations& one : rotations_) {
      if (one.inv_freq == spec.inv_freq && one.scale == spec.scale) return one;
    }
    if (rotations_.size() == kMost) rotations_.erase(rotations_.begin());
    return rotations_.emplace_back(Rotations{spec.inv_freq, spec.scale, {}, {}, {}});
  }

  RotationTable rotations(const RopeArgs& a) {
    Rotations& table = rotations_of(*a.spec);
    const int64_t pairs = static_cast<int64_t>(table.inv_freq.size());
    const std::span<const int64_t> positions(a.positions, static_cast<size_t>(a.rows));
    if (!std::equal(positions.begin(), positions.end(), table.positions.begin(),
                    table.positions.end())) {
      table.positions.assign(positions.begin(), positions.end());
      table.cos.resize(static_cast<size_t>(a.rows * pairs));
      table.sin.resize(static_cast<size_t>(a.rows * pairs));
      each(a.rows, pairs * 32, [&](int64_t r) {  // a sine takes about as long as 32 additions
        for (int64_t i = 0; i < pairs; ++i) {
          // The product is computed in float32, as in Hugging Face: at long positions the rounding
          // matters.
          const float angle = static_cast<float>(positions[static_cast<size_t>(r)]) *
                              table.inv_freq[static_cast<size_t>(i)];
          table.cos[static_cast<size_t>(r * pairs + i)] = std::cos(angle) * table.scale;
          table.sin[static_cast<size_t>(r * pairs + i)] = std::sin(angle) * table.scale;
        }
      });
    }
    return {table.cos.data(), table.sin.data(), pairs, a.spec->interleaved};
  }

  void append(const AttentionArgs& a, int64_t r, float* scratch) {
    const int64_t head_dim = a.spec.head_dim;
    append_row(a, r, scratch, [&](CacheType type, const float* from, CacheBytes<std::byte> to) {
      if (type == CacheType::F16) {
        attention_.to_f16(from, reinterpret_cast<uint16_t*>(to.codes), head_dim);
      } else {
        encode_cache(type, from, head_dim, to);
      }
    });
  }

  void split_into_tiles(const AttentionArgs& a) {
    tiles_.clear();
    for (int64_t r = 0; r < a.rows; ++r) {
      const bool continues = r > 0 && a.at[r].pages.data() == a.at[r - 1].pages.data() &&
                             a.at[r].position == a.at[r - 1].position + 1 &&
                             tiles_.back().rows < kAttentionRows;
      if (continues) {
        ++tiles_.back().rows;
      } else {
        tiles_.push_back({&a, r, 1, 0});
      }
    }
  }

  void split_into_runs(const StateRow* at, int64_t rows) {
    runs_.clear();
    for (int64_t r = 0; r < rows; ++r) {
      if (r > 0 && at[r].state == at[r - 1].state) {
        ++runs_.back().count;
      } else {
        runs_.push_back({r, 1});
      }
    }
  }

  ThreadPool pool_;
  FastLinear linear_;
  FastExperts experts_;
  const PointwiseKernels& pointwise_;
  const AttentionKernels& attention_ = attention_kernels();
  const StateKernels& states_ = state_kernels();

  Buffer scratch_;  // [threads, scratch_floats_], for attention
  int64_t scratch_floats_ = 0;
  std::vector<AttentionTile> tiles_;

  std::vector<StateRun> runs_;
  std::vector<float> delta_scratch_;  // a part for each thread

  std::vector<Rotations> rotations_;  // the most recent specs
};

}  // namespace

std::unique_ptr<Kernels> fast_kernels(const KernelOptions& options) {
  return std::make_unique<FastKernels>(options);
}

}  // namespace skald::cpu
