// The product of parts of a tile, 16 weight rows x 128 columns each, with one activation row, by
// one warp: codes are bytes (lane_bytes.cuh), the activations digits (digits.cuh), sums of a block
// whole numbers.
#pragma once

#include "cuda/kernels/device/digits.cuh"
#include "cuda/kernels/device/mma.cuh"
#include "cuda/kernels/device/one_row.cuh"
#include "cuda/kernels/device/own_scales.cuh"

namespace skald::cuda {

// A lane has sums of weight rows lane / 4 and the eighth after it, of half of a part's blocks and,
// by turns, of the lower two digits or of the highest.
template <class F>
struct OneRow {
  using Part = DigitPart<F>;
  using Bytes = LaneBytesOf<F>;
  static constexpr int kOwn = Part::kOwn;
  static constexpr bool kHalves = Part::kBlocks == 8;  // blocks are halves of units
  static constexpr int kStep = kTileParts<F> * Part::kBytes;
  // Of all that minimums are multiplied by, what is not in the scale.
  __device__ static constexpr float min_unit() {
    if constexpr (F::kHasMin) {
      return Bytes::kRatio / kNumberSumUnit / LaneScales<typename F::Scales>::kMinUnit;
    }
    return 0;
  }
  struct Weights {
    Bytes codes;
    OwnScales<typename F::Scales> scales;
    __device__ void load(const char* record, int part, int lane) {
      codes.load(record + part * F::Codes::kBytes, lane);
      scales.load(record + F::kScalesAt + part * F::Scales::kPartBytes, lane, lane % 4 / 2);
      scales.load_rows(record + F::kRowsAt, lane);
    }
  };

  const char *left, *right, *side, *scale;  // this lane's, of the part that is next
  int lane, back;
  uint32_t own_bytes;     // a mask: of both blocks' numbers, where these are halves of units
  float second, minimum;  // what the second digit and the minimums count
  uint32_t table[2];
  float totals[2] = {};

  // A warp has kWarpParts of each tile from `first_part` on.
  __device__ OneRow(const Activations& a, int first_part, int tiles)
      : lane(static_cast<int>(threadIdx.x) % 32),
        back(tiles * kStep),
        own_bytes(lane / 16 ? 0xff00ff00 : 0x00ff00ff),
        second(lane % 2 ? 0.0f : 256.0f),
        minimum(lane % 4 == 0 ? min_unit() : 0) {
    const char* first = a.digits + first_part * Part::kBytes;
    const int t = lane % 4, digit = min(lane / 4 % 4, kDigits - 1);
    const int at = digit * 64 + t * 16;
    left = held_pointer(first + (kHalves || lane < 16 ? at : Part::kZerosAt));
    right = held_pointer(first + (kHalves || lane >= 16 ? Part::kHalf + at : Part::kZerosAt));
    side = held_pointer(first + Part::kSideAt + t * Part::kSide);
    scale = held_pointer(first + Part::kSideAt + (t | 1) * Part::kSide + t % 2 * 8 + 4);
    if constexpr (F::kTable != tiles::Table::None) {
      table[0] = held_number(LaneCodesOf<F>::entries(0));
      table[1] = held_number(LaneCodesOf<F>::entries(8));
    }
  }
  __device__ void load(Weights& weights, const char* record, int part) const {
    weights.load(record, part, lane);
    if constexpr (F::kTable != tiles::Table::None) {
      weights.codes.table.first_low = table[0], weights.codes.table.first_high = table[1];
    }
  }

  // What the i-th part of the tile is multiplied by, to be asked for before other loads are.
  struct Inputs {
    uint4 left, right;  // of units 0 and 1, 2 and 3
    uint32_t sums[2];
    float2 less[kOwn];
    float scale;
  };
  __device__ void load(Inputs& in, int i) const {
    in.left = load16(left + i * Part::kBytes);
    in.right = load16(right + i * Part::kBytes);
    const char* beside = side + i * Part::kBytes;
    if constexpr (!F::kHasMin) {
#pragma unroll
      for (int own = 0; own < kOwn; own += 2) {
        const uint4 two = load16(beside + own * 8);
        in.less[own] = {__uint_as_float(two.x), __uint_as_float(two.y)};
        in.less[own + 1] = {__uint_as_float(two.z), __uint_as_float(two.w)};
      }
      in.scale = __uint_as_float(load4(scale + i * Part::kBytes));
    } else if constexpr (kHalves) {
      const uint4 four = load16(beside);
      in.sums[0] = four.x, in.sums[1] = four.y, in.scale = __uint_as_float(four.z);
    } else {
      const uint2 two = load8(beside);
      in.sums[0] = two.x, in.scale = __uint_as_float(two.y);
    }
  }

  // Leaves everything as it was when not `valid`, by way of numbers that may be anything.
  __device__ void multiply(const Weights& weights, const Inputs& in, bool valid) {
    int sums[Bytes::kPlanes][kOwn][4];
#pragma unroll
    for (int unit = 0; unit < tiles::kUnits; ++unit) {
      const int own = kHalves ? unit : unit % 2;
      const uint4& four = unit / 2 ? in.right : in.left;
      uint32_t numbers[2] = {unit % 2 ? four.z : four.x, unit % 2 ? four.w : four.y};
      if (kHalves) numbers[0] &= own_bytes, numbers[1] &= own_bytes;
#pragma unroll
      for (int plane = 0; plane < Bytes::kPlanes; ++plane) {
        uint32_t rows[4];
        weights.codes.bytes(plane, unit, 0, rows[0], rows[2]);
        weights.codes.bytes(plane, unit, 1, rows[1], rows[3]);
        int(&sum)[4] = sums[plane][own];
        if (kHalves || unit < 2) {
          constexpr int kBegin[4] = {kMagicBits, kMagicBits, kMagicBits, kMagicBits};
          mma_bytes(sum, rows, numbers[0], numbers[1], kBegin);
        } else {
          mma_bytes(sum, rows, numbers[0], numbers[1], sum);
        }
      }
    }
    float min_products[4] = {0, 0, 0, 0};
    if constexpr (F::kHasMin) {
      uint32_t mins[2];
      weights.scales.mins(mins);
      if constexpr (kHalves) {
        mma(Half(), min_products, {mins[0], mins[1], mins[0], mins[1]}, in.sums[0], in.sums[1]);
      } else {
        mma8(Half(), min_products, mins[0], mins[1], in.sums[0]);
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float of_shift[2] = {0, 0};  // blocks whose codes are in place, and that are too far up
#pragma unroll
      for (int own = 0; own < kOwn; ++own) {
        float digits[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const float less = F::kHasMin ? kMagic : i ? in.less[own].y : in.less[own].x;
          digits[i] = __int_as_float(sums[0][own][half * 2 + i]) - less;
          if constexpr (Bytes::kPlanes == 2) {
            const float high = __int_as_float(sums[1][own][half * 2 + i]) - kMagic;
            digits[i] = fmaf(high, high_unit(own), digits[i]);
          }
        }
        const float sum = fmaf(digits[1], second, digits[0]);
        float& to = of_shift[Bytes::shift(0, own) != 0];
        to = fmaf(weights.scales.scale(own, half), sum, to);
      }
      float both = of_shift[0];
      constexpr int kShift = kHalves ? Bytes::shift(0, 1) : 0;
      if (kShift > 0) both = fmaf(of_shift[1], 1.0f / (1 << kShift), both);
      float total = fmaf(in.scale * weights.scales.row(half), both, totals[half]);
      if constexpr (F::kHasMin) {
        total = fmaf(-weights.scales.row_min(half) * (in.scale * minimum), min_products[half * 2],
                     total);
      }
      if (valid) totals[half] = total;
    }
  }
  // What a one in plane 1 counts, of a lane's block, in the place of plane 0.
  __device__ float high_unit(int own) const {
    const auto of = [](int unit) {
      return static_cast<float>(Bytes::kHighBit << Bytes::shift(0, unit)) /
             static_cast<float>(1 << Bytes::shift(1, unit));
    };
    return kHalves ? of(own) : lane % 4 / 2 ? of(own + 2) : of(own);
  }
  __device__ void next_tile() { left += kStep, right += kStep, side += kStep, scale += kStep; }

  // To this warp's partial sums [kPartialRow].
  __device__ void leave(float* partials) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float& total = totals[half];
      total += __shfl_xor_sync(~0u, total, 1);
      total += __shfl_xor_sync(~0u, total, 2);
      if (lane % 4 == 0) partials[lane / 4 + half * 8] = total;
      total = 0;
    }
  }
  // To the first part again.
  __device__ void rewind() { left -= back, right -= back, side -= back, scale -= back; }
};

}  // namespace skald::cuda
