// Rows of prompts in chunks of 32, on tensor cores.
//
// Let S be a head's matrix before a chunk; x, k and q the chunk's values, keys and queries; d the
// rows' steps, and A_t the sum of rate * d from row 0 to row t. Then
//   out_t        = exp(A_t) S q_t + sum over s <= t of W_ts x_s + skip x_t
//   W_ts         = exp(A_t - A_s) d_s (q_t·k_s)
//   S afterwards = exp(A_31) S + sum over s of exp(A_31 - A_s) d_s x_s ⊗ k_s
// A warp keeps 16 rows of S as the float sums of products. Rounded to bf16, they are the right
// factor of the product with the queries, and W is the left factor of the product with the values:
// neither needs an exchange between lanes. Each warp computes W for itself. Values, keys, queries
// and W are bf16. S, and what is added to S, are sums of two bf16 numbers, which keeps 16 bits.
//
// Floor: 182 products of 16 x 8 x 16 a chunk and warp for states of 128 numbers. An H100 has one in
// about 6 cycles: 40 us for 2048 rows, if a head's warps are alone on their multiprocessor.
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/mma.cuh"
#include "cuda/kernels/states/bf16_pairs.cuh"
#include "cuda/kernels/states/space_state.cuh"

namespace skald::cuda {
namespace {

constexpr int kWarps = 4, kThreads = kWarps * 32;
constexpr int kWarpColumns = 16, kColumns = kWarps * kWarpColumns;

#if SKALD_HAS_MMA

constexpr int kRows = 32;  // of a chunk: a lane of a warp for each

template <int kState>
struct Stage {
  static constexpr int kPad = 8;  // a row begins 4 banks after the row before it
  __align__(16) Bf16 keys[kRows][kState + kPad];
  Bf16 queries[kRows][kState + kPad];
  Bf16 values[kRows][kColumns + kPad];
};

// Fetches the chunks of one head and block, in their order.
template <int kState>
class ChunkReader {
 public:
  // `column`: the block's first one of the head.
  __device__ ChunkReader(const SpaceLaunch& a, int head, int sequence, int column)
      : first_(a.step.begins[sequence]),
        end_(a.step.begins[sequence + 1]),
        stride_(a.shape.conv_cols()),
        to_queries_(a.shape.keys()) {
    const SpaceSpec& s = a.shape.spec;
    const Bf16* rows = static_cast<const Bf16*>(a.convolved);
    keys_ = rows + a.shape.values() + int64_t{head / (s.heads / s.groups)} * kState;
    values_ = rows + int64_t{head} * s.head_dim + column;
    value_pieces_ = min(kColumns, s.head_dim - column) / kPiece;
  }

  // All threads call it. Numbers beyond the rows' end or the head's become zeros, and are not read.
  __device__ void fetch_next(Stage<kState>& to) {
    if (first_ < end_) {
      constexpr int kPieces = kState / kPiece, kValuePieces = kColumns / kPiece;
#pragma unroll
      for (int i = 0; i < kRows * kPieces / kThreads; ++i) {
        const int index = static_cast<int>(threadIdx.x) + i * kThreads;
        const int row = index / kPieces, piece = index % kPieces * kPiece;
        const Bf16* key = keys_ + (first_ + row) * stride_ + piece;
        const bool valid = first_ + row < end_;
        copy_async(shared_address(&to.keys[row][piece]), key, valid);
        copy_async(shared_address(&to.queries[row][piece]), key + to_queries_, valid);
      }
#pragma unroll
      for (int i = 0; i < kRows * kValuePieces / kThreads; ++i) {
        const int index = static_cast<int>(threadIdx.x) + i * kThreads;
        const int row = index / kValuePieces, piece = index % kValuePieces;
        copy_async(shared_address(&to.values[row][piece * kPiece]),
                   values_ + (first_ + row) * stride_ + piece * kPiece,
                   first_ + row < end_ && piece < value_pieces_);
      }
      first_ += kRows;
    }
    commit_copies();
  }

 private:
  static constexpr int kPiece = 8;  // numbers of 16 bytes

  int64_t first_;  // row of the next chunk
  int64_t end_, stride_, to_queries_;
  const Bf16 *keys_, *values_;
  int value_pieces_;
};

// What a lane knows of its row of the chunk: d, and A in units of ln 2.
struct RowFactors {
  float step, total;

  // A row beyond the end changes nothing.
  __device__ static RowFactors of(const SpaceLaunch& a, int head, float step, bool used, int lane) {
    constexpr float kPerLn2 = 1.4426950408889634f;
    const float bounded = used ? space_step(a, head, step) : 0;
    float total = space_rate(a, head) * kPerLn2 * bounded;
    for (int rows = 1; rows < kRows; rows *= 2) {
      const float before = __shfl_up_sync(~0u, total, rows);
      if (lane >= rows) total += before;
    }
    return {bounded, total};
  }
  __device__ float total_of(int row) const { return __shfl_sync(~0u, total, row); }
};

// 16 rows of S, and their part of a chunk's work. Let g = lane / 4 and c = lane % 4: the lane has
// numbers 2c and 2c + 1 of each eight, of rows g and g + 8.
template <int kState>
class StateRows {
 public:
  __device__ void clear() {
    for (float(&tile)[4] : state_) {
      for (float& x : tile) x = 0;
    }
  }
  // `from` is the first of the warp's rows.
  __device__ void load(const float* from, int lane) {
    each(lane, [&](float* two, int64_t at) {
      const float2 x = __ldcg(reinterpret_cast<const float2*>(from + at));
      two[0] = x.x, two[1] = x.y;
    });
  }
  __device__ void store(float* to, int lane) {
    each(lane, [&](const float* two, int64_t at) {
      *reinterpret_cast<float2*>(to + at) = make_float2(two[0], two[1]);
    });
  }

  // One chunk. Results go to `out`, from the chunk's first row and the warp's first column on.
  // `column`: the warp's first one in the block; `count`: the chunk's rows.
  struct Output {
    Bf16* out;
    int64_t stride;
    int column, count;
    float skip;
  };
  __device__ void multiply(const Stage<kState>& stage, RowFactors f, int lane, const Output& to) {
    const int g = lane / 4, c = lane % 4;
    float sums[2][2][4] = {};  // rows 16 m + ... of columns 8 j + ...
    float weights[6][4] = {};  // W: rows 0 to 15 of columns 0 to 15, then rows 16 to 31 of all
    read(stage, lane, exp2_fast(f.total_of(kRows - 1)), sums, weights);
    uint32_t values[2][4];  // of 16 rows each
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      load_matrices_transposed(
          values[q], shared_address(&stage.values[q * 16 + lane % 16][to.column + lane / 16 * 8]));
    }
    // Out of the sums with S come the results.
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      const float totals[2] = {f.total_of(16 * m + g), f.total_of(16 * m + g + 8)};
      const float kept[2] = {exp2_fast(totals[0]), exp2_fast(totals[1])};
#pragma unroll
      for (int j = 0; j < 2; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[m][j][i] *= kept[i / 2];
      }
#pragma unroll
      for (int q = 0; q <= m; ++q) {
        uint32_t left[4];
#pragma unroll
        for (int half = 0; half < 2; ++half) {  // eight columns of W
          const int s = 16 * q + 8 * half + 2 * c;
          const float first = f.total_of(s), second = f.total_of(s + 1);
          const float steps[2] = {__shfl_sync(~0u, f.step, s), __shfl_sync(~0u, f.step, s + 1)};
          const float(&w)[4] = weights[2 * (m + q) + half];
#pragma unroll
          for (int i = 0; i < 2; ++i) {  // rows g and g + 8
            const int t = 16 * m + g + 8 * i;
            const float x = s <= t ? w[2 * i] * exp2_fast(totals[i] - first) * steps[0] : 0;
            const float y =
                s + 1 <= t ? w[2 * i + 1] * exp2_fast(totals[i] - second) * steps[1] : 0;
            left[2 * half + i] = pack(Bf16(), x, y);
          }
        }
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          mma(Bf16(), sums[m][j], left, values[q][2 * j], values[q][2 * j + 1]);
        }
      }
    }
    learn(stage, f, lane, values);
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = 16 * m + 8 * half + g;
        if (row >= to.count) continue;
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const uint32_t x =
              *reinterpret_cast<const uint32_t*>(&stage.values[row][to.column + 8 * j + 2 * c]);
          const float a = fmaf(to.skip, __uint_as_float(x << 16), sums[m][j][2 * half]);
          const float b = fmaf(to.skip, __uint_as_float(x & 0xffff0000u), sums[m][j][2 * half + 1]);
          *reinterpret_cast<uint32_t*>(to.out + row * to.stride + 8 * j + 2 * c) =
              pack(Bf16(), a, b);
        }
      }
    }
  }

 private:
  static constexpr int kSteps = kState / 16;
  static constexpr int kStepBytes = 16 * sizeof(Bf16);

  template <class Fn>
  __device__ void each(int lane, const Fn& fn) {
    const int g = lane / 4, c = lane % 4;
#pragma unroll
    for (int tile = 0; tile < kState / 8; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        fn(&state_[tile][2 * half], int64_t{g + 8 * half} * kState + 8 * tile + 2 * c);
      }
    }
  }

  // Adds S q to `sums` and q·k to `weights`. S becomes `kept` times S.
  __device__ void read(const Stage<kState>& stage, int lane, float kept, float (&sums)[2][2][4],
                       float (&weights)[6][4]) {
    const uint32_t queries = shared_address(&stage.queries[lane % 16][lane / 16 * 8]);
    const uint32_t keys = shared_address(&stage.keys[lane / 16 * 8 + lane % 8][lane / 8 % 2 * 8]);
    constexpr int kHalf = 16 * sizeof(stage.keys[0]);  // 16 rows further
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      uint32_t q[2][4], k[2][4];
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        load_matrices(q[m], queries + m * kHalf + i * kStepBytes);
        load_matrices(k[m], keys + m * kHalf + i * kStepBytes);
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const Bf16Pairs first = bf16_pairs(state_[2 * i][2 * j], state_[2 * i][2 * j + 1]);
        const Bf16Pairs second = bf16_pairs(state_[2 * i + 1][2 * j], state_[2 * i + 1][2 * j + 1]);
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          mma(Bf16(), sums[m][j], q[m], first.high, second.high);
          mma(Bf16(), sums[m][j], q[m], first.low, second.low);
        }
      }
#pragma unroll
      for (int m = 0; m < 2; ++m) {
#pragma unroll
        for (int tile = 0; tile < 2 + 2 * m; ++tile) {
          mma(Bf16(), weights[2 * m + tile], q[m], k[tile / 2][tile % 2 * 2],
              k[tile / 2][tile % 2 * 2 + 1]);
        }
      }
#pragma unroll
      for (int x = 0; x < 8; ++x) state_[2 * i + x / 4][x % 4] *= kept;
    }
  }

  // S += sum of exp(A_31 - A_s) d_s x_s ⊗ k_s
  __device__ void learn(const Stage<kState>& stage, RowFactors f, int lane,
                        const uint32_t (&values)[2][4]) {
    const float own = exp2_fast(f.total_of(kRows - 1) - f.total) * f.step;
    const uint32_t keys = shared_address(&stage.keys[lane % 16][lane / 16 * 8]);
    constexpr int kHalf = 16 * sizeof(stage.keys[0]);
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      uint32_t high[4], low[4];
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        // Values come as [rows 0 to 7, 8 to 15] of one eight of columns, then of the next.
        const int s = 16 * q + r % 2 * 8 + lane % 4 * 2, place = r % 2 * 2 + r / 2;
        const float first = __shfl_sync(~0u, own, s), second = __shfl_sync(~0u, own, s + 1);
        const Bf16Pairs two = bf16_pairs(first * __uint_as_float(values[q][r] << 16),
                                         second * __uint_as_float(values[q][r] & 0xffff0000u));
        high[place] = two.high;
        low[place] = two.low;
      }
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        uint32_t b[4];
        load_matrices_transposed(b, keys + q * kHalf + i * kStepBytes);
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          mma(Bf16(), state_[2 * i + e], high, b[2 * e], b[2 * e + 1]);
          mma(Bf16(), state_[2 * i + e], low, b[2 * e], b[2 * e + 1]);
        }
      }
    }
  }

  float state_[kState / 8][4];
};

#endif

template <int kState>
constexpr int kSharedBytes = 2 * 32 * (2 * (kState + 8) + kColumns + 8) * 2;  // two stages

// A block has up to 64 rows of one head's matrix of one sequence; its warps share the chunk's rows.
template <int kState>
__global__ void __launch_bounds__(kThreads) space_chunks(SpaceLaunch a) {
#if SKALD_HAS_MMA
  extern __shared__ __align__(16) char shared[];
  static_assert(kSharedBytes<kState> == 2 * sizeof(Stage<kState>));
  auto* const stages = reinterpret_cast<Stage<kState>*>(shared);
  const SpaceSpec& s = a.shape.spec;
  const int slices = (s.head_dim + kColumns - 1) / kColumns;
  const int head = blockIdx.x / slices, slice = blockIdx.x % slices, sequence = blockIdx.y;
  const int lane = threadIdx.x % 32;
  const int own = threadIdx.x / 32 * kWarpColumns, column = slice * kColumns + own;
  const bool used = column < s.head_dim;
  const int begin = a.step.begins[sequence], end = a.step.begins[sequence + 1];
  if (begin == end) return;
  ChunkReader<kState> reader(a, head, sequence, slice * kColumns);
  reader.fetch_next(stages[0]);
  const int64_t value_at = int64_t{head} * s.head_dim + column;
  float* matrix = space_state(a, sequence) + a.shape.ring_floats() + value_at * kState;
  StateRows<kState> state;
  if (used && a.step.positions[begin] != 0) {
    state.load(matrix, lane);
  } else {
    state.clear();
  }
  const Bf16* const steps = static_cast<const Bf16*>(a.in) + a.shape.columns.step + head;
  const auto step_at = [&](int row) {
    return row < end ? to_float(steps[row * a.shape.row_numbers]) : 0;
  };
  Bf16* const out = static_cast<Bf16*>(a.out) + value_at;
  const float skip = a.skip[head];
  float step = step_at(begin + lane);
  int now = 0;
  for (int first = begin; first < end; first += kRows) {
    wait_for_copies<0>();
    __syncthreads();  // the chunk is there, and nobody reads the one before it
    reader.fetch_next(stages[1 - now]);
    const float next_step = step_at(first + kRows + lane);
    const RowFactors f = RowFactors::of(a, head, step, first + lane < end, lane);
    if (used) {
      state.multiply(stages[now], f, lane,
                     {out + first * a.shape.values(), a.shape.values(), own, end - first, skip});
    }
    step = next_step;
    now = 1 - now;
  }
  if (used) state.store(matrix, lane);
  keep_inputs<Bf16>(a, sequence, int64_t{head} * s.head_dim + slice * kColumns,
                    min(kColumns, s.head_dim - slice * kColumns));
  const int shared_by = s.heads / s.groups;
  if (head % shared_by != 0 || slice != 0) return;
  const int64_t key_at = a.shape.values() + int64_t{head / shared_by} * kState;
  keep_inputs<Bf16>(a, sequence, key_at, kState);
  keep_inputs<Bf16>(a, sequence, key_at + a.shape.keys(), kState);
#endif
}

template <int kState>
void launch_state(const SpaceLaunch& a, Stream stream) {
  const SpaceSpec& s = a.shape.spec;
  constexpr int kBytes = kSharedBytes<kState>;
  SKALD_CUDA(cudaFuncSetAttribute(space_chunks<kState>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  kBytes));
  const dim3 blocks(s.heads * ((s.head_dim + kColumns - 1) / kColumns), a.sequences);
  launch_kernel(space_chunks<kState>, {blocks, kThreads, static_cast<size_t>(kBytes)}, stream, a);
}

}  // namespace

template <>
void launch_space<kernel_id("space_chunks")>(const SpaceLaunch& a, Stream stream) {
  check(supports_space_chunks(a.shape), "space_chunks supports the state space");
  launch_space_conv(a, stream);
  if (a.shape.spec.state_dim == 64) {
    launch_state<64>(a, stream);
  } else if (a.shape.spec.state_dim == 128) {
    launch_state<128>(a, stream);
  } else {
    launch_state<256>(a, stream);
  }
  launch_space_finish(a, stream);
}

}  // namespace skald::cuda
