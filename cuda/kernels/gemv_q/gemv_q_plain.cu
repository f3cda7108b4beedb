// gemv_plain for block formats: the format's own functions decode each weight from its bytes.
#include "cuda/kernels/device/gemv_plain.cuh"
#include "cuda/kernels/tiles/formats.h"
#include "engine/base/check.h"

namespace skald::cuda {
namespace {

template <class F>
struct Tiles {
  const std::byte* tiles;
  int64_t records;
  __device__ explicit Tiles(const LinearLaunch& a)
      : tiles(static_cast<const std::byte*>(a.weight)),
        records((a.ins + F::kRecordCols - 1) / F::kRecordCols) {}
  __device__ float operator()(int64_t out, int64_t i) const {
    const int64_t record = out / tiles::kRows * records + i / F::kRecordCols;
    return F::value(tiles + record * F::kRecordBytes, static_cast<int>(out % tiles::kRows),
                    static_cast<int>(i % F::kRecordCols));
  }
};

}  // namespace

void launch_gemv_q_plain(const LinearLaunch& a, Stream stream) {
  const bool known = tiles::dispatch(a.format, [&](auto format) {
    using F = decltype(format);
    dispatch(a.type, [&](auto type) { launch_plain<decltype(type), Tiles<F>>(a, stream); });
  });
  check(known, "no product of this format");
}

}  // namespace skald::cuda
