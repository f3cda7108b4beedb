// A warp's 16 weight rows x 128 columns of an expert's matrix, loaded from memory straight into the
// registers of mma() (mma.cuh), and the activations in the same order of columns. Loads and
// products are separate, so that the next part is on its way while this one is multiplied.
#pragma once

#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/mma.cuh"
#include "cuda/kernels/experts/experts_layout.h"
#include "cuda/kernels/tiles/lane_mins.cuh"
#include "engine/base/check.h"

namespace skald::cuda {

inline constexpr int kPartCols = tiles::kPartCols;
inline constexpr int kPartUnits = kPartCols / kUnitCols;

__device__ inline const char* expert_matrix(const ExpertsLaunch& a, int expert) {
  const int slot = a.slots ? __ldcg(a.slots + expert) : -1;
  return slot < 0 ? static_cast<const char*>(a.weight) + expert * a.stride
                  : static_cast<const char*>(a.cached) + slot * a.stride;
}

// Rows of 16-bit numbers. In each 32 columns lane 4 g + c has 8, from 8 c on.
template <class T>
struct PlainPart {
  using Number = T;
  // True if activations must lie in the column order of tiles.
  static constexpr bool kInterleaved = false;
  uint4 w[kPartUnits][2];  // rows g and g + 8

  // The 16 rows from `first` on. Rows beyond the matrix repeat its last one.
  struct Rows {
    const T* row[2];
    int64_t ins;
    __device__ void set(const ExpertsLaunch& a, int expert, int64_t first) {
      ins = a.ins;
      const int lane = static_cast<int>(threadIdx.x) % 32;
      const T* weight = reinterpret_cast<const T*>(expert_matrix(a, expert));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int64_t at = min(first + lane / 4 + 8 * half, a.outs - 1);
        row[half] = weight + at * a.ins + lane % 4 * 8;
      }
    }
  };

  __device__ void load(const Rows& rows, int part) {
#pragma unroll
    for (int unit = 0; unit < kPartUnits; ++unit) {
      const int64_t col = part * kPartCols + unit * kUnitCols;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        w[unit][half] = col < rows.ins
                            ? __ldcs(reinterpret_cast<const uint4*>(rows.row[half] + col))
                            : uint4{0, 0, 0, 0};
      }
    }
  }

  // m: the first or the second 16 columns of a unit, in the order of the lanes.
  __device__ void fragment(int unit, int m, uint32_t (&a)[4]) const {
    const uint4 &x = w[unit][0], &y = w[unit][1];
    if (m == 0) {
      a[0] = x.x, a[1] = y.x, a[2] = x.y, a[3] = y.y;
    } else {
      a[0] = x.z, a[1] = y.z, a[2] = x.w, a[3] = y.w;
    }
  }

  static constexpr int kTotals = 0;

  // Adds the product of the part with the activations x to sums.
  template <class Totals>
  __device__ void multiply(float (&sums)[4], const uint4 (&x)[kPartUnits], const Totals&) const {
#if SKALD_HAS_MMA
#pragma unroll
    for (int unit = 0; unit < kPartUnits; ++unit) {
      uint32_t w[4];
      fragment(unit, 0, w);
      mma(T(), sums, w, x[unit].x, x[unit].y);
      fragment(unit, 1, w);
      mma(T(), sums, w, x[unit].z, x[unit].w);
    }
#endif
  }
};

template <class F>
struct PartMins {
  LaneMins<typename F::Scales> mins;
  __device__ void load(const char* record, int i, int lane) {
    mins.load(record + F::kScalesAt + i * F::Scales::kPartBytes, lane);
  }
  __device__ float min(int b, int half) const { return mins.min(b, half); }
};
struct NoPartMins {
  __device__ void load(const char*, int, int) {}
};

// Tiles of a block format. In each 32 columns lane 4 g + c has 4, from 4 c on, and the 4 that are
// 16 further. fragment() gives weights rounded to bf16. multiply() rounds no weight.
template <class F>
struct TilePart {
  using Number = Bf16;
  static constexpr bool kInterleaved = true;
  LanePart<F> part;
  std::conditional_t<F::kHasMin, PartMins<F>, NoPartMins> mins;

  struct Rows {
    const char* group;
    int parts;
    __device__ void set(const ExpertsLaunch& a, int expert, int64_t first) {
      const int records = (static_cast<int>(a.ins) + F::kRecordCols - 1) / F::kRecordCols;
      parts = records * F::kParts;
      // Rows beyond the matrix repeat its last ones.
      const int last = (static_cast<int>(a.outs) - 1) / tiles::kRows;
      const int at = min(static_cast<int>(first) / tiles::kRows, last);
      group = expert_matrix(a, expert) + int64_t{at * records} * F::kRecordBytes;
    }
  };

  __device__ void load(const Rows& rows, int at) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const unsigned i = static_cast<unsigned>(min(at, rows.parts - 1));
    load(rows.group + i / F::kParts * F::kRecordBytes, static_cast<int>(i % F::kParts), lane);
  }
  // Part `own` of a record.
  __device__ void load(const char* record, int own, int lane) {
    part.load(record, own, lane);
    mins.load(record, own, lane);
  }

  __device__ void fragment(int unit, int m, uint32_t (&a)[4]) const {
    const int b = F::Scales::kCols == 16 ? unit * 2 + m : unit;
    if constexpr (F::kFloats) {
      floats(unit, m, a, [&](int half) {
        return part.scales.row(half) * part.scales.scale(b, half) * kNumberUnit<F>;
      });
    } else {
      products(unit, m, b, a);
    }
  }
  // Raw numbers of codes that are floats, times a factor of each row.
  template <class Factor>
  __device__ void floats(int unit, int m, uint32_t (&a)[4], const Factor& factor) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      __half2 two[2];
      part.codes.raw(unit, half, m, two);
#pragma unroll
      for (int p = 0; p < 2; ++p) {
        const float2 pair = __half22float2(two[p]);
        a[half + 2 * p] = pack(Bf16(), pair.x * factor(half), pair.y * factor(half));
      }
    }
  }
  // Codes that are integers, times the scale of block b.
  __device__ void products(int unit, int m, int b, uint32_t (&a)[4]) const {
    if constexpr (kBias == 0) {
      raw_products(unit, m, b, a);
    } else {
      integers(unit, m, a);  // 128 + code in bf16, the upper half of a float
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float scale = part.scales.row(half) * part.scales.scale(b, half);
        float less = scale * kBias;
        if constexpr (F::kHasMin) less = fmaf(part.scales.row_min(half), mins.min(b, half), less);
#pragma unroll
        for (int p = 0; p < 2; ++p) {
          uint32_t& two = a[half + 2 * p];
          two = pack(Bf16(), fmaf(__uint_as_float(two << 16), scale, -less),
                     fmaf(__uint_as_float(two & 0xffff0000), scale, -less));
        }
      }
    }
  }
  // The same for codes of 8 bits, which have no minimums.
  __device__ void raw_products(int unit, int m, int b, uint32_t (&a)[4]) const {
    // An integer below 2^23 in the low bits of the float 2^23 makes 2^23 + the integer.
    constexpr uint32_t kTwo23 = 0x4b000000;
    constexpr float kOdd = F::Codes::kOddScale;
    static_assert(!F::kHasMin);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float scale = part.scales.row(half) * part.scales.scale(b, half);
      uint32_t pairs[2];
      part.codes.pairs(unit, half, m, pairs[0], pairs[1]);
#pragma unroll
      for (int p = 0; p < 2; ++p) {
        const float each = p ? kOdd : 1.0f, own = p ? scale / kOdd : scale;
        const float bias = 8388608.0f + F::kOffset * each;
        const float low = __uint_as_float(__byte_perm(pairs[p], kTwo23, 0x7610)) - bias;
        const float high = __uint_as_float(__byte_perm(pairs[p], kTwo23, 0x7632)) - bias;
        a[half + 2 * p] = pack(Bf16(), low * own, high * own);
      }
    }
  }

  // What numbers() adds to each weight, in units of the weight's scale: a sum of products has so
  // many times the sum of its activations too much.
  static constexpr int kBias = F::kOffset == 128 || F::kFloats ? 0 : 128 + F::kOffset;
  // Sums of activations that multiply() needs for each unit: one, or one for each half; 0: none.
  static constexpr bool kWhole = F::Scales::kCols >= 32;  // a unit has one scale
  static constexpr int kTotals = kBias == 0 && !F::kHasMin ? 0 : kWhole ? 1 : 2;

  // Codes below 128 plus 128: the low bits of the bf16 number 128. Codes of 8 bits minus 128. Codes
  // that are floats: raw numbers.
  __device__ void numbers(int unit, int m, uint32_t (&a)[4]) const {
    if constexpr (F::kFloats) {
      floats(unit, m, a, [](int) { return 1.0f; });
    } else {
      integers(unit, m, a);
    }
  }
  __device__ void integers(int unit, int m, uint32_t (&a)[4]) const {
    constexpr uint32_t kBits128 = 0x43004300;  // the bf16 number 128, twice
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t pairs[2];
      constexpr bool kEven = kBias > 0 && requires {
        part.codes.even_pairs(unit, half, m, kBits128, pairs);
      };
      if constexpr (kEven) {
        part.codes.even_pairs(unit, half, m, kBits128, pairs);
      } else {
        part.codes.pairs(unit, half, m, pairs[0], pairs[1]);
        pairs[1] /= F::Codes::kOddScale;
      }
#pragma unroll
      for (int p = 0; p < 2; ++p) {
        if constexpr (kEven) {
          a[half + 2 * p] = pairs[p];
        } else if constexpr (kBias == 0) {
          constexpr uint32_t kTwo23 = 0x4b000000;
          constexpr float kLess = 8388608.0f + F::kOffset;
          a[half + 2 * p] =
              pack(Bf16(), __uint_as_float(__byte_perm(pairs[p], kTwo23, 0x7610)) - kLess,
                   __uint_as_float(__byte_perm(pairs[p], kTwo23, 0x7632)) - kLess);
        } else {
          a[half + 2 * p] = pairs[p] | kBits128;
        }
      }
    }
  }

  // Adds the product of the part with the activations x to sums. Scales multiply sums of a block's
  // products; bias and minimums multiply sums of its activations: totals(unit, m) gives those of
  // the lane's two places, m < kTotals. No weight is rounded.
  template <class Totals>
  __device__ void multiply(float (&sums)[4], const uint4 (&x)[kPartUnits],
                           const Totals& totals) const {
#if SKALD_HAS_MMA
#pragma unroll
    for (int unit = 0; unit < kPartUnits; ++unit) {
      float products[4] = {};
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        uint32_t w[4];
        numbers(unit, m, w);
        mma(Bf16(), products, w, m ? x[unit].z : x[unit].x, m ? x[unit].w : x[unit].y);
        if (kWhole && m == 0) continue;
        const int b = kWhole ? unit : unit * 2 + m;
        float2 total = {};
        if constexpr (kTotals > 0) total = totals(unit, kWhole ? 0 : m);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float scale = part.scales.row(half) * part.scales.scale(b, half) * kNumberUnit<F>;
          float& first = sums[2 * half];
          float& second = sums[2 * half + 1];
          first = fmaf(scale, products[2 * half], first);
          second = fmaf(scale, products[2 * half + 1], second);
          products[2 * half] = products[2 * half + 1] = 0;
          if constexpr (kTotals > 0) {
            float less = scale * kBias;
            if constexpr (F::kHasMin) {
              less = fmaf(part.scales.row_min(half), mins.min(b, half), less);
            }
            first = fmaf(-less, total.x, first);
            second = fmaf(-less, total.y, second);
          }
        }
      }
    }
#endif
  }
};

// A lane's activations of a unit of columns, from a row in shared memory. The first two registers
// are for its first 16 columns.
template <class Part>
__device__ inline uint4 shared_unit(const char* row, int unit) {
  const int c = static_cast<int>(threadIdx.x) % 4;
  const char* at = row + unit * kUnitCols * 2;
  if constexpr (Part::kInterleaved) {
    const uint2 near = *reinterpret_cast<const uint2*>(at + 8 * c);
    const uint2 far = *reinterpret_cast<const uint2*>(at + 8 * (4 + c));
    return {near.x, near.y, far.x, far.y};
  } else {
    return *reinterpret_cast<const uint4*>(at + 16 * c);
  }
}

// The sum of the activations of a unit, or of half a unit (kTotals is 2). Neighbouring lanes,
// kTotalLanes of them, have 8 activations each; all get the sum. For whole warps.
template <class Part>
constexpr int kTotalLanes = Part::kTotals == 2 ? 2 : 4;
template <class Part>
__device__ inline float total_of(const uint4& eight) {
  float sum = 0;
  if constexpr (Part::kTotals > 0) {
    const auto* numbers = reinterpret_cast<const typename Part::Number*>(&eight);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += to_float(numbers[i]);
    sum += __shfl_xor_sync(~0u, sum, 1);
    if (Part::kTotals == 1) sum += __shfl_xor_sync(~0u, sum, 2);
  }
  return sum;
}

__host__ __device__ constexpr int parts_of(int64_t ins) {
  return static_cast<int>((ins + kPartCols - 1) / kPartCols);
}

// What belongs to a sum: the expert, its place, and the weight row.
struct ExpertResult {
  int expert;
  int64_t place, out;
};
// Stores the result of one weight row, or of a gated pair's gate and up.
template <class T>
__device__ void store_result(const ExpertsLaunch& a, const ExpertResult& at, float sum, float up) {
  const int64_t place = at.place, out = at.out;
  if (a.bias) {
    const float* bias = a.bias + at.expert * a.outs + out;
    sum += bias[0];
    if (a.epilogue == Epilogue::Gated) up += bias[1];
  }
  if (a.epilogue == Epilogue::Floats) {
    static_cast<float*>(a.out)[place * a.out_stride + out] = sum;
  } else if (a.epilogue == Epilogue::Gated) {
    static_cast<T*>(a.out)[place * a.out_stride + out / 2] =
        from_float<T>(gated(sum, up, a.activation));
  } else {
    static_cast<T*>(a.out)[place * a.out_stride + out] =
        from_float<T>(a.activates ? activate(sum, a.activation) : sum);
  }
}

// Calls fn with a null pointer to the type of part that the launch needs.
template <class Fn>
void dispatch_parts(const ExpertsLaunch& a, const Fn& fn) {
  if (a.format == DType::F16) return fn(static_cast<PlainPart<Half>*>(nullptr));
  if (a.format == DType::BF16) return fn(static_cast<PlainPart<Bf16>*>(nullptr));
  const bool known = tiles::dispatch(
      a.format, [&](auto format) { fn(static_cast<TilePart<decltype(format)>*>(nullptr)); });
  check(known, "experts of this format are multiplied 16 bits at a time");
}

}  // namespace skald::cuda
