// Matrix products on the thread pool: picks the kernels for a weight's format and splits output
// rows over the threads. Sums over k are never split, so results do not depend on the split.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "engine/buffer.h"
#include "engine/cpu/fast_linear_float.h"
#include "engine/cpu/fast_linear_int8.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/thread_pool.h"

namespace skald::cpu {

class FastLinear {
 public:
  FastLinear(const KernelOptions& options, ThreadPool& pool);

  void run(const LinearArgs& args);

 private:
  void run_float(const LinearArgs& args);
  void run_int8(const LinearArgs& args, const Int8Format& format);
  // Outputs [first, first + outs) of all rows, on one thread.
  void float_outputs(const LinearArgs& args, int64_t first, int64_t outs, float* scratch) const;
  void int8_outputs(const LinearArgs& args, Int8Product product, int64_t first, int64_t outs,
                    float* scratch) const;
  // Splits the outputs into a share for each thread, in multiples of `unit`; each thread then takes
  // chunks of its own share, so that what it fetches ahead is its own, and of others' when done.
  void share_out(int64_t outs, int64_t unit);
  template <class Fn>
  void take_chunks(int thread, const Fn& fn);
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
  std::vector<Buffer> scratch_;  // one a thread
  Buffer quantized_;             // a call's activations as int8
  std::vector<Share> shares_;    // one a thread
  int64_t chunk_ = 0;
};

}  // namespace skald::cpu
