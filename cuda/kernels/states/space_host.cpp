// Which state spaces the fast kernels support.
#include "cuda/kernels/states/space.h"

namespace skald::cuda {
namespace {

// Rows are read four numbers at a time, by kernels that know a state's width.
bool supports_rows(const SpaceShape& a) {
  const int state = a.spec.state_dim;
  return (state == 64 || state == 128 || state == 256) && a.taps == 4 && a.row_numbers % 4 == 0 &&
         a.columns.mixed % 4 == 0;
}

}  // namespace

bool supports_space(const SpaceShape& a) { return supports_rows(a) && a.spec.head_dim % 32 == 0; }

bool supports_space_chunks(const SpaceShape& a) {
  return supports_rows(a) && a.type == DType::BF16 && a.spec.head_dim % 16 == 0;
}

}  // namespace skald::cuda
