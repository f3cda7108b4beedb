// The factors of all chunks and heads of a step at once: G, M and W of delta_chunks.cu. They depend
// on keys, queries and decays alone. A warp computes the products of a chunk's keys and queries on
// tensor cores, then solves the triangular equations: a lane has a column of the inverse.
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/states/delta_chunk.cuh"

namespace skald::cuda {
namespace {

constexpr int kRows = kDeltaChunkRows;
constexpr int kWarps = 4, kThreads = kWarps * 32;

#if SKALD_HAS_MMA

constexpr int kStride = 24;  // floats: 16, and padding so that no bank is used twice

struct FactorRows {
  // decays: r, later M. rows: the matrix of the triangular equations, later W. read: r times the
  // products of queries and keys. (delta_chunks.cu explains the letters.)
  __align__(16) float decays[kRows][kStride], rows[kRows][kStride], read[kRows][kStride];
  float kept[kRows], corrected[kRows];
};

// Products of 16 queries and keys with 16 keys, as the sums of two tiles.
struct Dots {
  float keys[2][4] = {}, queries[2][4] = {};
};

// The order of the numbers in a product does not matter, as long as both factors have the same. So
// a lane loads 8 adjacent numbers of two rows, and uses them for two products.
template <int kKeys>
__device__ Dots dots_of(const Bf16* query, const Bf16* key, int64_t stride, int count, int lane) {
  const int g = lane / 4, c = lane % 4;
  const auto load = [&](const Bf16* from, int row, int i) {
    if (row >= count) return make_uint4(0, 0, 0, 0);
    return *reinterpret_cast<const uint4*>(from + row * stride + 32 * i + 8 * c);
  };
  Dots dots;
#pragma unroll
  for (int i = 0; i < kKeys / 32; ++i) {
    const uint4 k0 = load(key, g, i), k1 = load(key, g + 8, i);
    const uint4 q0 = load(query, g, i), q1 = load(query, g + 8, i);
    mma(Bf16(), dots.keys[0], {k0.x, k1.x, k0.y, k1.y}, k0.x, k0.y);
    mma(Bf16(), dots.keys[1], {k0.x, k1.x, k0.y, k1.y}, k1.x, k1.y);
    mma(Bf16(), dots.queries[0], {q0.x, q1.x, q0.y, q1.y}, k0.x, k0.y);
    mma(Bf16(), dots.queries[1], {q0.x, q1.x, q0.y, q1.y}, k1.x, k1.y);
    mma(Bf16(), dots.keys[0], {k0.z, k1.z, k0.w, k1.w}, k0.z, k0.w);
    mma(Bf16(), dots.keys[1], {k0.z, k1.z, k0.w, k1.w}, k1.z, k1.w);
    mma(Bf16(), dots.queries[0], {q0.z, q1.z, q0.w, q1.w}, k0.z, k0.w);
    mma(Bf16(), dots.queries[1], {q0.z, q1.z, q0.w, q1.w}, k1.z, k1.w);
  }
  return dots;
}

// Computes M and W of a chunk from `dots`, `m.kept` and `m.corrected`. Lanes l and l + 16 compute
// the same column.
__device__ void solve(const Dots& dots, FactorRows& m, ChunkFactors& to, int lane) {
  const int g = lane / 4, c = lane % 4, column = lane % kRows;
  float decay = 0;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    decay = i == column ? 1 : decay * m.kept[i];
    if (lane < kRows) m.decays[i][lane] = decay;
  }
  __syncwarp();
  if (lane < kRows) to.kept[lane] = m.decays[lane][0] * m.kept[0];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      const int row = g + 8 * half, first = 8 * tile + 2 * c;
      const float2 r = *reinterpret_cast<const float2*>(&m.decays[row][first]);
      const float* keys = dots.keys[tile] + 2 * half;
      const float* queries = dots.queries[tile] + 2 * half;
      const float b = m.corrected[row];
      *reinterpret_cast<float2*>(&m.rows[row][first]) = make_float2(
          first < row ? b * (r.x * keys[0]) : 0, first + 1 < row ? b * (r.y * keys[1]) : 0);
      *reinterpret_cast<float2*>(&m.read[row][first]) =
          make_float2(r.x * queries[0], r.y * queries[1]);
    }
  }
  __syncwarp();
  // A column of T, then of W.
  float t[kRows], w[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    t[i] = i == column ? m.corrected[column] : 0;
#pragma unroll
    for (int j = 0; j < i; ++j) t[i] = fmaf(-m.rows[i][j], t[j], t[i]);
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    w[i] = 0;
#pragma unroll
    for (int j = 0; j <= i; ++j) w[i] = fmaf(m.read[i][j], t[j], w[i]);
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) t[i] *= m.decays[kRows - 1][i];
  __syncwarp();
  if (lane < kRows) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      m.decays[i][lane] = t[i];
      m.rows[i][lane] = w[i];
    }
  }
  __syncwarp();
  const auto store = [&](const float(&from)[kRows][kStride], uint4(&matrix)[2][32]) {
    Bf16Pairs parts[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 two = *reinterpret_cast<const float2*>(&from[g + i / 2 * 8][i % 2 * 8 + 2 * c]);
      parts[i] = bf16_pairs(two.x, two.y);
    }
    matrix[0][lane] = make_uint4(parts[0].high, parts[1].high, parts[2].high, parts[3].high);
    matrix[1][lane] = make_uint4(parts[0].low, parts[1].low, parts[2].low, parts[3].low);
  };
  store(m.decays, to.learned);
  store(m.rows, to.read);
  __syncwarp();
}

#endif

// A warp computes one head of the chunks that begin in 16 rows of the step. That is one chunk,
// unless sequences are short.
template <int kKeys>
__global__ void __launch_bounds__(kThreads) delta_chunk_factors(DeltaLaunch a) {
#if SKALD_HAS_MMA
  __shared__ FactorRows memory[kWarps];
  const DeltaSpec& s = a.shape.spec;
  const int64_t index = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  const int window = static_cast<int>(index / s.value_heads * kRows);
  const int head = static_cast<int>(index % s.value_heads), lane = threadIdx.x % 32;
  if (window >= a.rows) return;
  FactorRows& m = memory[threadIdx.x / 32];
  const DeltaHead place = DeltaHead::of(s, head);
  const int64_t cols = a.shape.conv_cols();
  for (int sequence = a.step.sequences[window]; sequence < a.sequences; ++sequence) {
    const int begin = a.step.begins[sequence], end = a.step.begins[sequence + 1];
    if (begin >= window + kRows) return;
    const int chunk = begin >= window ? 0 : (window - begin + kRows - 1) / kRows;
    const int first = begin + chunk * kRows;
    if (first >= min(end, window + kRows)) continue;
    if (lane < kRows) {
      DeltaFactors f = {1, 0};
      if (first + lane < end) {
        const Bf16* row =
            static_cast<const Bf16*>(a.in) + int64_t{first + lane} * a.shape.row_numbers;
        f = delta_factors(a, head,
                          to_float(row[a.shape.columns.decay.of(place.group, place.member)]),
                          to_float(row[a.shape.columns.beta.of(place.group, place.member)]));
      }
      m.kept[lane] = f.kept;
      m.corrected[lane] = f.corrected;
    }
    __syncwarp();
    const Bf16* query =
        static_cast<const Bf16*>(a.convolved) + first * cols + int64_t{place.group} * kKeys;
    const Dots dots = dots_of<kKeys>(query, query + a.shape.keys(), cols, end - first, lane);
    solve(dots, m, *chunk_factors(a, first_chunk(begin, sequence) + chunk, head), lane);
  }
#endif
}

template <int kKeys>
void launch_keys(const DeltaLaunch& a, Stream stream) {
  const int64_t warps = int64_t{(a.rows + kRows - 1) / kRows} * a.shape.spec.value_heads;
  const dim3 blocks(static_cast<unsigned>((warps + kWarps - 1) / kWarps));
  launch_kernel(delta_chunk_factors<kKeys>, {blocks, kThreads}, stream, a);
}

}  // namespace

void launch_delta_chunk_factors(const DeltaLaunch& a, Stream stream) {
  if (a.shape.spec.key_dim == 64) {
    launch_keys<64>(a, stream);
  } else {
    launch_keys<128>(a, stream);
  }
}

}  // namespace skald::cuda
