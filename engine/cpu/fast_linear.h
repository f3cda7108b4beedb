// Matrix products on the thread pool. Chooses the kernels for a weight's format and splits output
// rows over the threads. A sum over k is never split, so results do not depend on the split.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/buffer.h"
#include "engine/cpu/fast_linear_float.h"
#include "engine/cpu/fast_linear_int8.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/thread_pool.h"

namespace skald::cpu {

// The most input rows of any product: a step's rows, or the rows of the experts.
int64_t product_rows(const KernelOptions& options);

class FastLinear {
 public:
  FastLinear(const KernelOptions& options, ThreadPool& pool);

  void run(const LinearArgs& args) { run({&args, 1}, args.in, args.rows); }
  // Runs several products together, for routed experts. All weights have the same format and shape.
  // `in`, [rows, in_dim], contains the input of each product.
  void run(std::span<const LinearArgs> products, const float* in, int64_t rows);
  // Like run(), with float32 activations whatever the weight's format.
  void run_float(const LinearArgs& args) { run_float({&args, 1}); }

 private:
  void run_float(std::span<const LinearArgs> products);
  void run_int8(std::span<const LinearArgs> products, const float* in, int64_t rows,
                const Int8Format& format);
  // Computes outputs [first, first + outs) of all rows, on one thread.
  void float_outputs(const LinearArgs& args, int64_t first, int64_t outs, float* scratch) const;
  void int8_outputs(const LinearArgs& args, Int8Product product, int64_t first, int64_t outs,
                    float* scratch) const;
  // Splits the outputs of all products into one share for each thread, in multiples of `unit`. Each
  // thread takes chunks of its own share first, so that it uses what it prefetched, and then chunks
  // of other shares. Calls fn(product, first output, outputs, scratch).
  void share_out(std::span<const LinearArgs> products, int64_t unit);
  template <class Fn>
  void take_chunks(int thread, std::span<const LinearArgs> products, const Fn& fn);
  int64_t panel_floats() const;

  struct alignas(64) Share {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };

  const bool exact_;
  const int64_t max_rows_, max_cols_;
  ThreadPool& pool_;
  const FloatKernels& float_;
  const Int8Kernels& int8_;
  std::vector<Buffer> scratch_;  // one for each thread
  Buffer quantized_;             // int8 activations of a call
  std::vector<Share> shares_;    // one for each thread
  int64_t chunk_ = 0;            // outputs of a chunk
  int64_t padded_ = 0;           // outputs of a product, rounded up to whole units
};

}  // namespace skald::cpu
