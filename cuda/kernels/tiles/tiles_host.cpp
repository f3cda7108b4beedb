#include "cuda/kernels/tiles/formats.h"
#include "cuda/kernels/tiles/tile_bytes.h"
#include "engine/base/check.h"

namespace skald::cuda {

int64_t tile_group_bytes(DType type, int64_t ins) {
  int64_t bytes = 0;
  const bool known = tiles::dispatch(type, [&](auto format) {
    using F = decltype(format);
    bytes = (ins + F::kRecordCols - 1) / F::kRecordCols * F::kRecordBytes;
  });
  check(known, "only block formats lie in tiles");
  return bytes;
}

int64_t tile_bytes(DType type, int64_t outs, int64_t ins) {
  return (outs + tiles::kRows - 1) / tiles::kRows * tile_group_bytes(type, ins);
}

}  // namespace skald::cuda
