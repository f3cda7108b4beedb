#include "cuda/run/host_rows.h"

#include <algorithm>

#include "cuda/gpu/check.h"

namespace skald::cuda {

std::span<const float> HostRows::bring(const float* rows, Shape shape, bool norms) {
  const int64_t bytes = shape.count * shape.cols * int64_t{sizeof(float)};
  if (host_.bytes() < bytes) {
    host_ = {};
    host_ = PinnedMemory(bytes, "rows on the host");
  }
  auto* const host = host_.as<float>();
  const int64_t most = norms ? most_ : shape.count;
  for (int64_t row = 0; row < shape.count; row += most) {
    const int64_t part = std::min(most, shape.count - row);
    const float* from = rows + row * shape.cols;
    if (norms) {
      ops_.norm_rows(from, normed_.as<float>(), static_cast<int>(part));
      from = normed_.as<float>();
    }
    SKALD_CUDA(cudaMemcpyAsync(host + row * shape.cols, from,
                               static_cast<size_t>(part * shape.cols) * sizeof(float),
                               cudaMemcpyDeviceToHost, stream_));
  }
  SKALD_CUDA(cudaStreamSynchronize(stream_));
  return {host, static_cast<size_t>(shape.count * shape.cols)};
}

}  // namespace skald::cuda
