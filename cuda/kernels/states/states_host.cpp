// Which nets the fast kernels support.
#include "cuda/kernels/states/states.h"

namespace skald::cuda {
namespace {

// What delta_conv needs: rows are read four numbers at a time.
bool supports_conv(const DeltaShape& a) {
  const auto by_four = [](const HeadColumns& c) {
    return c.first % 4 == 0 && c.group % 4 == 0 && c.member % 4 == 0;
  };
  const DeltaColumns& c = a.columns;
  return a.taps == 4 && a.row_numbers % 4 == 0 && by_four(c.query) && by_four(c.key) &&
         by_four(c.value);
}

}  // namespace

bool supports_delta(const DeltaShape& a) {
  const DeltaSpec& s = a.spec;
  const bool keys = s.key_dim == 16 || s.key_dim == 32 || s.key_dim == 64 || s.key_dim == 128;
  // delta_decode has four threads for each column of a head.
  const bool values = s.value_dim % 32 == 0 && s.value_dim <= 128;
  return keys && values && supports_conv(a);
}

bool supports_delta_chunks(const DeltaShape& a) {
  const DeltaSpec& s = a.spec;
  return a.type == DType::BF16 && (s.key_dim == 64 || s.key_dim == 128) && s.value_dim % 16 == 0 &&
         supports_conv(a);
}

int64_t delta_factor_floats(const DeltaShape& a, int64_t rows, int64_t sequences) {
  return (rows / kDeltaChunkRows + sequences) * a.spec.value_heads * kDeltaFactorFloats;
}

}  // namespace skald::cuda
