#include "engine/cpu/fast_pointwise.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/cpu/fast_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/cpu/fast_pointwise.cpp"
#include <hwy/foreach_target.h>
// These headers must come after foreach_target.h, which includes this file once for each
// instruction set.
#include <hwy/highway.h>

#include "engine/cpu/fast_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace skald::cpu::HWY_NAMESPACE {
namespace {

void rms_norm(const float* in, const float* weight, float* out, int64_t dim, float eps) {
  const DF d;
  const hn::Repartition<double, DF> dd;
  const hn::Half<DF> half;
  auto low = hn::Zero(dd), high = hn::Zero(dd);  // summed in double: exact to float32's last bit
  for_each_vector(dim, [&](int64_t i, int n) HWY_ATTR {
    const VF v = load_some(in + i, n);
    const auto a = hn::PromoteTo(dd, hn::LowerHalf(half, v));
    const auto b = hn::PromoteTo(dd, hn::UpperHalf(half, v));
    low = hn::MulAdd(a, a, low);
    high = hn::MulAdd(b, b, high);
  });
  const double squares = hn::GetLane(hn::SumOfLanes(dd, hn::Add(low, high)));
  const VF scale = hn::Set(
      d, static_cast<float>(1 / std::sqrt(squares / static_cast<double>(dim) + double{eps})));
  for_each_vector(dim, [&](int64_t i, int n) HWY_ATTR {
    const VF normed = hn::Mul(load_some(in + i, n), scale);
    store_some(weight ? hn::Mul(normed, load_some(weight + i, n)) : normed, out + i, n);
  });
}

// Both sums are in double, as in rms_norm: a large mean costs the variance no digits.
void layer_norm(const float* in, const float* weight, const float* bias, float* out, int64_t dim,
                float eps) {
  const DF d;
  const hn::Repartition<double, DF> dd;
  const hn::Half<DF> half;
  const double count = static_cast<double>(dim);
  auto low = hn::Zero(dd), high = hn::Zero(dd);
  for_each_vector(dim, [&](int64_t i, int n) HWY_ATTR {
    const VF v = load_some(in + i, n);
    low = hn::Add(low, hn::PromoteTo(dd, hn::LowerHalf(half, v)));
    high = hn::Add(high, hn::PromoteTo(dd, hn::UpperHalf(half, v)));
  });
  const double mean = hn::GetLane(hn::SumOfLanes(dd, hn::Add(low, high))) / count;
  const auto center = hn::Set(dd, mean);
  const auto square = [&](auto x) HWY_ATTR {
    const auto apart = hn::Sub(x, center);
    return hn::Mul(apart, apart);
  };
  low = hn::Zero(dd), high = hn::Zero(dd);
  int64_t i = 0;
  for (; i + kLanes <= dim; i += kLanes) {
    const VF v = load_some(in + i, kLanes);
    low = hn::Add(low, square(hn::PromoteTo(dd, hn::LowerHalf(half, v))));
    high = hn::Add(high, square(hn::PromoteTo(dd, hn::UpperHalf(half, v))));
  }
  double squares = hn::GetLane(hn::SumOfLanes(dd, hn::Add(low, high)));
  // The variance must not include padding.
  for (; i < dim; ++i) squares += (in[i] - mean) * (in[i] - mean);
  const VF scale = hn::Set(d, static_cast<float>(1 / std::sqrt(squares / count + double{eps})));
  // The mean as a float plus the remainder: together they have the digits that the float lacks.
  const float near_mean = static_cast<float>(mean);
  const VF first = hn::Set(d, near_mean), rest = hn::Set(d, static_cast<float>(mean - near_mean));
  for_each_vector(dim, [&](int64_t at, int n) HWY_ATTR {
    const VF centered = hn::Sub(hn::Sub(load_some(in + at, n), first), rest);
    const VF normed = hn::Mul(hn::Mul(centered, scale), load_some(weight + at, n));
    store_some(bias ? hn::Add(normed, load_some(bias + at, n)) : normed, out + at, n);
  });
}

// x/2 * (1 + tanh(u)) is x / (1 + e^(-2u)); u = sqrt(2/pi) * (x + 0.044715 x^3).
HWY_INLINE VF gelu_tanh(VF x) {
  const DF d;
  const VF cubic = hn::MulAdd(hn::Mul(hn::Mul(x, x), x), hn::Set(d, 0.044715f), x);
  const VF e = exp_lanes(hn::Mul(cubic, hn::Set(d, -2 * 0.7978845608028654f)));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), e));
}

HWY_INLINE VF sigmoid(VF x) {
  const VF one = hn::Set(DF(), 1.0f);
  return hn::Div(one, hn::Add(one, exp_lanes(hn::Neg(x))));
}

// Not for ClampedSwiglu.
HWY_INLINE VF activated(Activation activation, VF x) {
  if (activation == Activation::Identity) return x;
  if (activation == Activation::Sigmoid) return sigmoid(x);
  if (activation == Activation::SquaredRelu) {
    // A comparison, not Max, so that NaN stays.
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(DF())), hn::Mul(x, x));
  }
  return activation == Activation::Silu ? silu(x) : gelu_tanh(x);
}

// Comparisons, not Min and Max, so that NaN stays.
HWY_INLINE VF clamped_swiglu(VF gate, VF up) {
  const DF d;
  const VF one = hn::Set(d, 1.0f), most = hn::Set(d, kSwigluLimit), least = hn::Neg(most);
  gate = hn::IfThenElse(hn::Gt(gate, most), most, gate);
  up = hn::IfThenElse(hn::Gt(up, most), most, up);
  up = hn::IfThenElse(hn::Lt(up, least), least, up);
  const VF e = exp_lanes(hn::Mul(gate, hn::Set(d, -kSwigluSlope)));
  return hn::Mul(hn::Div(gate, hn::Add(one, e)), hn::Add(up, one));
}

void gated_act(Activation activation, const float* gate, const float* up, float* out,
               int64_t count) {
  for_each_vector(count, [&](int64_t i, int n) HWY_ATTR {
    const VF x = load_some(gate + i, n), y = load_some(up + i, n);
    const bool clamped = activation == Activation::ClampedSwiglu;
    store_some(clamped ? clamped_swiglu(x, y) : hn::Mul(activated(activation, x), y), out + i, n);
  });
}

void activate(Activation activation, const float* in, float* out, int64_t count) {
  for_each_vector(count, [&](int64_t i, int n) HWY_ATTR {
    store_some(activated(activation, load_some(in + i, n)), out + i, n);
  });
}

double dot(const float* x, const float* y, int64_t count) {
  const hn::Repartition<double, DF> dd;
  const hn::Half<DF> half;
  auto low = hn::Zero(dd), high = hn::Zero(dd);
  for_each_vector(count, [&](int64_t i, int n) HWY_ATTR {
    const VF a = load_some(x + i, n), b = load_some(y + i, n);
    low = hn::MulAdd(hn::PromoteTo(dd, hn::LowerHalf(half, a)),
                     hn::PromoteTo(dd, hn::LowerHalf(half, b)), low);
    high = hn::MulAdd(hn::PromoteTo(dd, hn::UpperHalf(half, a)),
                      hn::PromoteTo(dd, hn::UpperHalf(half, b)), high);
  });
  return hn::GetLane(hn::SumOfLanes(dd, hn::Add(low, high)));
}

void add(const AddArgs& a) {
  const VF keep = hn::Set(DF(), a.keep), scale = hn::Set(DF(), a.scale);
  for_each_vector(a.count, [&](int64_t i, int n) HWY_ATTR {
    const VF kept = hn::Mul(load_some(a.x + i, n), keep);
    store_some(hn::Add(kept, hn::Mul(load_some(a.y + i, n), scale)), a.x + i, n);
  });
}

void cap(float* x, int64_t count, float scale, float softcap) {
  const VF factor = hn::Set(DF(), scale), most = hn::Set(DF(), softcap);
  for_each_vector(count, [&](int64_t i, int n) HWY_ATTR {
    const VF scaled = hn::Mul(load_some(x + i, n), factor);
    store_some(softcap == 0 ? scaled : cap_lanes(scaled, most), x + i, n);
  });
}

void rotate(const RotationTable& table, int64_t row, float* head) {
  const float* cos = table.cos + row * table.pairs;
  const float* sin = table.sin + row * table.pairs;
  if (table.interleaved) {
    for (int64_t i = 0; i < table.pairs; ++i) {
      const float x = head[2 * i], y = head[2 * i + 1];
      head[2 * i] = x * cos[i] - y * sin[i];
      head[2 * i + 1] = y * cos[i] + x * sin[i];
    }
    return;
  }
  float* partner = head + table.pairs;
  for_each_vector(table.pairs, [&](int64_t i, int n) HWY_ATTR {
    const VF x = load_some(head + i, n), y = load_some(partner + i, n);
    const VF c = load_some(cos + i, n), s = load_some(sin + i, n);
    store_some(hn::Sub(hn::Mul(x, c), hn::Mul(y, s)), head + i, n);
    store_some(hn::Add(hn::Mul(y, c), hn::Mul(x, s)), partner + i, n);
  });
}

uint64_t sum_bytes(const std::byte* bytes, int64_t count) {
  const hn::ScalableTag<uint8_t> d8;
  const hn::ScalableTag<uint64_t> d64;
  constexpr int64_t kBytes = static_cast<int64_t>(hn::MaxLanes(d8));
  constexpr int kVectors = 4;
  const auto* p = reinterpret_cast<const uint8_t*>(bytes);
  hn::Vec<decltype(d64)> sums[kVectors];
  for (auto& sum : sums) sum = hn::Zero(d64);
  int64_t i = 0;
  for (; i + kVectors * kBytes <= count; i += kVectors * kBytes) {
    for (int v = 0; v < kVectors; ++v) {
      sums[v] = hn::Add(sums[v], hn::SumsOf8(hn::LoadU(d8, p + i + v * kBytes)));
    }
  }
  const auto all = hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]));
  uint64_t sum = hn::GetLane(hn::SumOfLanes(d64, all));
  for (; i < count; ++i) sum += p[i];
  return sum;
}

const PointwiseKernels* pointwise_table() {
  static const PointwiseKernels kTable{
      rms_norm, layer_norm, gated_act, activate,  dot,
      add,      cap,        rotate,    sum_bytes, hwy::TargetName(HWY_TARGET)};
  return &kTable;
}

}  // namespace
}  // namespace skald::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
SKALD_DISPATCH(PointwiseKernels, pointwise)
#endif
