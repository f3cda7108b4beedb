// State spaces of any sizes, as the formula says: the reference of the other kernels. S stays in
// memory. A block has one head of one sequence, a thread one or more rows of S.
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/states/conv_window.cuh"
#include "cuda/kernels/states/space_state.cuh"

namespace skald::cuda {
namespace {

constexpr int kThreads = 128;

template <class T>
__global__ void __launch_bounds__(kThreads) space_conv_plain(SpaceLaunch a) {
  const int64_t cols = a.shape.conv_cols();
  const int row = blockIdx.x, taps = a.shape.taps;
  const int64_t col = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (col >= cols) return;
  const int sequence = a.step.sequences[row], position = a.step.positions[row];
  const T* in = static_cast<const T*>(a.in) + a.shape.columns.mixed + col;
  const float sum = plain_conv<T>({in, a.shape.row_numbers, space_state(a, sequence) + col, cols},
                                  {row, a.step.begins[sequence], position}, a.conv + col * taps,
                                  taps, a.conv_bias ? a.conv_bias[col] : 0);
  static_cast<T*>(a.convolved)[row * cols + col] = from_float<T>(silu(sum));
}

template <class T>
__global__ void __launch_bounds__(kThreads) space_plain(SpaceLaunch a) {
  const SpaceSpec& s = a.shape.spec;
  const int head = blockIdx.x, sequence = blockIdx.y, group = head / (s.heads / s.groups);
  const int begin = a.step.begins[sequence], end = a.step.begins[sequence + 1];
  const int64_t cols = a.shape.conv_cols(), value_at = int64_t{head} * s.head_dim;
  const int64_t key_at = a.shape.values() + int64_t{group} * s.state_dim;
  float* const matrix =
      space_state(a, sequence) + a.shape.ring_floats() + value_at * int64_t{s.state_dim};
  for (int row = begin; row < end; ++row) {
    const T* numbers = static_cast<const T*>(a.convolved) + row * cols;
    const T *key = numbers + key_at, *query = key + a.shape.keys();
    const T* in = static_cast<const T*>(a.in) + row * a.shape.row_numbers;
    const SpaceFactors f = space_factors(a, head, to_float(in[a.shape.columns.step + head]));
    const bool fresh = a.step.positions[row] == 0;
    for (int j = threadIdx.x; j < s.head_dim; j += kThreads) {
      float* own = matrix + int64_t{j} * s.state_dim;  // no other thread reads or writes the row
      const float value = to_float(numbers[value_at + j]);
      float sum = a.skip[head] * value;
      for (int i = 0; i < s.state_dim; ++i) {
        own[i] = (fresh ? 0 : f.kept * own[i]) + f.step * value * to_float(key[i]);
        sum += own[i] * to_float(query[i]);
      }
      static_cast<T*>(a.out)[row * a.shape.values() + value_at + j] = from_float<T>(sum);
    }
  }
  keep_inputs<T>(a, sequence, value_at, s.head_dim);
  if (head % (s.heads / s.groups) != 0) return;
  keep_inputs<T>(a, sequence, key_at, s.state_dim);
  keep_inputs<T>(a, sequence, key_at + a.shape.keys(), s.state_dim);
}

}  // namespace

template <>
void launch_space<kernel_id("space_plain")>(const SpaceLaunch& a, Stream stream) {
  const dim3 conv_blocks(a.rows,
                         static_cast<unsigned>((a.shape.conv_cols() + kThreads - 1) / kThreads));
  const dim3 blocks(a.shape.spec.heads, a.sequences);
  dispatch(a.shape.type, [&](auto type) {
    launch_kernel(space_conv_plain<decltype(type)>, {conv_blocks, kThreads}, stream, a);
    launch_kernel(space_plain<decltype(type)>, {blocks, kThreads}, stream, a);
  });
  launch_space_finish(a, stream);
}

}  // namespace skald::cuda
