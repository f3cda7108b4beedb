#include "engine/cpu/fast_states.h"

#include <algorithm>
#include <cmath>

#include "engine/cpu/fast_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/cpu/fast_states.cpp"
#include <hwy/foreach_target.h>
// These headers must come after foreach_target.h, which includes this file once for each
// instruction set.
#include <hwy/highway.h>

#include "engine/cpu/fast_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace skald::cpu::HWY_NAMESPACE {
namespace {

// One row at a time: a state has few rows, and all of this is little beside the products.
void causal_conv(const CausalConvArgs& a, StateRun run, int64_t from, int64_t count) {
  const int64_t kept = a.taps - 1;
  float* state = a.at[run.first].state + from;
  if (a.at[run.first].position == 0) {
    for (int64_t t = 0; t < kept; ++t) std::fill_n(state + t * a.cols, count, 0.0f);
  }
  const float* weight = a.weight + from * a.taps;
  for (int64_t r = run.first; r < run.first + run.count; ++r) {
    const float* in = a.in + r * a.cols + from;
    float* out = a.out + r * a.cols + from;
    for (int64_t c = 0; c < count; ++c) {
      double sum =
          (a.bias ? double{a.bias[from + c]} : 0) + double{weight[c * a.taps + kept]} * in[c];
      for (int64_t t = 0; t < kept; ++t)
        sum += double{weight[c * a.taps + t]} * state[t * a.cols + c];
      out[c] = static_cast<float>(sum);
    }
    if (a.activation == Activation::Silu) {
      for_each_vector(count, [&](int64_t i, int n)
                                 HWY_ATTR { store_some(silu(load_some(out + i, n)), out + i, n); });
    }
    for (int64_t t = 0; t + 1 < kept; ++t) {
      std::copy_n(state + (t + 1) * a.cols, count, state + t * a.cols);
    }
    std::copy_n(in, count, state + (kept - 1) * a.cols);
  }
}

// out = factor * in, so that out has the length `factor`
void scale_to(const float* in, float* out, int64_t count, double factor) {
  double squares = kDeltaNormEps;
  for (int64_t i = 0; i < count; ++i) squares += double{in[i]} * in[i];
  const float scale = static_cast<float>(factor / std::sqrt(squares));
  for (int64_t i = 0; i < count; ++i) out[i] = in[i] * scale;
}

double softplus(double x) { return x > 20 ? x : std::log1p(std::exp(x)); }

struct DeltaRow {
  const float *key, *query, *value;
  float* out;
  float kept, corrected;
};

// kVectors vectors of values at a time: their part of the state stays in the first cache between
// both passes. `n` is the number of floats in the last vector.
template <int kVectors>
HWY_INLINE void update(const DeltaSpec& s, const DeltaRow& row, float* state, int64_t j, int n) {
  const DF d;
  const VF kept = hn::Set(d, row.kept), corrected = hn::Set(d, row.corrected);
  VF held[kVectors], sums[kVectors];
  const auto count = [&](int v) { return v + 1 == kVectors ? n : kLanes; };
  for (int v = 0; v < kVectors; ++v) held[v] = sums[v] = hn::Zero(d);
  for (int i = 0; i < s.key_dim; ++i) {
    const VF key = hn::Set(d, row.key[i]);
    const float* from = state + int64_t{i} * s.value_dim + j;
    for (int v = 0; v < kVectors; ++v) {
      held[v] = hn::MulAdd(load_some(from + v * kLanes, count(v)), key, held[v]);
    }
  }
  for (int v = 0; v < kVectors; ++v) {
    const VF value = load_some(row.value + j + v * kLanes, count(v));
    held[v] = hn::Mul(corrected, hn::Sub(value, hn::Mul(kept, held[v])));  // what S must learn
  }
  for (int i = 0; i < s.key_dim; ++i) {
    const VF key = hn::Set(d, row.key[i]), query = hn::Set(d, row.query[i]);
    float* at = state + int64_t{i} * s.value_dim + j;
    for (int v = 0; v < kVectors; ++v) {
      const VF old = hn::Mul(kept, load_some(at + v * kLanes, count(v)));
      const VF number = hn::MulAdd(key, held[v], old);
      store_some(number, at + v * kLanes, count(v));
      sums[v] = hn::MulAdd(number, query, sums[v]);
    }
  }
  for (int v = 0; v < kVectors; ++v) store_some(sums[v], row.out + j + v * kLanes, count(v));
}

void delta_net(const DeltaNetArgs& a, StateRun run, int head, float* scratch) {
  constexpr int kVectors = 4;
  const DeltaSpec& s = a.spec;
  const int64_t key_at = int64_t{s.key_head(head)} * s.key_dim;
  const int64_t value_at = int64_t{head} * s.value_dim;
  float* state = a.at[run.first].state + value_at * s.key_dim;
  if (a.at[run.first].position == 0) std::fill_n(state, int64_t{s.key_dim} * s.value_dim, 0.0f);
  float *key = scratch, *query = scratch + s.key_dim;
  const double query_length = 1 / std::sqrt(static_cast<double>(s.key_dim));
  for (int64_t r = run.first; r < run.first + run.count; ++r) {
    const float* queries = a.in + r * (2 * s.keys() + s.values());
    scale_to(queries + key_at, query, s.key_dim, query_length);
    scale_to(queries + s.keys() + key_at, key, s.key_dim, 1);
    const int64_t at = r * s.value_heads + head;
    const double kept = std::exp(a.rate[head] * softplus(double{a.decay[at]} + a.bias[head]));
    const double corrected = 1 / (1 + std::exp(-double{a.beta[at]}));
    const DeltaRow row = {key,
                          query,
                          queries + 2 * s.keys() + value_at,
                          a.out + r * s.values() + value_at,
                          static_cast<float>(kept),
                          static_cast<float>(corrected)};
    int64_t j = 0;
    for (; j + kVectors * kLanes <= s.value_dim; j += kVectors * kLanes) {
      update<kVectors>(s, row, state, j, kLanes);
    }
    for (; j < s.value_dim; j += kLanes) {
      update<1>(s, row, state, j, static_cast<int>(std::min<int64_t>(kLanes, s.value_dim - j)));
    }
  }
}

// kRows rows of a head's matrix at a time share the loads of the key and of the query. Returns the
// products of the query with each row in `sums`.
template <int kRows>
HWY_INLINE void update_rows(int64_t state_dim, const float* key, const float* query, float kept,
                            const float* learned, float* state, float* sums) {
  const DF d;
  const VF fades = hn::Set(d, kept);
  VF total[kRows];
  for (VF& sum : total) sum = hn::Zero(d);
  for (int64_t i = 0; i < state_dim; i += kLanes) {
    const int n = static_cast<int>(std::min<int64_t>(kLanes, state_dim - i));
    const VF k = load_some(key + i, n), q = load_some(query + i, n);
    for (int j = 0; j < kRows; ++j) {
      float* at = state + j * state_dim + i;
      const VF number = hn::MulAdd(hn::Set(d, learned[j]), k, hn::Mul(fades, load_some(at, n)));
      store_some(number, at, n);
      total[j] = hn::MulAdd(number, q, total[j]);
    }
  }
  for (int j = 0; j < kRows; ++j) sums[j] = hn::GetLane(hn::SumOfLanes(d, total[j]));
}

void state_space(const StateSpaceArgs& a, StateRun run, int head) {
  constexpr int kRows = 4;
  const SpaceSpec& s = a.spec;
  const int64_t value_at = int64_t{head} * s.head_dim;
  const int64_t key_at = s.values() + int64_t{head / (s.heads / s.groups)} * s.state_dim;
  float* state = a.at[run.first].state + value_at * s.state_dim;
  if (a.at[run.first].position == 0) std::fill_n(state, int64_t{s.head_dim} * s.state_dim, 0.0f);
  for (int64_t r = run.first; r < run.first + run.count; ++r) {
    const float* in = a.in + r * s.inputs();
    const float *value = in + value_at, *key = in + key_at, *query = key + s.keys();
    float* out = a.out + r * s.values() + value_at;
    const double step = std::clamp(softplus(double{a.step[r * s.heads + head]} + a.bias[head]),
                                   double{s.least_step}, double{s.most_step});
    const auto kept = static_cast<float>(std::exp(a.rate[head] * step));
    float learned[kRows], sums[kRows];
    for (int64_t j = 0; j < s.head_dim;) {
      const int rows = j + kRows <= s.head_dim ? kRows : 1;
      for (int i = 0; i < rows; ++i) learned[i] = static_cast<float>(step * value[j + i]);
      float* at = state + j * s.state_dim;
      if (rows == kRows) {
        update_rows<kRows>(s.state_dim, key, query, kept, learned, at, sums);
      } else {
        update_rows<1>(s.state_dim, key, query, kept, learned, at, sums);
      }
      for (int i = 0; i < rows; ++i) out[j + i] = sums[i] + a.skip[head] * value[j + i];
      j += rows;
    }
  }
}

const StateKernels* state_table() {
  static const StateKernels kTable{causal_conv, delta_net, state_space};
  return &kTable;
}

}  // namespace
}  // namespace skald::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
SKALD_DISPATCH(StateKernels, state)
#endif
