// A model's matrices on the GPU in the layout of the kernels: parts of one product are one matrix,
// rows of gate and up alternate, block formats become tiles. The upload goes through page-locked
// buffers, so that reading the file and copying to the GPU overlap. Weights with a source are
// quantized on the GPU.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cuda/gpu/handles.h"
#include "cuda/gpu/memory.h"
#include "cuda/gpu/stream.h"
#include "cuda/load/device_quantizer.h"
#include "cuda/plan/sizes.h"
#include "engine/cpu/thread_pool.h"
#include "engine/program/program.h"

namespace skald::cuda {

struct Matrix {
  const void* data = nullptr;  // [outs, ins], or a block format's tiles
  DType format = DType::F32;
  int64_t outs = 0, ins = 0;
  const void* copy = nullptr;  // 16-bit copy of a block format, [outs, ins]; null: there is none
};

class Weights {
 public:
  // Allocates `bytes` for weights, and `copy_bytes` for 16-bit copies of quantized matrices (0: no
  // copies). All uploads must fit.
  Weights(int64_t bytes, int64_t copy_bytes);

  // Matrices that are uploaded from now on lie at `to`, one after the other; nullptr: in the memory
  // of the weights. `to` may be page-locked memory of the host.
  void upload_to(std::byte* to) { destination_ = to; }
  // Copies what was uploaded elsewhere.
  void save(const std::byte* from, std::byte* to, int64_t bytes, Stream stream);

  // Uploads the joined rows as one matrix. All parts have the same number of columns. If `format`
  // is a block format, all parts have it; otherwise parts are rounded to it. A part may be a range
  // of a wider matrix's columns.
  Matrix upload(const JoinedRows& rows, DType format, Stream stream);
  // Makes the 16-bit copy of a block format, for products of many rows. Plain formats need none.
  void add_copy(Matrix& matrix, DType type, Stream stream);
  // Uploads vectors as float: one part after the other, or alternating. A part without data is
  // zeros. Adds `plus` to each number.
  const float* upload_floats(std::span<const TensorView> parts, bool alternate, Stream stream,
                             float plus = 0);

  // Zeroed memory that a kernel may write to. It lives as long as the weights.
  std::byte* zeros(int64_t bytes, Stream stream);

  int64_t used() const { return used_; }

  // Waits for all uploads and frees the page-locked buffers. Throws Error(Exit::Model) if a weight
  // does not fit its format.
  void finish(Stream stream);

 private:
  std::byte* reserve(int64_t bytes);
  std::byte* reserve_matrix(int64_t bytes);
  void send(std::byte* to, int64_t bytes, Stream stream);  // from staging_[staging_index_]
  std::byte* next_staging();                               // waits until its last copy is done

  DeviceMemory memory_, copies_;
  DeviceMemory blocks_;  // rows of a block format before they are packed
  std::optional<DeviceQuantizer> quantizer_;
  int64_t used_ = 0, copied_ = 0;
  std::byte* destination_ = nullptr;  // where the next matrix lies; nullptr: in memory_
  PinnedMemory staging_[kStagings];
  std::unique_ptr<cpu::ThreadPool> threads_;  // fill the staging buffers
  EventOwner upload_events_[kStagings];
  int staging_index_ = 0;
};

}  // namespace skald::cuda
