// The product of parts of a tile, 16 weight rows x 128 columns each, with one activation row, by
// one warp: codes are bytes (lane_bytes.cuh), the activations digits (digits.cuh), sums of a block
// whole numbers. So are their products with the blocks' scales where these are whole numbers too,
// for 256 columns: two digits' sums are below 2^31 then, in Q6_K at most 1.4e9. Formats whose codes
// lie by 16 columns have a product of their own, by16_product.cuh.
#pragma once

#include <algorithm>

#include "cuda/kernels/device/mma.cuh"
#include "cuda/kernels/gemv_q/digits.cuh"
#include "cuda/kernels/gemv_q/one_row.cuh"
#include "cuda/kernels/gemv_q/own_scales.cuh"

namespace skald::cuda {

// A lane has sums of weight rows lane / 4 and the eighth after it, of half of a part's blocks and,
// by turns, of the lower two digits or of the highest.
template <class F>
struct OneRow {
  using Part = DigitPart<F>;
  using Bytes = LaneBytesOf<F>;
  using Scales = OwnScales<typename F::Scales>;
  static constexpr int kOwn = Part::kOwn;
  static constexpr bool kHalves = Part::kBlocks == 8;  // blocks are halves of units
  static constexpr bool kTable = F::kTable != tiles::Table::None;
  static constexpr bool kWhole = kWholeScales<F>;
  static constexpr TakenOff kTaken = kTakenOff<F>;
  // Lanes whose columns are of the other half multiply zeros. Either they keep them, and load
  // nothing, or they load them. The former spares shared memory a quarter of what it does, which
  // is what holds up codes of 4 bits. Q8_0, and of two planes Q5_0 and MXFP4, are 1, 1 and 7 %
  // faster with the latter: measured when these warps still brought the activations, not explained.
  static constexpr bool kKeepsZeros = !kHalves && Bytes::kPlanes == 1 && Bytes::kRatio > 1;
  // Zeros stay where they are, so inputs are two sets by turns; also of blocks of 16, which are no
  // slower so.
  static constexpr bool kKeepsInputs = kHalves || kKeepsZeros;
  // Whose sums are multiplied together: up to 16 blocks'.
  static constexpr int kSumParts = std::min(16 / Part::kBlocks, kWarpParts<F>);
  // Inputs are asked for a part ahead of their use, but for codes of two planes, which leave no
  // registers for them.
  static constexpr bool kLoadsAhead = kTable || Bytes::kPlanes == 1;
  // Whether a tile asks, with what else it asks for the next, if its group's set of sums is free.
  // Tables are 0 to 2 % faster so than when it is asked at a group's end, all others 0.3 to 3
  // slower.
  static constexpr bool kAsksForSet = kTable;
  static constexpr int kStep = kTileParts<F> * kDigitPartBytes;
  using Factors = SumFactors<typename F::Scales>;
  static_assert(kWarpParts<F> % 2 == 0 && kSumParts % 2 == 0);
  static_assert(kWhole || Planes<F>::kUp == 0);
  // Of all that minimums are multiplied by, what is not in the scale.
  static constexpr float kMinUnit = kTaken == TakenOff::HalfMins
                                        ? Bytes::kRatio / kNumberSumUnit
                                        : (Bytes::kRatio << Planes<F>::kUp) * Part::kSumUnit;
  static_assert(kTaken != TakenOff::ByteScales || Part::kSumUnit == 1);

  struct Weights {
    Bytes codes;
    Scales scales;
    typename Scales::Rows rows;
    Factors sum_factors;
    OwnRowsMins sum_rows;
  };

  // What this lane reads of digits: of the first part, and of a tile's first part where there are
  // registers for that, else where the tile's digits are.
  struct Pointers {
    const char *left, *right, *side, *scale;
  };
  // Not of Q5_K, which has no registers for them, nor of Q8_0, which is 0.5 % slower with them in
  // small models.
  static constexpr bool kKeepsPointers =
      Bytes::kPlanes == 1 ? Bytes::kRatio > 1 : kTaken != TakenOff::ByteMins;
  Pointers base, kept;
  int tile_at = 0;
  int lane;
  // Of the warp's first part in a tile: where the lane's codes, scales and so on lie.
  int codes_at, high_codes_at, scales_at, mins_at, rows_at, sum_factors_at, sum_rows_at;
  typename Scales::Places places;
  uint32_t own_bytes;         // a mask: of both blocks' numbers, where these are halves of units
  uint32_t own_sums;          // a mask: all, where sums of the lane's blocks count in its column
  int second;                 // what the second digit counts
  int high[kHalves ? 1 : 2];  // and a one in plane 1 of a lane's blocks
  uint32_t table[2];
  float totals[2] = {}, sums[2] = {}, mins[4] = {};
  int whole[2][2] = {};  // sums of both rows, of both digits

  // A warp has kWarpParts of each tile from `first_part` on.
  __device__ OneRow(const Activations& a, int first_part)
      : lane(static_cast<int>(threadIdx.x) % 32),
        places(lane),
        own_bytes(held_number(lane / 16 ? 0xff00ff00 : 0x00ff00ff)),
        second(static_cast<int>(held_number(lane % 2 ? 0 : 256))) {
    const char* digits = a.digits + first_part * kDigitPartBytes;
    const int t = lane % 4, digit = min(lane / 4 % 4, kDigits - 1);
    const int at = digit * 64 + t * 16;
    if constexpr (kKeepsInputs) {
      base.left = held_pointer(digits + at + (kHalves || lane < 16 ? 0 : Part::kHalf));
    } else {
      base.left = held_pointer(digits + (lane < 16 ? at : Part::kZerosAt));
      base.right = held_pointer(digits + (lane < 16 ? Part::kZerosAt : Part::kHalf + at));
    }
    const int first_record = first_part / F::kParts * F::kRecordBytes;
    // What the compiler keeps, or what it may find anew.
    const auto held_at = [](int at, bool holds = true) {
      return holds ? static_cast<int>(held_number(static_cast<uint32_t>(at))) : at;
    };
    scales_at = held_at(first_record + F::kScalesAt + Scales::offset(lane));
    if constexpr (kTaken == TakenOff::HalfMins) {
      mins_at = held_at(first_record + F::kScalesAt + Scales::mins_offset(lane));
    }
    rows_at = held_at(first_record + F::kRowsAt + Scales::Rows::offset(lane));
    codes_at = held_at(first_record + Bytes::offset(0, lane), kKeepsPointers);
    high_codes_at = codes_at + Bytes::offset(1, 0);
    if constexpr (Bytes::kLanesDiffer) {
      high_codes_at = held_at(first_record + Bytes::offset(1, lane));
    }
    if constexpr (kSumDigits<F>) {
      const int part = t * 4 / Part::kBlocks % kSumParts;
      own_sums = lane / 16 == t / 2 && t * 4 < kSumParts * Part::kBlocks ? ~0u : 0;
      if (kKeepsPointers) own_sums = held_number(own_sums);
      const int sum_record = first_record + part / F::kParts * F::kRecordBytes;
      const int sum_part = F::kScalesAt + part % F::kParts * F::Scales::kPartBytes;
      sum_factors_at = held_at(sum_record + sum_part + Factors::offset(lane));
      sum_rows_at = held_at(sum_record + F::kRowsAt + OwnRowsMins::offset(lane), kKeepsPointers);
      base.side = held_pointer(digits + part * kDigitPartBytes + Part::kSideAt +
                               digit * Part::kSide + t * 4 % Part::kBlocks);
    } else {
      base.side = held_pointer(digits + Part::kSideAt + t * Part::kSide);
    }
    base.scale = held_pointer(digits + Part::kScaleAt);
    if constexpr (kTable) {
      table[0] = held_number(Bytes::entries(0));
      table[1] = held_number(Bytes::entries(8));
    } else if constexpr (!kHalves && Bytes::kPlanes == 2) {
      for (int own = 0; own < 2; ++own) {
        high[own] =
            static_cast<int>(held_number(t / 2 ? Planes<F>::high(own + 2) : Planes<F>::high(own)));
      }
    }
  }
  // Of a tile whose digits are there, `at` from the first tile's on: load16_if() reads what nobody
  // writes from the address's making on, so it is made anew.
  __device__ void begin(int at) {
    tile_at = at;
    if constexpr (kKeepsPointers) kept = pointers_at(at);
    if constexpr (kKeepsZeros) {
      uint32_t address = shared_address(kept.left);
      asm volatile("" : "+r"(address) : : "memory");
      kept.left = static_cast<const char*>(__cvta_shared_to_generic(address));
    }
  }
  static_assert(kKeepsPointers || !kKeepsZeros);
  // The i-th of the warp's parts of the tile at `slot`.
  __device__ void load(Weights& weights, const char* slot, int i) const {
    slot += i / F::kParts * F::kRecordBytes;
    const int part = i % F::kParts;
    weights.codes.load(slot + codes_at + part * F::Codes::kBytes,
                       slot + high_codes_at + part * F::Codes::kBytes);
    weights.scales.load(slot + scales_at + part * F::Scales::kPartBytes);
    if constexpr (kTaken == TakenOff::HalfMins) {
      weights.scales.load_mins(slot + mins_at + part * F::Scales::kPartBytes);
    }
    if constexpr (kTable) {
      weights.codes.first_low = table[0], weights.codes.first_high = table[1];
    }
    if (i % 2) weights.rows.load(slot + rows_at);
    if (kSumDigits<F> && (i + 1) % kSumParts == 0) {
      // Of all of their parts, this one's record is the last.
      constexpr int kBack = (kSumParts - 1) / F::kParts * F::kRecordBytes;
      weights.sum_factors.load(slot - kBack + sum_factors_at);
      if (kTaken == TakenOff::ByteMins) weights.sum_rows.load(slot - kBack + sum_rows_at);
    }
  }

  // What the i-th part of the tile is multiplied by, to be asked for before other loads are.
  struct Inputs {
    uint4 left = {}, right = {};  // of units 0 and 1, 2 and 3
    uint32_t sums;
    int added[kOwn];
    float scale, sum_scale;
  };
  __device__ void load(Inputs& in, int i) const {
    const Pointers from = kKeepsPointers ? kept : pointers_at(tile_at);
    const char* digits = from.left + i * kDigitPartBytes;
    if constexpr (kKeepsZeros) {
      load16_if(lane < 16, digits, in.left);
      load16_if(lane >= 16, digits, in.right);
    } else {
      in.left = load16(digits);
      in.right = load16(kHalves ? digits + Part::kHalf : from.right + i * kDigitPartBytes);
    }
    if (i % 2) in.scale = __uint_as_float(load4(from.scale + i * kDigitPartBytes));
    if constexpr (kTaken == TakenOff::AddedOn) {
      const uint2 both = load8(from.side + i * kDigitPartBytes);
      in.added[0] = static_cast<int>(both.x);
      in.added[1] = static_cast<int>(both.y);
    } else if constexpr (kTaken == TakenOff::HalfMins) {
      in.sums = load4(from.side + i * kDigitPartBytes);
    } else if (kSumDigits<F> && (i + 1) % kSumParts == 0) {
      const int first = i + 1 - kSumParts;
      if constexpr (kHalves) {
        in.sums = load4(from.side + first * kDigitPartBytes);
        in.sum_scale = in.scale;
      } else {
        const uint2 both = load8(from.side + first * kDigitPartBytes);
        in.sums = both.x, in.sum_scale = __uint_as_float(both.y);
      }
    }
  }

  __device__ void multiply(const Weights& weights, const Inputs& in, int i) {
#pragma unroll
    for (int own = 0; own < kOwn; ++own) {
      int planes[2][4];
      multiply_block(planes, weights.codes, in, own);
      add_block(planes, weights.scales, in, own);
    }
    if constexpr (kTaken == TakenOff::HalfMins) {
      mma8(Half(), mins, weights.scales.mins.x, weights.scales.mins.y, in.sums);
    }
    if (kSumDigits<F> && (i + 1) % kSumParts == 0) multiply_sums(weights, in);
    if (i % 2) end_pair(weights, in.scale);
  }

  // To this warp's partial sums [16 weight rows, lane % 4], from which added_up() has a row's: the
  // finisher has time for that, where a warp that multiplies would wait for each shuffle.
  __device__ void leave(float* partials) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      partials[lane + half * 32] = totals[half];
      totals[half] = 0;
    }
  }
  // Lanes with an odd number have sums of the highest digit alone.
  static __device__ float added_up(const float4& row) {
    return fmaf(row.y + row.w, 65536, row.x + row.z);
  }

 private:
  __device__ Pointers pointers_at(int at) const {
    Pointers pointers = {base.left + at, base.right, base.side + at, base.scale + at};
    if constexpr (!kKeepsInputs) pointers.right += at;
    return pointers;
  }
  // The sums of a lane's block.
  __device__ void multiply_block(int (&planes)[2][4], const Bytes& codes, const Inputs& in,
                                 int own) const {
#pragma unroll
    for (int unit = own; unit < tiles::kUnits; unit += kOwn) {
      const uint4& four = unit / 2 ? in.right : in.left;
      uint32_t numbers[2] = {unit % 2 ? four.z : four.x, unit % 2 ? four.w : four.y};
      if (kHalves) numbers[0] &= own_bytes, numbers[1] &= own_bytes;
#pragma unroll
      for (int plane = 0; plane < Bytes::kPlanes; ++plane) {
        uint32_t rows[4];
        codes.bytes(plane, unit, 0, rows[0], rows[2]);
        codes.bytes(plane, unit, 1, rows[1], rows[3]);
        int(&sum)[4] = planes[kTable ? 0 : plane];
        if (unit >= kOwn || (kTable && plane)) {
          mma_bytes<kTable>(sum, rows, numbers[0], numbers[1], sum);
        } else {
          mma_bytes<kTable>(sum, rows, numbers[0], numbers[1], {0, 0, 0, 0});
        }
      }
    }
  }
  __device__ void add_block(const int (&planes)[2][4], const Scales& scales, const Inputs& in,
                            int own) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int digits[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        digits[i] = planes[0][half * 2 + i];
        if (!kTable && Bytes::kPlanes == 2) {
          const int upper = planes[1][half * 2 + i];
          digits[i] = kHalves ? digits[i] * Planes<F>::low(own) + upper * Planes<F>::high(own)
                              : digits[i] + upper * high[kHalves ? 0 : own];
        }
      }
      if constexpr (kWhole) {
        const int number = scales.number(own, half, places) * (kHalves ? Planes<F>::both(own) : 1);
        whole[half][0] += number * digits[0];
        whole[half][1] += number * digits[1];
      } else {
        int both = digits[1] * second + digits[0];
        if constexpr (kTaken == TakenOff::AddedOn) both += in.added[own];
        const auto sum = static_cast<float>(both);
        sums[half] = fmaf(scales.scale(own, half), sum, sums[half]);
      }
    }
  }
  // Minimums or offsets of 16 blocks.
  __device__ void multiply_sums(const Weights& weights, const Inputs& in) {
    if constexpr (kSumDigits<F>) {
      const Factors& factors = weights.sum_factors;
      int products[4];
      constexpr bool kSigned = kTaken == TakenOff::ByteScales;
      mma16_bytes<kSigned>(products, factors.row(0), factors.row(1), in.sums & own_sums);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int(&two)[2] = {products[half * 2], products[half * 2 + 1]};
        if constexpr (kTaken == TakenOff::ByteScales) {
          constexpr int kOff = F::kOffset * Bytes::kRatio << Planes<F>::kUp;
          whole[half][0] -= kOff * two[0];
          whole[half][1] -= kOff * two[1];
        } else {
          const auto sum = static_cast<float>(two[1] * second + two[0]);
          totals[half] =
              fmaf(weights.sum_rows.min(half) * (in.sum_scale * -kMinUnit), sum, totals[half]);
        }
      }
    }
  }
  // Of 256 columns, which have scales in common.
  __device__ void end_pair(const Weights& weights, float scale) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float& total = totals[half];
      if constexpr (kWhole) {
        const float sum = fmaf(static_cast<float>(whole[half][1]), static_cast<float>(second),
                               static_cast<float>(whole[half][0]));
        total = fmaf(scale * weights.rows.scale(half), sum, total);
        whole[half][0] = whole[half][1] = 0;
      } else {
        total = fmaf(scale, sums[half], total);
        sums[half] = 0;
      }
      if constexpr (kTaken == TakenOff::HalfMins) {
        total = fmaf(lane % 4 ? 0 : scale * kMinUnit, mins[half * 2], total);
      }
    }
    if constexpr (kTaken == TakenOff::HalfMins) {
      for (float& min : mins) min = 0;
    }
  }
};

}  // namespace skald::cuda
