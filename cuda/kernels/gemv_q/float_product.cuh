// Multiplies parts of a tile by one activation row, for formats whose codes are floats. Codes, and
// codes times scales of 16 columns, are numbers of f16, exactly. So a product with an activation's
// digit is exact in float32. The sums of 128 columns are multiplied by the weight row's scale and
// the activations' power of two.
#pragma once

#include "cuda/kernels/device/mma.cuh"
#include "cuda/kernels/gemv_q/float_digits.cuh"
#include "cuda/kernels/tiles/tile_lane.cuh"

namespace skald::cuda {

// A lane has the sums of weight rows lane / 4 and lane / 4 + 8. The four lanes of a row have the
// same sums.
template <class F>
struct FloatRow {
  static constexpr bool kGroups = F::Scales::kCols == 16;  // 16 columns have a scale of their own
  // With scales of groups there are no registers for the inputs of the next part: NVFP4 decodes 2 %
  // faster if they are loaded late.
  static constexpr bool kLoadsAhead = !kGroups, kAsksForSet = false;
  static constexpr int kStep = kTileParts<F> * kFloatPartBytes;

  using Weights = LanePart<F>;

  int lane;
  int first_record;         // offset in a tile of the warp's first part
  const char *base, *kept;  // the lane's digits for the row's first part, and for a tile's
  float totals[2] = {}, sums[2] = {};

  // The warp has kWarpParts parts of each tile, from `first_part` on.
  __device__ FloatRow(const Activations& a, int first_part)
      : lane(static_cast<int>(held_number(threadIdx.x % 32))),
        first_record(first_part / F::kParts * F::kRecordBytes),
        base(held_pointer(a.digits + first_part * kFloatPartBytes +
                          lane / 4 % 2 * FloatPart::kDigit + lane % 4 * 16)),
        kept(base) {}
  // Begins a tile whose digits are staged `at` bytes after the digits of the row's first tile.
  __device__ void begin(int at) { kept = base + at; }

  // Loads the i-th of the warp's parts of the tile at `slot`.
  __device__ void load(Weights& weights, const char* slot, int i) const {
    const char* record = slot + first_record + i / F::kParts * F::kRecordBytes;
    const int part = i % F::kParts;
    weights.codes.load(record + part * F::Codes::kBytes, lane);
    weights.scales.load(record + F::kScalesAt + part * F::Scales::kPartBytes, lane);
    if (ends_record(i)) weights.scales.load_rows(record + F::kRowsAt, lane);
  }

  // Parts of a record have the same power of two.
  struct Inputs {
    uint4 digits[tiles::kUnits];
    float scale;
  };
  __device__ void load(Inputs& in, int i) const {
    const char* digits = kept + i * kFloatPartBytes;
#pragma unroll
    for (int unit = 0; unit < tiles::kUnits; ++unit) {
      in.digits[unit] = load16(digits + unit * FloatPart::kUnit);
    }
    // `digits` begins at the lane's own place.
    const int own = lane / 4 % 2 * FloatPart::kDigit + lane % 4 * 16;
    if (ends_record(i)) in.scale = __uint_as_float(load4(digits - own + FloatPart::kScaleAt));
  }

  __device__ void multiply(const Weights& weights, const Inputs& in, int i) {
    float products[2][4] = {};  // two chains of products, by turns
#pragma unroll
    for (int unit = 0; unit < tiles::kUnits; ++unit) {
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        uint32_t rows[4];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          __half2 pairs[2];
          weights.codes.raw(unit, half, m, pairs);
          if constexpr (kGroups) {
            const __half2 scale = weights.scales.halves(unit * 2 + m, half);
            pairs[0] = __hmul2(pairs[0], scale), pairs[1] = __hmul2(pairs[1], scale);
          }
          rows[half] = *reinterpret_cast<const uint32_t*>(&pairs[0]);
          rows[half + 2] = *reinterpret_cast<const uint32_t*>(&pairs[1]);
        }
        const uint4& four = in.digits[unit];
        mma(Half(), products[m], rows, m ? four.z : four.x, m ? four.w : four.y);
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const auto both = [&](int digit) {
        return products[0][half * 2 + digit] + products[1][half * 2 + digit];
      };
      sums[half] += both(0) + both(1);
      if (!ends_record(i)) continue;
      const float scale = weights.scales.row(half) * kNumberUnit<F>;
      totals[half] = fmaf(scale, in.scale * sums[half], totals[half]);
      sums[half] = 0;
    }
  }

  // Stores this warp's partial sums [16 weight rows, lane % 4].
  __device__ void store_partials(float* partials) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      partials[lane + half * 32] = totals[half];
      totals[half] = 0;
    }
  }
  static __device__ float added_up(const float4& row) { return row.x; }

 private:
  __device__ static constexpr bool ends_record(int i) { return (i + 1) % F::kParts == 0; }
};

}  // namespace skald::cuda
