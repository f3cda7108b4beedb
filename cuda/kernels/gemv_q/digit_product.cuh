// Multiplies parts of a tile, 16 weight rows x 128 columns each, by one activation row; for one
// warp. Codes are bytes (lane_bytes.cuh) and activations are digits (digits.cuh), so the sums of a
// block are exact integers. If the blocks' scales are integers as well, the scaled sums stay
// integers over 256 columns; sums of two digits are below 2^31, at most 1.4e9 in Q6_K.
// by16_product.cuh has the formats whose codes are grouped by 16 columns.
#pragma once

#include <algorithm>

#include "cuda/kernels/device/mma.cuh"
#include "cuda/kernels/gemv_q/digits.cuh"
#include "cuda/kernels/gemv_q/one_row.h"
#include "cuda/kernels/gemv_q/own_scales.cuh"

namespace skald::cuda {

// A lane has the sums of weight rows lane / 4 and lane / 4 + 8, for half of a part's blocks. Even
// lanes have the lower two digits, odd lanes the highest digit.
template <class F>
struct OneRow {
  using Part = DigitPart<F>;
  using Bytes = LaneBytesOf<F>;
  using Scales = OwnScales<typename F::Scales>;
  static constexpr int kOwn = Part::kOwn;
  static constexpr bool kHalves = Part::kBlocks == 8;  // blocks are halves of units
  static constexpr bool kTable = F::kTable != tiles::Table::None;
  static constexpr bool kFixedTable = kTable && !F::kTableInRecord;
  static constexpr bool kWhole = kWholeScales<F>;
  static constexpr TakenOff kTaken = kTakenOff<F>;
  // A lane multiplies by zeros if its columns belong to the other half. It keeps the zeros in
  // registers or loads them from shared memory. Keeping them saves a quarter of the reads of shared
  // memory, which limits the speed of 4-bit formats. Loading them is 1 % faster for Q8_0 and Q5_0
  // and 7 % for MXFP4, for an unknown reason; measured when these warps still staged the
  // activations.
  static constexpr bool kKeepsZeros = !kHalves && Bytes::kPlanes == 1 && Bytes::kRatio > 1;
  // True if lanes load no zeros, so that they need no second pointer (Pointers::right). If blocks
  // have 16 columns, a mask makes the zeros.
  static constexpr bool kKeepsInputs = kHalves || kKeepsZeros;
  // One product multiplies the sums of activations of this many parts: up to 16 blocks.
  static constexpr int kSumParts = std::min(16 / Part::kBlocks, kWarpParts<F>);
  // Inputs are loaded a part ahead of their use, except for codes in two planes, which leave no
  // registers for that.
  static constexpr bool kLoadsAhead = kTable || Bytes::kPlanes == 1;
  // True: the warp polls for a free set of partial sums together with its other polls for the next
  // tile. That is up to 2 % faster for formats with a table, and 0.3 to 3 % slower for the others,
  // which poll at a group's end.
  static constexpr bool kAsksForSet = kTable;
  static constexpr int kStep = kTileParts<F> * kDigitPartBytes;
  using Factors = SumFactors<typename F::Scales>;
  static_assert(kWarpParts<F> % 2 == 0 && kSumParts % 2 == 0);
  static_assert(kWhole || Planes<F>::kUp == 0);
  // The products of the minimums are multiplied by this factor, besides the scale.
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

  // Addresses of this lane's digits. `base`: for the row's first part; `kept`: for a tile's first
  // part. Formats without registers for `kept` compute it from tile_at at each use.
  struct Pointers {
    const char *left, *right, *side, *scale;
  };
  // True if `kept` stays in registers. Q5_K has no registers for it, and Q8_0 is 0.5 % slower with
  // it in small models.
  static constexpr bool kKeepsPointers =
      Bytes::kPlanes == 1 ? Bytes::kRatio > 1 : kTaken != TakenOff::ByteMins;
  Pointers base, kept;
  int tile_at = 0;
  int lane;
  // Offsets in a tile of the lane's codes, scales and other numbers, for the warp's first part.
  int codes_at, high_codes_at, scales_at, mins_at, rows_at, table_at, sum_factors_at, sum_rows_at;
  typename Scales::Places places;
  // Masks of the bytes that belong to the lane's blocks, if a block is half of a unit, in the words
  // of `first` and of `second`. Words of a table have 16 columns each, other words have all 32.
  uint32_t own_bytes, own_second;
  uint32_t own_sums;  // mask: all ones if sums of the lane's blocks count in its column, else zero
  int second;         // the factor of the second digit: 256, or 0 in odd lanes
  int high[kHalves ? 1 : 2];  // the factor of plane 1, for each of the lane's blocks
  uint32_t table[2];
  float totals[2] = {}, sums[2] = {}, mins[4] = {};
  int whole[2][2] = {};  // sums of both rows, for both digits

  // The warp has kWarpParts parts of each tile, from `first_part` on.
  __device__ OneRow(const Activations& a, int first_part)
      : lane(static_cast<int>(threadIdx.x) % 32),
        places(lane),
        own_bytes(held_number(kTable      ? (lane / 16 ? 0 : ~0u)
                              : lane / 16 ? 0xff00ff00
                                          : 0x00ff00ff)),
        own_second(kTable ? ~own_bytes : own_bytes),
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
    // Keeps a number in a register, or lets the compiler compute it at each use.
    const auto held_at = [](int at, bool holds = true) {
      return holds ? static_cast<int>(held_number(static_cast<uint32_t>(at))) : at;
    };
    scales_at = held_at(first_record + F::kScalesAt + Scales::offset(lane));
    if constexpr (kTaken == TakenOff::HalfMins) {
      mins_at = held_at(first_record + F::kScalesAt + Scales::mins_offset(lane));
    }
    rows_at = held_at(first_record + F::kRowsAt + Scales::Rows::offset(lane));
    if constexpr (F::kTableInRecord) table_at = held_at(first_record + F::kTableAt, false);
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
    if constexpr (kFixedTable) {
      table[0] = held_number(Bytes::entries(0));
      table[1] = held_number(Bytes::entries(8));
    } else if constexpr (!kHalves && Bytes::kPlanes == 2) {
      for (int own = 0; own < 2; ++own) {
        high[own] =
            static_cast<int>(held_number(t / 2 ? Planes<F>::high(own + 2) : Planes<F>::high(own)));
      }
    }
  }
  // Begins a tile whose digits are staged `at` bytes after the digits of the row's first tile.
  // load16_if() needs memory that nobody writes after its address is computed, so the address is
  // computed anew here.
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
  // Loads the i-th of the warp's parts of the tile at `slot`.
  __device__ void load(Weights& weights, const char* slot, int i) const {
    slot += i / F::kParts * F::kRecordBytes;
    const int part = i % F::kParts;
    weights.codes.load(slot + codes_at + part * F::Codes::kBytes,
                       slot + high_codes_at + part * F::Codes::kBytes);
    weights.scales.load(slot + scales_at + part * F::Scales::kPartBytes);
    if constexpr (kTaken == TakenOff::HalfMins) {
      weights.scales.load_mins(slot + mins_at + part * F::Scales::kPartBytes);
    }
    if constexpr (F::kTableInRecord) {
      weights.codes.load_table(slot + table_at);
    } else if constexpr (kTable) {
      weights.codes.first_low = table[0], weights.codes.first_high = table[1];
    }
    if (i % 2) weights.rows.load(slot + rows_at);
    if (kSumDigits<F> && (i + 1) % kSumParts == 0) {
      // `slot` is the last record of these parts; kBack leads to the first.
      constexpr int kBack = (kSumParts - 1) / F::kParts * F::kRecordBytes;
      weights.sum_factors.load(slot - kBack + sum_factors_at);
      if (kTaken == TakenOff::ByteMins) weights.sum_rows.load(slot - kBack + sum_rows_at);
    }
  }

  // The activations' digits and factors for the i-th part of a tile. These loads are issued before
  // those of the weights.
  struct Inputs {
    uint4 left = {}, right = {};  // digits of units 0 and 1, and of units 2 and 3
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

  // Stores this warp's partial sums [16 weight rows, lane % 4]. added_up() adds up a row's: the
  // finisher has time for that, while a consumer would wait for each shuffle.
  __device__ void store_partials(float* partials) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      partials[lane + half * 32] = totals[half];
      totals[half] = 0;
    }
  }
  // Odd lanes have sums of the highest digit alone.
  static __device__ float added_up(const float4& row) {
    return fmaf(row.y + row.w, 65536, row.x + row.z);
  }

 private:
  __device__ Pointers pointers_at(int at) const {
    Pointers pointers = {base.left + at, base.right, base.side + at, base.scale + at};
    if constexpr (!kKeepsInputs) pointers.right += at;
    return pointers;
  }
  // Computes the sums of one of the lane's blocks.
  __device__ void multiply_block(int (&planes)[2][4], const Bytes& codes, const Inputs& in,
                                 int own) const {
#pragma unroll
    for (int unit = own; unit < tiles::kUnits; unit += kOwn) {
      const uint4& four = unit / 2 ? in.right : in.left;
      uint32_t numbers[2] = {unit % 2 ? four.z : four.x, unit % 2 ? four.w : four.y};
      if (kHalves) numbers[0] &= own_bytes, numbers[1] &= own_second;
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
  // Subtracts the minimums or offsets of 16 blocks.
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
  // Ends 256 columns, which share scales: adds their sums to the totals.
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
