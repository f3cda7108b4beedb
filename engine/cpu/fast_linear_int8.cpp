#include "engine/cpu/fast_linear_int8.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/cpu/fast_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/cpu/fast_linear_int8.cpp"
#include <hwy/foreach_target.h>
// These headers must come after foreach_target.h, which includes this file once for each
// instruction set.
#include <hwy/highway.h>

#include "engine/cpu/fast_dot-inl.h"
#include "engine/cpu/fast_simd-inl.h"
#include "engine/cpu/fast_unpack-inl.h"
#include "engine/cpu/fast_unpack_k-inl.h"

HWY_BEFORE_NAMESPACE();
namespace skald::cpu::HWY_NAMESPACE {
namespace {

// A tile is kRows rows of activations times kGroups groups of kLanes outputs; the sizes fit the
// registers.
constexpr int kRows = HWY_CAP_GE512 ? 6 : 4;
constexpr int kGroups = HWY_CAP_GE512 && kUnit == 4 ? 2 : 1;

// Quantizes x = scale * q with |q| <= 127; writes q and returns the scale. A block with infinities
// or NaN gets scale NaN, so that the logits become NaN and the error is reported.
HWY_INLINE float quantize_block(const float* in, int8_t (&q)[kInt8Block]) {
  const DF d;
  VF largest = hn::Zero(d), zero = hn::Zero(d);
  for (int i = 0; i < kInt8Block; i += kLanes) {
    const VF v = hn::LoadU(d, in + i);
    largest = hn::Max(largest, hn::Abs(v));
    zero = hn::MulAdd(v, hn::Zero(d), zero);
  }
  const float amax = hn::GetLane(hn::MaxOfLanes(d, largest));
  const float invalid = hn::GetLane(hn::SumOfLanes(d, zero));  // 0 or NaN
  // For a smaller amax, 127 / amax would overflow. Such a block is rounded to zero.
  const bool tiny = !(amax > 1e-30f) || invalid != 0;
  const VF inverse = hn::Set(d, tiny ? 0.0f : 127.0f / amax);
  const hn::Rebind<int8_t, DF> d8;
  for (int i = 0; i < kInt8Block; i += kLanes) {
    const VF scaled = hn::Mul(hn::LoadU(d, in + i), inverse);
    hn::StoreU(hn::DemoteTo(d8, hn::NearestInt(scaled)), d8, q + i);
  }
  return tiny ? invalid : amax / 127.0f;
}

HWY_INLINE void store_units(const int8_t (&q)[kInt8Block], std::byte* to) {
  if constexpr (kUnit == 4) {
    std::memcpy(to, q, sizeof q);
  } else {
    int16_t units[2 * kInt8Block / 2];
    for (int i = 0; i < kInt8Block; i += 4) {
      units[i] = q[i];
      units[i + 1] = q[i + 2];
      units[i + 2] = q[i + 1];
      units[i + 3] = q[i + 3];
    }
    std::memcpy(to, units, sizeof units);
  }
}

// Quantizes blocks [from, end), numbered through all rows. All planes are dense, so row boundaries
// do not matter.
void quantize(const float* in, const Int8Format& format, const Int8Rows& to, int64_t from,
              int64_t end) {
  const int64_t subs = kInt8Block / format.sub_block;
  for (int64_t b = from; b < end; ++b) {
    int8_t q[kInt8Block];
    const float scale = quantize_block(in + b * kInt8Block, q);
    store_units(q, to.x + b * (kInt8Block / 4) * kUnit);
    to.scale[b] = scale;
    for (int64_t s = 0; s < subs; ++s) {
      int32_t sum = 0;
      for (int i = 0; i < format.sub_block; ++i) sum += q[s * format.sub_block + i];
      to.start[b * subs + s] = -format.offset * sum;
      to.sum[b * subs + s] = scale * static_cast<float>(sum);
    }
  }
}

// `groups` * kLanes outputs of `rows` rows; the pointers point to the first column.
struct Tile {
  PackedWeights w[kGroups];
  Int8Rows x;  // starts at the first row
  int64_t count;
};

template <int rows, int groups, int sub_block, bool has_min>
HWY_INLINE void multiply(const Tile& t, VF (&sum)[groups][rows]) {
  const DF d;
  const DI di;
  constexpr int kSubs = static_cast<int>(kInt8Block) / sub_block;
  constexpr int kUnits = sub_block / 4;
  const int64_t x_stride = t.x.k / 4 * kUnit;
  const int64_t scale_stride = t.x.k / kInt8Block, sub_stride = t.x.k / sub_block;
  for (int64_t b = 0; b < t.count / kInt8Block; ++b) {
    for (int64_t s = b * kSubs; s < (b + 1) * kSubs; ++s) {
      VI dot[groups][rows];
      for (int r = 0; r < rows; ++r) {
        const VI start = hn::Set(di, t.x.start[r * sub_stride + s]);
        for (int g = 0; g < groups; ++g) dot[g][r] = start;
      }
      const std::byte* x = t.x.x + s * kUnits * kUnit;
      for (int u = 0; u < kUnits; ++u) {
        SplitWeights w[groups];
        for (int g = 0; g < groups; ++g) {
          const auto* p = reinterpret_cast<const uint32_t*>(t.w[g].u) + (s * kUnits + u) * kLanes;
          w[g] = split(hn::Load(DU(), p));
        }
        for (int r = 0; r < rows; ++r) {
          for (int g = 0; g < groups; ++g) {
            dot[g][r] = add_products(dot[g][r], w[g], x + r * x_stride + u * kUnit);
          }
        }
      }
      for (int g = 0; g < groups; ++g) {
        const VF scale = hn::Load(d, t.w[g].scale + s * kLanes);
        for (int r = 0; r < rows; ++r) {
          const VF x_scale = hn::Set(d, t.x.scale[r * scale_stride + b]);
          const VF scaled = hn::Mul(hn::ConvertTo(d, dot[g][r]), x_scale);
          sum[g][r] = hn::MulAdd(scaled, scale, sum[g][r]);
        }
        if constexpr (has_min) {
          const VF min = hn::Load(d, t.w[g].min + s * kLanes);
          for (int r = 0; r < rows; ++r) {
            sum[g][r] = hn::MulAdd(hn::Set(d, t.x.sum[r * sub_stride + s]), min, sum[g][r]);
          }
        }
      }
    }
  }
}

// Computes rows [row, row + rows) and groups [group, group + groups).
template <int rows, int groups, int sub_block, bool has_min>
HWY_NOINLINE void tile(const Int8Product& p, int64_t row, int64_t group) {
  const DF d;
  const int64_t subs = p.x.k / sub_block;
  Tile t{{},
         {p.x.x + (row * p.x.k + p.k) / 4 * kUnit, p.x.scale + (row * p.x.k + p.k) / kInt8Block,
          p.x.start + row * subs + p.k / sub_block, p.x.sum + row * subs + p.k / sub_block, p.x.k},
         p.count};
  const int64_t group_floats = p.format->packed_floats(p.count, kLanes);
  VF sum[groups][rows];
  for (int g = 0; g < groups; ++g) {
    t.w[g] =
        p.format->cut(const_cast<float*>(p.panel) + (group + g) * group_floats, p.count, kLanes);
    for (int r = 0; r < rows; ++r) {
      sum[g][r] =
          p.k == 0 ? hn::Zero(d) : hn::Load(d, p.sums + ((group + g) * p.rows + row + r) * kLanes);
    }
  }
  multiply<rows, groups, sub_block, has_min>(t, sum);
  for (int g = 0; g < groups; ++g) {
    const int64_t first = (group + g) * kLanes;
    const int64_t outs = std::min<int64_t>(kLanes, p.outs - first);
    for (int r = 0; r < rows; ++r) {
      if (p.k + p.count < p.x.k) {
        hn::Store(sum[g][r], d, p.sums + ((group + g) * p.rows + row + r) * kLanes);
        continue;
      }
      HWY_ALIGN float result[kLanes], bias[kLanes] = {};
      if (p.bias) std::memcpy(bias, p.bias + first, static_cast<size_t>(outs) * sizeof(float));
      hn::Store(hn::Add(sum[g][r], hn::Load(d, bias)), d, result);
      std::memcpy(p.out + (row + r) * p.out_stride + first, result,
                  static_cast<size_t>(outs) * sizeof(float));
    }
  }
}

template <int rows, int sub_block, bool has_min>
void row_tile(const Int8Product& p, int64_t row) {
  int64_t g = 0;
  for (; g + kGroups <= p.groups; g += kGroups) tile<rows, kGroups, sub_block, has_min>(p, row, g);
  for (; g < p.groups; ++g) tile<rows, 1, sub_block, has_min>(p, row, g);
}

template <int sub_block, bool has_min>
void product_of(const Int8Product& p) {
  int64_t row = 0;
  for (; row + kRows <= p.rows; row += kRows) row_tile<kRows, sub_block, has_min>(p, row);
  for (; row + 2 <= p.rows; row += 2) row_tile<2, sub_block, has_min>(p, row);
  if (row < p.rows) row_tile<1, sub_block, has_min>(p, row);
}

void int8_product(const Int8Product& p) {
  if (p.format->sub_block == 16) {
    p.format->has_min ? product_of<16, true>(p) : product_of<16, false>(p);
  } else {
    p.format->has_min ? product_of<32, true>(p) : product_of<32, false>(p);
  }
}

template <class F>
void unpack(const BlockRows& rows, int64_t k, int64_t count, const PackedWeights& to) {
  constexpr int64_t kElems = F::Block::kElems, kBytes = sizeof(typename F::Block);
  Writer writer{to.u, to.scale, to.min};
  const int64_t skip = k / kElems * kBytes;
  Rows source{rows.data + skip, rows.stride, rows.ahead + skip * kLanes};
  for (int64_t i = 0; i < count; i += kElems) {
    F::block(source, writer);
    writer.u += kElems * kLanes;
    source.p += kBytes;
    source.ahead += kBytes * kLanes;
  }
}

// A sink for unpacked weights, instead of Writer: multiplies a block at once by one row of
// activations. It computes the same sums in the same order as multiply(), but does not store
// weights.
template <int elems, int sub_block>
struct Multiplier {
  VI dot[elems / sub_block];
  VF sum;
  Int8Rows x;  // starts at the current block
  int scales, mins;

  HWY_INLINE void begin() {
    SKALD_UNROLL
    for (int s = 0; s < elems / sub_block; ++s) dot[s] = hn::Set(DI(), x.start[s]);
    scales = mins = 0;
  }
  HWY_INLINE void put(int64_t column, VU four) {
    VI& to = dot[column / sub_block];
    to = add_products(to, split(four), x.x + column / 4 * kUnit);
  }
  HWY_INLINE void put_scale(VF scale) {
    const VF x_scale = hn::Set(DF(), x.scale[scales * sub_block / kInt8Block]);
    sum = hn::MulAdd(hn::Mul(hn::ConvertTo(DF(), dot[scales++]), x_scale), scale, sum);
  }
  HWY_INLINE void put_min(VF min) { sum = hn::MulAdd(hn::Set(DF(), x.sum[mins++]), min, sum); }
};

template <class F>
void multiply_row(const BlockRows& rows, const Int8Rows& x, float* out) {
  constexpr int kElems = F::Block::kElems, kSubBlock = F::kFormat.sub_block;
  constexpr int64_t kBytes = sizeof(typename F::Block);
  Multiplier<kElems, kSubBlock> multiplier;
  multiplier.sum = hn::Zero(DF());
  multiplier.x = x;
  Rows source{rows.data, rows.stride, rows.ahead};
  for (int64_t k = 0; k < x.k; k += kElems) {
    multiplier.begin();
    F::block(source, multiplier);
    multiplier.x.x += kElems / 4 * kUnit;
    multiplier.x.scale += kElems / kInt8Block;
    multiplier.x.start += kElems / kSubBlock;
    multiplier.x.sum += kElems / kSubBlock;
    source.p += kBytes;
    source.ahead += kBytes * kLanes;
  }
  hn::StoreU(multiplier.sum, DF(), out);
}

// On x86 only CPUs from before 2008 run the fallback in plain C++. multiply_row() would take a
// fifth of this file's compile time for them.
constexpr bool kMultipliesRows = !(HWY_ARCH_X86 && HWY_TARGET == HWY_EMU128);

template <class F>
constexpr Int8Format complete() {
  Int8Format format = F::kFormat;
  format.unpack = unpack<F>;
  if constexpr (kMultipliesRows) format.multiply_row = multiply_row<F>;
  return format;
}

const Int8Format* find_format(DType type) {
  static constexpr Int8Format kFormats[] = {
      complete<UnpackQ8_0>(),
      complete<UnpackQ4_0>(),
      complete<UnpackQ4_1>(),
      complete<UnpackQ5_0>(),
      complete<UnpackQ5_1>(),
      complete<UnpackIq4Nl>(),
      complete<UnpackIq4Xs>(),
      complete<UnpackMxfp4>(),
      complete<UnpackQ2K>(),
      complete<UnpackQ3K>(),
      complete<UnpackQ4K>(),
      complete<UnpackQ5K>(),
      complete<UnpackQ6K>(),
      complete<UnpackIq3S>(),
      spread_format<BlockIQ3_XXS, 32>(DType::IQ3_XXS, kIq3XxsOffset),
      spread_format<BlockIQ2_XXS>(DType::IQ2_XXS, kIq2Offset),
      spread_format<BlockIQ2_XS>(DType::IQ2_XS, kIq2Offset),
      spread_format<BlockIQ2_S>(DType::IQ2_S, kIq2Offset),
      spread_format<BlockIQ1_S>(DType::IQ1_S, kIq1Offset),
      spread_format<BlockIQ1_M>(DType::IQ1_M, kIq1Offset),
      spread_format<BlockTQ1_0>(DType::TQ1_0, kTernaryOffset),
      spread_format<BlockTQ2_0>(DType::TQ2_0, kTernaryOffset)};
  for (const Int8Format& format : kFormats) {
    if (format.type == type) return &format;
  }
  return nullptr;
}

const Int8Kernels* int8_table() {
  static constexpr Int8Kernels kTable{kLanes, kUnit, find_format, quantize, int8_product};
  return &kTable;
}

}  // namespace
}  // namespace skald::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
SKALD_DISPATCH(Int8Kernels, int8)
#endif
