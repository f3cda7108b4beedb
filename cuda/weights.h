// A model's matrices on the GPU, as the kernels want them: parts that are multiplied together lie
// in one matrix, gate and up rows alternate. Uploaded through two page-locked buffers, so that
// reading the file and copying to the GPU overlap.
#pragma once

#include <span>
#include <vector>

#include "cuda/handles.h"
#include "cuda/kernels/launch.h"
#include "cuda/memory.h"
#include "engine/program.h"

namespace skald::cuda {

struct Matrix {
  const void* data = nullptr;  // [outs, ins]
  int64_t outs = 0, ins = 0;
  int64_t bytes = 0;
};

class Weights {
 public:
  // Allocates `bytes` at once; what is uploaded must fit.
  explicit Weights(int64_t bytes);

  // Rows of all parts one after the other, or alternating. All parts have one type and as many
  // columns.
  Matrix upload(std::span<const TensorView> parts, bool alternate, Stream stream);
  // Decoded to float. The parts' values one after the other, or alternating; a part without data is
  // zeros. `plus` is added to all.
  const float* upload_floats(std::span<const TensorView> parts, bool alternate, Stream stream,
                             float plus = 0);

  int64_t used() const { return used_; }

  // Waits until everything has arrived and gives the page-locked buffers back.
  void finish(Stream stream);

 private:
  std::byte* reserve(int64_t bytes);
  void send(std::byte* to, int64_t bytes, Stream stream);  // from staging_[turn_]
  std::byte* next_staging();                               // waits until its last copy is done

  DeviceMemory memory_;
  int64_t used_ = 0;
  PinnedMemory staging_[2];
  EventOwner sent_[2];
  int turn_ = 0;
};

}  // namespace skald::cuda
