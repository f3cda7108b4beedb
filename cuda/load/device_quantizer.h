// Quantizes weights on their way to the GPU: floats go there from the page-locked buffers of
// Weights by a stream of their own, so that the next ones are copied while these become blocks.
#pragma once

#include <vector>

#include "cuda/gpu/handles.h"
#include "cuda/gpu/memory.h"
#include "cuda/kernels/launch.h"
#include "cuda/plan/sizes.h"
#include "engine/program/program.h"

namespace skald::cuda {

// The rows of a matrix that is joined from several weights.
struct JoinedRows {
  std::vector<Weight> parts;  // as many columns each
  bool alternate = false;     // rows of all parts in turns, else one part after the other

  struct Place {
    const Weight* part;
    int64_t row;
  };
  Place at(int64_t row) const;
};

// Throws Error(Exit::Model) for a row, to be made of Weight::source, that has a weight which the
// format cannot hold.
[[noreturn]] void fail_unfit_row(const JoinedRows::Place& place);

class DeviceQuantizer {
 public:
  DeviceQuantizer();
  ~DeviceQuantizer();

  // What rows of these parts travel as, to become a matrix of that format: floats that can be
  // quantized there, or the format itself.
  static DType travels_as(const JoinedRows& rows, DType format);

  void begin(JoinedRows rows) { matrices_.push_back(std::move(rows)); }

  // Rows of the matrix last begun, from `first` on, in page-locked memory; `turn` tells which of
  // the buffers.
  struct Rows {
    DType from, to;
    const void* staging;
    int64_t first, count, cols;
    int turn;
  };
  // `blocks` is written in `stream`; `sent` is recorded when the staging memory is free again.
  void make(const Rows& rows, void* blocks, const EventOwner& sent, Stream stream);

  // When all is made: throws for the first row that its format cannot hold.
  void check_fits() const;

 private:
  StreamOwner copying_;
  DeviceMemory floats_[kStagings];
  EventOwner used_[kStagings];  // floats_ are free again
  DeviceMemory unfit_;          // the matrix and the row of the first that does not fit
  std::vector<JoinedRows> matrices_;
};

}  // namespace skald::cuda
