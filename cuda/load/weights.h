// A model's matrices on the GPU, as the kernels want them: parts that are multiplied together lie
// in one matrix, gate and up rows alternate, block formats are packed in tiles there. Uploaded
// through page-locked buffers, so that reading the file and copying to the GPU overlap. Weights
// that are still to be quantized are, there too.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cuda/gpu/handles.h"
#include "cuda/gpu/memory.h"
#include "cuda/kernels/launch.h"
#include "cuda/load/device_quantizer.h"
#include "cuda/plan/sizes.h"
#include "engine/cpu/thread_pool.h"
#include "engine/program/program.h"

namespace skald::cuda {

struct Matrix {
  const void* data = nullptr;  // [outs, ins], or a block format's tiles
  DType format = DType::F32;
  int64_t outs = 0, ins = 0;
  const void* copy = nullptr;  // of a block format: [outs, ins] in 16 bits, where there is room
};

class Weights {
 public:
  // Allocates `bytes` at once, and `copy_bytes` for 16-bit copies of quantized matrices (0: none
  // are made); what is uploaded must fit.
  Weights(int64_t bytes, int64_t copy_bytes);

  // Rows of all parts one after the other, or alternating. A block format is that of all parts;
  // other parts are rounded to `format`. All have as many columns.
  Matrix upload(const JoinedRows& rows, DType format, Stream stream);
  // For a matrix that is multiplied by many rows at a time; nothing to do for plain formats.
  void add_copy(Matrix& matrix, DType type, Stream stream);
  // Decoded to float. The parts' values one after the other, or alternating; a part without data is
  // zeros. `plus` is added to all.
  const float* upload_floats(std::span<const TensorView> parts, bool alternate, Stream stream,
                             float plus = 0);

  // Memory beside the weights, for a kernel to write to: as long-lived, and zero.
  std::byte* zeros(int64_t bytes, Stream stream);

  int64_t used() const { return used_; }

  // Waits until everything has arrived and gives the page-locked buffers back. Throws
  // Error(Exit::Model) where a weight does not fit the format that it was to be made.
  void finish(Stream stream);

 private:
  std::byte* reserve(int64_t bytes);
  void send(std::byte* to, int64_t bytes, Stream stream);  // from staging_[turn_]
  std::byte* next_staging();                               // waits until its last copy is done

  DeviceMemory memory_, copies_;
  DeviceMemory blocks_;  // rows of a block format before they are packed
  std::optional<DeviceQuantizer> quantizer_;
  int64_t used_ = 0, copied_ = 0;
  PinnedMemory staging_[kStagings];
  std::unique_ptr<cpu::ThreadPool> threads_;  // that fill them
  EventOwner sent_[kStagings];
  int turn_ = 0;
};

}  // namespace skald::cuda
