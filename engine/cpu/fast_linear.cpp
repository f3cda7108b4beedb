#include "engine/cpu/fast_linear.h"

#include <algorithm>
#include <cstring>

#include "engine/base/error.h"
#include "engine/cpu/fast_experts.h"
#include "engine/quant/dtype.h"

namespace skald::cpu {
namespace {

// The size of a panel: converted weights that all rows of a call share. It fills a good part of a
// core's L2 cache.
constexpr int64_t kPanelFloats = 128 * 1024;
// Up to this many rows, int8 weights are unpacked into the L1 cache, one range of columns at a
// time. With more rows, a panel of all columns is unpacked.
constexpr int64_t kFewRows = 16;
constexpr int64_t kFewColumns = 256;
// How far ahead int8 weights are prefetched, in groups of `lanes` weight rows.
constexpr int64_t kGroupsAhead = 2;
// Small chunks let other threads take over the work of a thread that lost its core for a while.
constexpr int64_t kChunksPerThread = 8;

// Bytes of the int8 activations (Int8Rows) of a product, an upper bound over all block formats.
int64_t quantized_bytes(int64_t rows, int64_t k, int64_t unit) {
  const int64_t blocks = rows * (k / kInt8Block + 1);
  return blocks * (kInt8Block / 4 * unit + 4 + 2 * 4 + 2 * 4);
}

// The planes from row `row` on.
Int8Rows rows_from(Int8Rows planes, int64_t row, const Int8Format& format, int64_t unit) {
  planes.x += row * planes.k / 4 * unit;
  planes.scale += row * planes.k / kInt8Block;
  planes.start += row * planes.k / format.sub_block;
  planes.sum += row * planes.k / format.sub_block;
  return planes;
}

Int8Rows int8_rows(std::byte* memory, int64_t rows, int64_t k, int64_t unit) {
  const int64_t blocks = rows * k / kInt8Block;
  Int8Rows planes{};
  planes.x = memory;
  planes.scale = reinterpret_cast<float*>(planes.x + blocks * kInt8Block / 4 * unit);
  planes.start = reinterpret_cast<int32_t*>(planes.scale + blocks);
  planes.sum = reinterpret_cast<float*>(planes.start + 2 * blocks);
  planes.k = k;
  return planes;
}

}  // namespace

int64_t product_rows(const KernelOptions& options) {
  return std::max(expert_rows(options), int64_t{1});
}

FastLinear::FastLinear(const KernelOptions& options, ThreadPool& pool)
    : exact_(options.exact),
      max_rows_(product_rows(options)),
      max_cols_(std::max<int64_t>(options.max_cols, 1)),
      pool_(pool),
      float_(float_kernels()),
      int8_(int8_kernels()),
      shares_(static_cast<size_t>(pool.threads())) {
  // Besides the panel, a thread needs room for the partial sums between two ranges of columns, and
  // for the last weight rows of an int8 product.
  const int64_t carried = std::max(float_.sums_floats(kPanelFloats / float_.depth),
                                   (2 * kFewRows + max_cols_ / 2) * int8_.lanes);
  for (int t = 0; t < pool.threads(); ++t) {
    scratch_.emplace_back((panel_floats() + carried) * int64_t{sizeof(float)},
                          "the matrix product's workspace");
  }
  if (!exact_) {
    quantized_ = Buffer(quantized_bytes(max_rows_, max_cols_, int8_.unit), "int8 activations");
  }
}

int64_t FastLinear::panel_floats() const {
  return std::max({kPanelFloats, 4 * max_cols_, max_cols_ * int8_.lanes / 2});
}

void FastLinear::run(std::span<const LinearArgs> products, const float* in, int64_t rows) {
  const TensorView& weight = products.front().weight;
  check(rows <= max_rows_ && weight.cols <= max_cols_, "a product fits the workspace");
  const Int8Format* format = exact_ ? nullptr : int8_.find(weight.type);
  if (format) {
    run_int8(products, in, rows, *format);
  } else {
    run_float(products);
  }
}

void FastLinear::share_out(std::span<const LinearArgs> products, int64_t unit) {
  padded_ = (products.front().weight.rows + unit - 1) / unit * unit;
  const int64_t threads = pool_.threads(), units = std::ssize(products) * padded_ / unit;
  chunk_ = std::max<int64_t>(units / (threads * kChunksPerThread), 1) * unit;
  for (int64_t t = 0; t < threads; ++t) {
    Share& share = shares_[static_cast<size_t>(t)];
    share.next.store(units * t / threads * unit, std::memory_order_relaxed);
    share.end = units * (t + 1) / threads * unit;
  }
}

template <class Fn>
void FastLinear::take_chunks(int thread, std::span<const LinearArgs> products, const Fn& fn) {
  float* scratch = scratch_[static_cast<size_t>(thread)].as<float>();
  for (size_t i = 0; i < shares_.size(); ++i) {
    Share& share = shares_[(static_cast<size_t>(thread) + i) % shares_.size()];
    for (int64_t first;
         (first = share.next.fetch_add(chunk_, std::memory_order_relaxed)) < share.end;) {
      const int64_t end = std::min(first + chunk_, share.end);
      for (int64_t at = first, next; at < end; at = next) {
        const LinearArgs& product = products[static_cast<size_t>(at / padded_)];
        next = std::min(end, (at / padded_ + 1) * padded_);
        const int64_t out = at % padded_;
        fn(product, out, std::min(next - at, product.weight.rows - out), scratch);
      }
    }
  }
}

void FastLinear::run_float(std::span<const LinearArgs> products) {
  share_out(products, 16);
  pool_.run([&](int thread, int) {
    take_chunks(thread, products,
                [&](const LinearArgs& args, int64_t first, int64_t outs, float* scratch) {
                  float_outputs(args, first, outs, scratch);
                });
  });
}

void FastLinear::float_outputs(const LinearArgs& args, int64_t first, int64_t outs,
                               float* scratch) const {
  const TensorView& weight = args.weight;
  const int64_t cols = weight.cols;
  const bool direct = info(weight.type).block_elems == 1 && args.rows <= float_.tile_rows;
  FloatProduct p{};
  p.x = args.in;
  p.x_stride = cols;
  p.out_stride = weight.rows;
  p.rows = args.rows;
  p.k = cols;
  if (!direct && cols > float_.depth) p.sums = scratch + panel_floats();
  const int64_t panel = direct ? outs : std::max<int64_t>(4, kPanelFloats / cols / 4 * 4);
  for (int64_t o = first; o < first + outs; o += panel) {
    p.outs = std::min(panel, first + outs - o);
    p.bias = args.bias ? args.bias + o : nullptr;
    p.out = args.out + o;
    if (direct || weight.type == DType::F32) {
      p.type = weight.type;
      p.w = weight.row(o);
      p.w_stride = weight.row_bytes;
    } else {
      for (int64_t r = 0; r < p.outs; ++r) {
        if (has_float_weights(weight.type)) {
          float_.convert(weight.type, weight.row(o + r), scratch + r * cols, cols);
        } else {
          info(weight.type).decode_row(weight.row(o + r), scratch + r * cols, cols);
        }
      }
      p.type = DType::F32;
      p.w = reinterpret_cast<const std::byte*>(scratch);
      p.w_stride = cols * int64_t{sizeof(float)};
    }
    float_.product(p);
  }
}

void FastLinear::run_int8(std::span<const LinearArgs> products, const float* in, int64_t rows,
                          const Int8Format& format) {
  const int64_t outs = products.front().weight.rows, cols = products.front().weight.cols;
  const Int8Rows x = int8_rows(quantized_.data(), rows, cols, int8_.unit);
  const int64_t blocks = rows * cols / kInt8Block;
  share_out(products, 2 * int8_.lanes);
  pool_.run([&](int thread, int threads) {
    int8_.quantize(in, format, x, blocks * thread / threads, blocks * (thread + 1) / threads);
    pool_.barrier();
    take_chunks(thread, products,
                [&](const LinearArgs& args, int64_t first, int64_t count, float* scratch) {
                  Int8Product p{};
                  p.format = &format;
                  p.x = rows_from(x, (args.in - in) / cols, format, int8_.unit);
                  p.rows = args.rows;
                  p.out_stride = outs;
                  int8_outputs(args, p, first, count, scratch);
                });
  });
}

void FastLinear::int8_outputs(const LinearArgs& args, Int8Product p, int64_t first, int64_t outs,
                              float* scratch) const {
  const TensorView& weight = args.weight;
  const int64_t cols = weight.cols, lanes = int8_.lanes, own_bytes = weight.own_row_bytes();
  const bool few = args.rows <= kFewRows;
  const int64_t range = few ? std::min(kFewColumns, cols) : cols;
  const int64_t group_floats = p.format->packed_floats(range, lanes);
  const int64_t panel_groups = few ? 1 : std::max<int64_t>(1, kPanelFloats / group_floats);
  float* carried = scratch + panel_floats();
  auto* tail = reinterpret_cast<std::byte*>(carried + 2 * kFewRows * lanes);
  p.panel = scratch;
  p.sums = carried;
  for (int64_t o = first; o < first + outs; o += panel_groups * lanes) {
    p.outs = std::min(panel_groups * lanes, first + outs - o);
    p.groups = (p.outs + lanes - 1) / lanes;
    p.bias = args.bias ? args.bias + o : nullptr;
    p.out = args.out + o;
    const bool has_tail = p.outs % lanes != 0;
    if (has_tail) {  // the rest of `tail` holds old values; its lanes are not stored
      const int64_t full = (p.groups - 1) * lanes;
      for (int64_t r = full; r < p.outs; ++r) {
        std::memcpy(tail + (r - full) * own_bytes, weight.row(o + r),
                    static_cast<size_t>(own_bytes));
      }
    }
    if (args.rows == 1 && p.format->multiply_row) {
      const std::byte* rows = has_tail ? tail : weight.row(o);
      const int64_t stride = has_tail ? own_bytes : weight.row_bytes;
      p.format->multiply_row({rows, stride, weight.row(o + kGroupsAhead * lanes)}, p.x, carried);
      for (int64_t i = 0; i < p.outs; ++i) p.out[i] = carried[i] + (p.bias ? p.bias[i] : 0.0f);
      continue;
    }
    for (p.k = 0; p.k < cols; p.k += p.count) {
      p.count = std::min(range, cols - p.k);
      for (int64_t g = 0; g < p.groups; ++g) {
        const bool is_tail = has_tail && g == p.groups - 1;
        const std::byte* rows = is_tail ? tail : weight.row(o + g * lanes);
        float* to = scratch + g * p.format->packed_floats(p.count, lanes);
        const std::byte* ahead = weight.row(o + (g + kGroupsAhead) * lanes);
        p.format->unpack({rows, is_tail ? own_bytes : weight.row_bytes, ahead}, p.k, p.count,
                         p.format->cut(to, p.count, lanes));
      }
      int8_.product(p);
    }
  }
}

}  // namespace skald::cpu
