#include "engine/cpu/fast_linear_float.h"

#include <algorithm>
#include <cstring>

#include "engine/base/error.h"
#include "engine/cpu/fast_targets.h"
#include "engine/quant/formats/fp8.h"
#include "engine/quant/formats/nvfp4.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/cpu/fast_linear_float.cpp"
#include <hwy/foreach_target.h>
// These headers must come after foreach_target.h, which includes this file once for each
// instruction set.
#include <hwy/highway.h>

#include "engine/cpu/fast_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace skald::cpu::HWY_NAMESPACE {
namespace {

constexpr int kWeights = 4;                   // weight rows in a tile
constexpr int kRows = HWY_CAP_GE512 ? 6 : 3;  // rows of x in a full tile
constexpr int64_t kDepth = 1024;  // columns per sweep, so that a tile's x stays in the L1 cache

struct LoadF32 {
  using Element = float;
  static HWY_INLINE VF load(const Element* p) { return hn::LoadU(DF(), p); }
};
struct LoadF16 {
  using Element = hwy::float16_t;
  static HWY_INLINE VF load(const Element* p) {
    return hn::PromoteTo(DF(), hn::LoadU(hn::Rebind<Element, DF>(), p));
  }
};
struct LoadBF16 {
  using Element = uint16_t;
  static HWY_INLINE VF load(const Element* p) {
    const VU bits = hn::PromoteTo(DU(), hn::LoadU(hn::Rebind<Element, DF>(), p));
    return hn::BitCast(DF(), hn::ShiftLeft<16>(bits));
  }
};

// One tile of a product: kWeights weight rows, for k from `from` to `to`.
struct Tile {
  const std::byte* w[kWeights];
  const float* x;
  int64_t x_stride;
  int64_t from, to;
  int64_t ahead;  // byte distance to the same weight row of the next tile
};

template <class W, int rows>
HWY_INLINE void multiply(const Tile& t, VF (&sum)[rows][kWeights]) {
  using Element = typename W::Element;
  const Element* w[kWeights];
  for (int i = 0; i < kWeights; ++i) w[i] = reinterpret_cast<const Element*>(t.w[i]);
  int64_t k = t.from;
  for (; k + kLanes <= t.to; k += kLanes) {
    VF x[rows];
    for (int r = 0; r < rows; ++r) x[r] = hn::LoadU(DF(), t.x + r * t.x_stride + k);
    for (int i = 0; i < kWeights; ++i) {
      // With a single row of x, the loop waits for memory. A weight row is about a page long, and
      // the CPU's own prefetching stops at page ends.
      if constexpr (rows == 1) {
        __builtin_prefetch(reinterpret_cast<const std::byte*>(w[i] + k) + t.ahead, 0, 2);
      }
      const VF weight = W::load(w[i] + k);
      for (int r = 0; r < rows; ++r) sum[r][i] = hn::MulAdd(weight, x[r], sum[r][i]);
    }
  }
  if (k == t.to) return;
  const size_t tail = static_cast<size_t>(t.to - k);
  VF x[rows];
  for (int r = 0; r < rows; ++r) {
    HWY_ALIGN float padded[kLanes] = {};
    std::memcpy(padded, t.x + r * t.x_stride + k, tail * sizeof(float));
    x[r] = hn::Load(DF(), padded);
  }
  for (int i = 0; i < kWeights; ++i) {
    HWY_ALIGN Element padded[kLanes] = {};
    std::memcpy(padded, t.w[i] + k * static_cast<int64_t>(sizeof(Element)), tail * sizeof(Element));
    const VF weight = W::load(padded);
    for (int r = 0; r < rows; ++r) sum[r][i] = hn::MulAdd(weight, x[r], sum[r][i]);
  }
}

// Computes rows [row, row + rows) and all outs, for k from `from` to `to`.
template <class W, int rows>
HWY_NOINLINE void sweep(const FloatProduct& p, int64_t row, int64_t from, int64_t to) {
  const DF d;
  Tile t{{}, p.x + row * p.x_stride, p.x_stride, from, to, kWeights * p.w_stride};
  for (int64_t o = 0; o < p.outs; o += kWeights) {
    for (int i = 0; i < kWeights; ++i) t.w[i] = p.w + std::min(o + i, p.outs - 1) * p.w_stride;
    float* carried = p.sums ? p.sums + o * kRows * kLanes : nullptr;
    VF sum[rows][kWeights];
    for (int r = 0; r < rows; ++r) {
      for (int i = 0; i < kWeights; ++i) {
        sum[r][i] = from == 0 ? hn::Zero(d) : hn::Load(d, carried + (r * kWeights + i) * kLanes);
      }
    }
    multiply<W, rows>(t, sum);
    if (to < p.k) {
      for (int r = 0; r < rows; ++r) {
        for (int i = 0; i < kWeights; ++i) {
          hn::Store(sum[r][i], d, carried + (r * kWeights + i) * kLanes);
        }
      }
      continue;
    }
    const size_t count = static_cast<size_t>(std::min<int64_t>(kWeights, p.outs - o));
    HWY_ALIGN float bias[4] = {};
    if (p.bias) std::memcpy(bias, p.bias + o, count * sizeof(float));
    for (int r = 0; r < rows; ++r) {
      const hn::Full128<float> d4;
      HWY_ALIGN float result[4];
      hn::Store(hn::Add(sum_four(sum[r][0], sum[r][1], sum[r][2], sum[r][3]), hn::Load(d4, bias)),
                d4, result);
      std::memcpy(p.out + (row + r) * p.out_stride + o, result, count * sizeof(float));
    }
  }
}

template <class W>
void product_of(const FloatProduct& p) {
  const int64_t depth = p.sums ? kDepth : p.k;
  for (int64_t row = 0; row < p.rows; row += kRows) {
    for (int64_t from = 0; from < p.k; from += depth) {
      const int64_t to = std::min(from + depth, p.k);
      switch (std::min<int64_t>(kRows, p.rows - row)) {
        case 1:
          sweep<W, 1>(p, row, from, to);
          break;
        case 2:
          sweep<W, 2>(p, row, from, to);
          break;
        case 3:
          sweep<W, 3>(p, row, from, to);
          break;
#if HWY_CAP_GE512
        case 4:
          sweep<W, 4>(p, row, from, to);
          break;
        case 5:
          sweep<W, 5>(p, row, from, to);
          break;
        case 6:
          sweep<W, 6>(p, row, from, to);
          break;
#endif
      }
    }
  }
}

void product(const FloatProduct& p) {
  if (p.type == DType::F16) return product_of<LoadF16>(p);
  if (p.type == DType::BF16) return product_of<LoadBF16>(p);
  check(p.type == DType::F32, "block formats are decoded before this product");
  product_of<LoadF32>(p);
}

template <class W>
void convert_from(const std::byte* bytes, float* to, int64_t count) {
  const auto* from = reinterpret_cast<const typename W::Element*>(bytes);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(W::load(from + i), DF(), to + i);
  if (i == count) return;
  HWY_ALIGN typename W::Element padded[kLanes] = {};
  std::memcpy(padded, from + i, static_cast<size_t>(count - i) * sizeof(padded[0]));
  HWY_ALIGN float converted[kLanes];
  hn::Store(W::load(padded), DF(), converted);
  std::memcpy(to + i, converted, static_cast<size_t>(count - i) * sizeof(float));
}

// The bits of E4M3 in the places of f16 are the number times 2^-8.
void convert_fp8(const std::byte* from, float* to, int64_t count) {
  static_assert(BlockFP8::kElems % kLanes == 0);
  const hn::Rebind<uint8_t, DF> bytes;
  const hn::Rebind<uint16_t, DF> halves;
  const hn::Rebind<hwy::float16_t, DF> floats;
  for (int64_t first = 0; first < count; first += BlockFP8::kElems, from += sizeof(BlockFP8)) {
    BlockFP8 block;  // copied because a row may be unaligned
    std::memcpy(&block, from, sizeof block);
    const VF scale = hn::Set(DF(), block.scale * 256);
    for (int i = 0; i < BlockFP8::kElems; i += kLanes) {
      const auto codes = hn::PromoteTo(halves, hn::LoadU(bytes, block.q + i));
      const auto sign = hn::ShiftLeft<8>(hn::And(codes, hn::Set(halves, 0x80)));
      const auto rest = hn::ShiftLeft<7>(hn::And(codes, hn::Set(halves, 0x7f)));
      const VF number = hn::PromoteTo(DF(), hn::BitCast(floats, hn::Or(sign, rest)));
      hn::StoreU(hn::Mul(number, scale), DF(), to + first + i);
    }
  }
}

// The two numbers of a byte of E2M1 codes.
struct TwoNumbers {
  float of_byte[256][2];
};
constexpr TwoNumbers two_numbers() {
  TwoNumbers two{};
  for (int byte = 0; byte < 256; ++byte) {
    two.of_byte[byte][0] = e2m1_to_f32(byte & 15);
    two.of_byte[byte][1] = e2m1_to_f32(byte >> 4);
  }
  return two;
}

void convert_nvfp4(const std::byte* from, float* to, int64_t count) {
  static constexpr TwoNumbers kTwo = two_numbers();
  constexpr int kGroup = BlockNVFP4::kGroup;
  for (int64_t first = 0; first < count; first += BlockNVFP4::kElems, from += sizeof(BlockNVFP4)) {
    BlockNVFP4 block;  // copied because a row may be unaligned
    std::memcpy(&block, from, sizeof block);
    for (int group = 0; group < BlockNVFP4::kElems / kGroup; ++group) {
      const float scale = nvfp4_scale(block.scales[group], block.times, block.over);
      float* out = to + first + group * kGroup;
      for (int i = 0; i < kGroup / 2; ++i) {
        const float* two = kTwo.of_byte[block.q[group * kGroup / 2 + i]];
        out[2 * i] = two[0] * scale;
        out[2 * i + 1] = two[1] * scale;
      }
    }
  }
}

void convert(DType type, const std::byte* from, float* to, int64_t count) {
  if (type == DType::NVFP4) return convert_nvfp4(from, to, count);
  if (type == DType::FP8) return convert_fp8(from, to, count);
  if (type == DType::F16) return convert_from<LoadF16>(from, to, count);
  check(type == DType::BF16, "a format of floats is decoded here");
  convert_from<LoadBF16>(from, to, count);
}

int64_t sums_floats(int64_t outs) {
  return (outs + kWeights - 1) / kWeights * kWeights * kRows * kLanes;
}

const FloatKernels* float_table() {
  static constexpr FloatKernels kTable{product, convert, sums_floats, kRows, kDepth};
  return &kTable;
}

}  // namespace
}  // namespace skald::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
SKALD_DISPATCH(FloatKernels, float)
#endif
