// Rows of prompts in chunks of 16, on tensor cores.
//
// Let S be a head's matrix before a chunk; k, q and v the chunk's keys, queries and values; g and b
// the factors `kept` and `corrected` of its rows. r(i, j) is the product of g from row j + 1 to row
// i, and G_i the product from row 0 to row i. Row i changes S by k_i ⊗ d_i, where
//   d_i = b_i (v_i - G_i Sᵀk_i - sum over j < i of r(i, j) (k_i·k_j) d_j).
// These are triangular equations with the same matrix for every column of S. So with T, the inverse
// of that matrix times b, and x_i = v_i - G_i Sᵀk_i:
//   d_i          = sum over j <= i of T_ij x_j
//   out_i        = G_i Sᵀq_i + sum over j <= i of r(i, j) (q_i·k_j) d_j = G_i Sᵀq_i + W x
//   S afterwards = G_15 S + sum over j of k_j ⊗ r(15, j) d_j         = G_15 S + Kᵀ (M x)
// delta_chunk_factors computes G, W and M of all chunks and heads at once. delta_chunks then goes
// from chunk to chunk. A warp keeps 16 columns of S as the float sums of products. Two adjacent
// tiles of such sums, rounded to bf16, are the left factor of the next product, and need no
// exchange between lanes. Keys and queries are bf16. All other factors become a sum of two bf16
// numbers, which keeps 16 bits of them.
//
// Floor: 108 products of 16 x 8 x 16 a chunk and warp. An H100 has one in about 6 cycles, and for
// 48 heads of 128 columns no more than one warp for each of its tensor cores: 50 us for 2048 rows.
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/states/delta_chunk.cuh"

namespace skald::cuda {
namespace {

constexpr int kWarps = 4, kThreads = kWarps * 32;
constexpr int kWarpColumns = 16, kColumns = kWarps * kWarpColumns;

#if SKALD_HAS_MMA

constexpr int kRows = kDeltaChunkRows;
constexpr int kStages = 3;  // chunks in shared memory: one in use, the others under way

// A left factor [16, 16] out of two tiles of sums.
struct SplitMatrix {
  uint32_t high[4], low[4];

  __device__ void set(const float (&first)[4], const float (&second)[4]) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const float(&from)[4] = r < 2 ? first : second;
      const Bf16Pairs parts = bf16_pairs(from[r % 2 * 2], from[r % 2 * 2 + 1]);
      high[r] = parts.high;
      low[r] = parts.low;
    }
  }
};

template <int kKeys>
struct Stage {
  static constexpr int kPad = 8;  // a row begins 4 banks after the row before it
  __align__(16) Bf16 keys[kRows][kKeys + kPad];
  Bf16 queries[kRows][kKeys + kPad];
  Bf16 values[kRows][kColumns + kPad];
  ChunkFactors factors;
};

// Fetches the chunks of one head and block, in their order.
template <int kKeys>
class ChunkReader {
 public:
  // `column`: the block's first one of the head.
  __device__ ChunkReader(const DeltaLaunch& a, int head, int sequence, int column)
      : begin_(a.step.begins[sequence]),
        end_(a.step.begins[sequence + 1]),
        has_values_(column + value_piece() * kPiece < a.shape.spec.value_dim),
        first_(begin_),
        stride_(a.shape.conv_cols()),
        to_keys_(a.shape.keys()) {
    const DeltaSpec& s = a.shape.spec;
    const Bf16* row = static_cast<const Bf16*>(a.convolved) + begin_ * stride_;
    query_ = row + key_row() * stride_ + int64_t{DeltaHead::of(s, head).group} * kKeys +
             key_piece() * kPiece;
    value_ = row + value_row() * stride_ + 2 * to_keys_ + int64_t{head} * s.value_dim + column +
             value_piece() * kPiece;
    factors_ =
        reinterpret_cast<const uint4*>(chunk_factors(a, first_chunk(begin_, sequence), head)) +
        threadIdx.x;
    factors_stride_ = int64_t{s.value_heads} * kFactorPieces;
  }

  __device__ int begin() const { return begin_; }
  __device__ int end() const { return end_; }

  // All threads call it. Rows beyond the end become zeros, and are not read.
  __device__ void fetch_next(Stage<kKeys>& to) {
    if (first_ < end_) {
#pragma unroll
      for (int i = 0; i < kRows / kPassRows; ++i) {
        const int row = key_row() + i * kPassRows;
        const Bf16* query = query_ + i * kPassRows * stride_;
        const bool valid = first_ + row < end_;
        copy_async(shared_address(&to.keys[row][key_piece() * kPiece]), query + to_keys_, valid);
        copy_async(shared_address(&to.queries[row][key_piece() * kPiece]), query, valid);
      }
      copy_async(shared_address(&to.values[value_row()][value_piece() * kPiece]), value_,
                 has_values_ && first_ + value_row() < end_);
      const uint32_t factors = shared_address(&to.factors) + threadIdx.x * 16;
      copy_async(factors, factors_, true);
      if (threadIdx.x < kFactorPieces - kThreads) {
        copy_async(factors + kThreads * 16, factors_ + kThreads, true);
      }
      first_ += kRows;
      query_ += kRows * stride_;
      value_ += kRows * stride_;
      factors_ += factors_stride_;
    }
    commit_copies();
  }

 private:
  static constexpr int kPiece = 8;  // numbers of 16 bytes
  static constexpr int kKeyPieces = kKeys / kPiece, kPassRows = kThreads / kKeyPieces;
  static constexpr int kValuePieces = kColumns / kPiece;
  static constexpr int kFactorPieces = sizeof(ChunkFactors) / 16;
  static_assert(kRows % kPassRows == 0 && kRows * kValuePieces == kThreads);
  static_assert(kFactorPieces >= kThreads && kFactorPieces <= 2 * kThreads);

  // The pieces of this thread.
  __device__ static int key_row() { return static_cast<int>(threadIdx.x) / kKeyPieces; }
  __device__ static int key_piece() { return static_cast<int>(threadIdx.x) % kKeyPieces; }
  __device__ static int value_row() { return static_cast<int>(threadIdx.x) / kValuePieces; }
  __device__ static int value_piece() { return static_cast<int>(threadIdx.x) % kValuePieces; }

  int begin_, end_;
  bool has_values_;
  int first_;  // row of the next chunk
  int64_t stride_, to_keys_, factors_stride_;
  const Bf16 *query_, *value_;
  const uint4* factors_;
};

// 16 columns of S, and their part of a chunk's work. Sums [16, 8] have columns of S as rows: lane
// 4 g + c has columns g and g + 8, with numbers 2c and 2c + 1 of the keys or of the chunk's rows.
template <int kKeys>
class StateColumns {
 public:
  __device__ void clear() {
    for (float(&tile)[4] : state_) {
      for (float& x : tile) x = 0;
    }
  }
  // `from` is S of the head, from the warp's first column on.
  __device__ void load(const float* from, int values, int lane) {
    each(values, lane, [&](float& x, int64_t at) { x = __ldcg(from + at); });
  }
  __device__ void store(float* to, int values, int lane) {
    each(values, lane, [&](float& x, int64_t at) { to[at] = x; });
  }

  // The first half of a chunk: Sᵀk.
  __device__ void hold(const Stage<kKeys>& stage, int lane) {
    const uint32_t keys = shared_address(&stage.keys[row_of(lane)][lane / 8 % 2 * 8]);
    float low[2][4] = {};
    for (float(&tile)[4] : held_) {
      for (float& x : tile) x = 0;
    }
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      parts_[i].set(state_[2 * i], state_[2 * i + 1]);
      uint32_t b[4];
      load_matrices(b, keys + i * kStepBytes);
#pragma unroll
      for (int tile = 0; tile < 2; ++tile) {
        mma(Bf16(), held_[tile], parts_[i].high, b[2 * tile], b[2 * tile + 1]);
        mma(Bf16(), low[tile], parts_[i].low, b[2 * tile], b[2 * tile + 1]);
      }
    }
#pragma unroll
    for (int x = 0; x < 8; ++x) held_[x / 4][x % 4] += low[x / 4][x % 4];
  }

  // The second half: S becomes the one after the chunk. Results go to `out`, from the chunk's first
  // row and the warp's first column on. `count` is the number of the chunk's rows.
  __device__ void finish(const Stage<kKeys>& stage, int column, int lane, Bf16* out,
                         int64_t out_stride, int count) {
    const int g = lane / 4, c = lane % 4;
    float high[2][4] = {}, low[2][4] = {};  // Sᵀq
    read(stage, lane, 0, kSteps / 2, high, low);

    float2 kept[2];
    float x[2][4];
    uint32_t values[4];
    load_matrices_transposed(
        values, shared_address(&stage.values[row_of(lane)][column + lane / 8 % 2 * 8]));
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      kept[tile] = *reinterpret_cast<const float2*>(&stage.factors.kept[8 * tile + 2 * c]);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32_t two = values[2 * tile + half];
        x[tile][2 * half] = fmaf(-kept[tile].x, held_[tile][2 * half], __uint_as_float(two << 16));
        x[tile][2 * half + 1] =
            fmaf(-kept[tile].y, held_[tile][2 * half + 1], __uint_as_float(two & 0xffff0000u));
      }
    }
    SplitMatrix left;
    left.set(x[0], x[1]);
    float learned[2][4], result[2][4];
    product(left, stage.factors.learned, lane, learned);
    product(left, stage.factors.read, lane, result);
    read(stage, lane, kSteps / 2, kSteps, high, low);
    left.set(learned[0], learned[1]);
    learn(stage, lane, left);

#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = 2 * half;
        const float a = fmaf(kept[tile].x, high[tile][at] + low[tile][at], result[tile][at]);
        const float b =
            fmaf(kept[tile].y, high[tile][at + 1] + low[tile][at + 1], result[tile][at + 1]);
        const uint32_t two = transpose(pack(Bf16(), a, b));  // two columns of one row
        const int row = 8 * tile + g;
        if (row < count) {
          *reinterpret_cast<uint32_t*>(out + row * out_stride + 8 * half + 2 * c) = two;
        }
      }
    }
  }

 private:
  static constexpr int kSteps = kKeys / 16;
  static constexpr int kStepBytes = 16 * sizeof(Bf16);

  // The lane's row of a chunk in load_matrices(): matrices 0 and 1 have the first 8 rows.
  __device__ static int row_of(int lane) { return lane / 16 * 8 + lane % 8; }

  template <class Fn>
  __device__ void each(int values, int lane, const Fn& fn) {
    const int g = lane / 4, c = lane % 4;
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) {
      const int key = i / 4 * 8 + 2 * c + i % 2;
      fn(state_[i / 4][i % 4], int64_t{key} * values + g + i % 4 / 2 * 8);
    }
  }

  // Adds Sᵀq over some of the keys, with the S that hold() found, and makes those rows of S G_15 S.
  __device__ void read(const Stage<kKeys>& stage, int lane, int first, int last,
                       float (&high)[2][4], float (&low)[2][4]) {
    const float kept = stage.factors.kept[kRows - 1];
    const uint32_t queries = shared_address(&stage.queries[row_of(lane)][lane / 8 % 2 * 8]);
#pragma unroll
    for (int i = first; i < last; ++i) {
      uint32_t b[4];
      load_matrices(b, queries + i * kStepBytes);
#pragma unroll
      for (int tile = 0; tile < 2; ++tile) {
        mma(Bf16(), high[tile], parts_[i].high, b[2 * tile], b[2 * tile + 1]);
        mma(Bf16(), low[tile], parts_[i].low, b[2 * tile], b[2 * tile + 1]);
      }
#pragma unroll
      for (int x = 0; x < 8; ++x) state_[2 * i + x / 4][x % 4] *= kept;
    }
  }

  // to = left · matrixᵀ, in three sums that do not wait for each other.
  __device__ static void product(const SplitMatrix& left, const uint4 (&matrix)[2][32], int lane,
                                 float (&to)[2][4]) {
    const uint4 high = matrix[0][lane], low = matrix[1][lane];
    float second[2][4] = {}, third[2][4] = {};
    for (float(&tile)[4] : to) {
      for (float& x : tile) x = 0;
    }
    mma(Bf16(), to[0], left.high, high.x, high.y);
    mma(Bf16(), to[1], left.high, high.z, high.w);
    mma(Bf16(), second[0], left.high, low.x, low.y);
    mma(Bf16(), second[1], left.high, low.z, low.w);
    mma(Bf16(), third[0], left.low, high.x, high.y);
    mma(Bf16(), third[1], left.low, high.z, high.w);
#pragma unroll
    for (int x = 0; x < 8; ++x) {
      to[x / 4][x % 4] += second[x / 4][x % 4] + third[x / 4][x % 4];
    }
  }

  // S += learned · K
  __device__ void learn(const Stage<kKeys>& stage, int lane, const SplitMatrix& learned) {
    constexpr int kTogether = 4;  // steps whose sums do not wait for each other
    const uint32_t keys = shared_address(&stage.keys[lane % 16][lane / 16 * 8]);
#pragma unroll
    for (int first = 0; first < kSteps; first += kTogether) {
      uint32_t b[kTogether][4];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        load_matrices_transposed(b[i], keys + (first + i) * kStepBytes);
      }
#pragma unroll
      for (int part = 0; part < 2; ++part) {
#pragma unroll
        for (int i = 0; i < 2 * kTogether; ++i) {
          mma(Bf16(), state_[2 * first + i], part == 0 ? learned.high : learned.low,
              b[i / 2][i % 2 * 2], b[i / 2][i % 2 * 2 + 1]);
        }
      }
    }
  }

  float state_[kKeys / 8][4];
  SplitMatrix parts_[kSteps];  // of S before the chunk
  float held_[2][4];           // Sᵀk
};

#endif

// A block has up to 64 columns of one head of one sequence; its warps share the chunk's rows.
template <int kKeys>
__global__ void __launch_bounds__(kThreads) delta_chunks(DeltaLaunch a) {
#if SKALD_HAS_MMA
  __shared__ Stage<kKeys> stages[kStages];
  const DeltaSpec& s = a.shape.spec;
  const int slices = (s.value_dim + kColumns - 1) / kColumns;
  const int head = blockIdx.x / slices, slice = blockIdx.x % slices, sequence = blockIdx.y;
  const int lane = threadIdx.x % 32;
  const int own = threadIdx.x / 32 * kWarpColumns, column = slice * kColumns + own;
  const bool used = column < s.value_dim;
  if (a.step.begins[sequence] == a.step.begins[sequence + 1]) return;
  ChunkReader<kKeys> reader(a, head, sequence, slice * kColumns);
#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) reader.fetch_next(stages[i]);

  const int64_t at = int64_t{head} * s.value_dim + column;
  float* matrix = delta_state(a, sequence) + a.shape.ring_floats() +
                  int64_t{head} * kKeys * s.value_dim + column;
  StateColumns<kKeys> state;
  if (used && a.step.positions[reader.begin()] != 0) {
    state.load(matrix, s.value_dim, lane);
  } else {
    state.clear();
  }
  Bf16* out = static_cast<Bf16*>(a.out) + reader.begin() * a.shape.values() + at;
  int now = 0;
  for (int left = reader.end() - reader.begin(); left > 0; left -= kRows) {
    wait_for_copies<kStages - 2>();
    __syncthreads();  // the chunk is there, and nobody reads the one before it
    const Stage<kKeys>& stage = stages[now];
    if (used) state.hold(stage, lane);
    reader.fetch_next(stages[now == 0 ? kStages - 1 : now - 1]);
    if (used) state.finish(stage, own, lane, out, a.shape.values(), left);
    out += kRows * a.shape.values();
    now = now + 1 == kStages ? 0 : now + 1;
  }
  if (used) state.store(matrix, s.value_dim, lane);
  keep_last_inputs<Bf16>(a, {head, sequence, slice * kColumns, kColumns});
#endif
}

template <int kKeys>
void launch_keys(const DeltaLaunch& a, Stream stream) {
  const DeltaSpec& s = a.shape.spec;
  const dim3 slices(s.value_heads * ((s.value_dim + kColumns - 1) / kColumns), a.sequences);
  launch_kernel(delta_chunks<kKeys>, {slices, kThreads}, stream, a);
}

}  // namespace

template <>
void launch_delta<kernel_id("delta_chunks")>(const DeltaLaunch& a, Stream stream) {
  check(supports_delta_chunks(a.shape) && a.factors, "delta_chunks supports the net");
  launch_delta_conv(a, stream);
  launch_delta_chunk_factors(a, stream);
  if (a.shape.spec.key_dim == 64) {
    launch_keys<64>(a, stream);
  } else {
    launch_keys<128>(a, stream);
  }
  launch_delta_finish(a, stream);
}

}  // namespace skald::cuda
