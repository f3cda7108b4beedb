// Delta nets of any sizes, as the formula says: the reference of the other kernels. S stays in
// memory. A block has one value head of one sequence, a thread one or more of its columns.
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/states/delta_state.cuh"

namespace skald::cuda {
namespace {

constexpr int kThreads = 128;

template <class T>
__global__ void __launch_bounds__(kThreads) delta_conv_plain(DeltaLaunch a) {
  const int64_t cols = a.shape.conv_cols();
  const int row = blockIdx.x, taps = a.shape.taps;
  const int64_t col = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (col >= cols) return;
  const int sequence = a.step.sequences[row], position = a.step.positions[row];
  const T* in = static_cast<const T*>(a.in) + delta_in_column(a.shape, col);
  const float sum =
      plain_conv<T>({in, a.shape.row_numbers, delta_state(a, sequence) + col, cols},
                    {row, a.step.begins[sequence], position}, a.conv + col * taps, taps, 0);
  static_cast<T*>(a.convolved)[row * cols + col] = from_float<T>(silu(sum));
}

// The sum over the block; `shared` may be used again after the next barrier.
template <class T>
__device__ float squares_of(const T* x, int count, float* shared) {
  float squares = 0;
  for (int i = threadIdx.x; i < count; i += kThreads) squares += to_float(x[i]) * to_float(x[i]);
  return block_sum<kThreads>(squares, shared) + kDeltaNormEps;
}

template <class T>
__global__ void __launch_bounds__(kThreads) delta_plain(DeltaLaunch a) {
  __shared__ float query_sums[kThreads / 32], key_sums[kThreads / 32];
  const DeltaSpec& s = a.shape.spec;
  const int head = blockIdx.x, sequence = blockIdx.y, taps = a.shape.taps;
  const DeltaHead place = DeltaHead::of(s, head);
  const int begin = a.step.begins[sequence], end = a.step.begins[sequence + 1];
  const int64_t cols = a.shape.conv_cols();
  float* ring = delta_state(a, sequence);
  float* matrix = ring + a.shape.ring_floats() + int64_t{head} * s.key_dim * s.value_dim;
  const T* in = static_cast<const T*>(a.in);
  for (int row = begin; row < end; ++row) {
    const T* query =
        static_cast<const T*>(a.convolved) + row * cols + int64_t{place.group} * s.key_dim;
    const T* key = query + a.shape.keys();
    const T* value = static_cast<const T*>(a.convolved) + row * cols + 2 * a.shape.keys() +
                     int64_t{head} * s.value_dim;
    const float query_scale =
        rsqrtf(squares_of(query, s.key_dim, query_sums) * static_cast<float>(s.key_dim));
    const float key_scale = rsqrtf(squares_of(key, s.key_dim, key_sums));
    const T* numbers = in + row * a.shape.row_numbers;
    const DeltaFactors f = delta_factors(
        a, head, to_float(numbers[a.shape.columns.decay.of(place.group, place.member)]),
        to_float(numbers[a.shape.columns.beta.of(place.group, place.member)]));
    for (int c = threadIdx.x; c < s.value_dim; c += kThreads) {
      float* column = matrix + c;  // a thread's own: no other thread reads or writes it
      const bool fresh = a.step.positions[row] == 0;
      float held = 0, result = 0;
      for (int i = 0; i < s.key_dim && !fresh; ++i) {
        held += to_float(key[i]) * key_scale * column[int64_t{i} * s.value_dim];
      }
      const float learned = f.corrected * (to_float(value[c]) - f.kept * held);
      for (int i = 0; i < s.key_dim; ++i) {
        float& number = column[int64_t{i} * s.value_dim];
        number = (fresh ? 0 : f.kept * number) + to_float(key[i]) * key_scale * learned;
        result += to_float(query[i]) * query_scale * number;
      }
      static_cast<T*>(a.out)[row * a.shape.values() + int64_t{head} * s.value_dim + c] =
          from_float<T>(result);
    }
  }
  for (int row = max(begin, end - (taps - 1)); row < end; ++row) {
    float* to = ring + a.step.positions[row] % taps * cols;
    for (int c = place.member == 0 ? threadIdx.x : 2 * s.key_dim + threadIdx.x;
         c < 2 * s.key_dim + s.value_dim; c += kThreads) {
      const DeltaSource at = delta_source(a.shape, head, place, c);
      to[at.conv] = to_float(in[row * a.shape.row_numbers + at.in]);
    }
  }
}

}  // namespace

void launch_delta_conv_plain(const DeltaLaunch& a, Stream stream) {
  const dim3 blocks(a.rows, static_cast<unsigned>((a.shape.conv_cols() + kThreads - 1) / kThreads));
  dispatch(a.shape.type, [&](auto type) {
    launch_kernel(delta_conv_plain<decltype(type)>, {blocks, kThreads}, stream, a);
  });
}

template <>
void launch_delta<kernel_id("delta_plain")>(const DeltaLaunch& a, Stream stream) {
  launch_delta_conv_plain(a, stream);
  const dim3 blocks(a.shape.spec.value_heads, a.sequences);
  dispatch(a.shape.type, [&](auto type) {
    launch_kernel(delta_plain<decltype(type)>, {blocks, kThreads}, stream, a);
  });
  launch_delta_finish(a, stream);
}

}  // namespace skald::cuda
