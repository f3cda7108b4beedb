// Quantizes weights on the GPU while they are loaded. A stream of its own copies floats from the
// page-locked buffers of Weights, so that the next floats are copied while these become blocks.
#pragma once

#include <vector>

#include "cuda/gpu/handles.h"
#include "cuda/gpu/memory.h"
#include "cuda/gpu/stream.h"
#include "cuda/plan/sizes.h"
#include "engine/program/program.h"

namespace skald::cuda {

// The rows of a matrix that is joined from several weights: q, k and v, or gate and up.
struct JoinedRows {
  std::vector<Weight> parts;  // all with the same number of columns
  bool alternate = false;     // true: a row of each part in turn; false: one part after the other

  struct Place {
    const Weight* part;
    int64_t row;
  };
  Place at(int64_t row) const;
};

// Throws Error(Exit::Model), which names the weight that holds this row: its format cannot hold the
// row.
[[noreturn]] void fail_unfit_row(const JoinedRows::Place& place);

class DeviceQuantizer {
 public:
  DeviceQuantizer();
  ~DeviceQuantizer();

  // The type in which the rows are copied to the GPU for a matrix of `format`: `format` itself, or
  // floats that the GPU quantizes.
  static DType travels_as(const JoinedRows& rows, DType format);

  void begin(JoinedRows rows) { matrices_.push_back(std::move(rows)); }

  // Rows of the last begun matrix, from `first` on, in page-locked buffer number `turn`.
  struct Rows {
    DType from, to;
    const void* staging;
    int64_t first, count, cols;
    int turn;
  };
  // Writes `blocks` in `stream`. Records `sent` when the staging memory is free again.
  void make(const Rows& rows, void* blocks, const EventOwner& sent, Stream stream);

  // Call it after the last make(). Throws for the first row that its format cannot hold.
  void check_fits() const;

 private:
  StreamOwner copying_;
  DeviceMemory floats_[kStagings];
  EventOwner used_[kStagings];  // recorded when floats_ is free again
  DeviceMemory unfit_;          // matrix and row of the first row that does not fit
  std::vector<JoinedRows> matrices_;
};

}  // namespace skald::cuda
