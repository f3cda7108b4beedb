// gemv_plain for weights in f32, f16 and bf16. gemv_q_plain.cu has block formats.
#include "cuda/kernels/device/gemv_plain.cuh"

namespace skald::cuda {
namespace {

template <class T>
struct Plain {
  const T* weight;
  int64_t ins;
  __device__ explicit Plain(const LinearLaunch& a)
      : weight(static_cast<const T*>(a.weight)), ins(a.ins) {}
  __device__ float operator()(int64_t out, int64_t i) const {
    return to_float(weight[out * ins + i]);
  }
};

}  // namespace

void launch_gemv_plain(const LinearLaunch& a, Stream stream) {
  if (block_elems(a.format) > 1) return launch_gemv_q_plain(a, stream);
  dispatch(a.type,
           [&](auto type) { launch_plain<decltype(type), Plain<decltype(type)>>(a, stream); });
}

template <>
void launch_product<kernel_id("gemv_plain")>(const ProductCall& call) {
  launch_gemv_plain(call.pieces.front(), call.stream);
}

}  // namespace skald::cuda
