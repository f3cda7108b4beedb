#include "engine/cpu/fast_attention.h"

#include <algorithm>
#include <limits>

#include "engine/base/half.h"
#include "engine/cpu/cache_rows.h"
#include "engine/cpu/fast_targets.h"
#include "engine/memory/kv_pages.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/cpu/fast_attention.cpp"
#include <hwy/foreach_target.h>
// These headers must come after foreach_target.h, which includes this file once for each
// instruction set.
#include <hwy/highway.h>

#include "engine/cpu/fast_cache-inl.h"
#include "engine/cpu/fast_simd-inl.h"

#ifndef SKALD_CPU_FAST_ATTENTION_ONCE
#define SKALD_CPU_FAST_ATTENTION_ONCE
namespace skald::cpu {
namespace {

constexpr int64_t kMaxLanes = 16;

int64_t padded(int64_t head_dim) { return (head_dim + kMaxLanes - 1) / kMaxLanes * kMaxLanes; }

// The workspace of one tile, a single block of memory divided into arrays. Vector loads may read up
// to kMaxLanes floats past a row of keys or values.
struct Workspace {
  float* rows;    // [kPageTokens, head_dim]: keys as in the page
  float* values;  // [kPageTokens, head_dim]
  float* keys;    // [padded, kPageTokens]: keys transposed
  float* scores;  // [group, kPageTokens], then probabilities
  float* out;     // [kAttentionRows, group, padded]: unnormalized output so far
  float* best;    // [kAttentionRows, group]: maximum score so far
  float* total;   // [kAttentionRows, group]: sum of probabilities so far
  float* q;       // [kAttentionRows, group, head_dim]: rotated queries, if keys are rotated

  static int64_t page_floats(int64_t head_dim) {
    return kPageTokens * padded(head_dim) + kMaxLanes;
  }
  static int64_t floats(int64_t head_dim, int64_t group, bool rotates) {
    return 3 * page_floats(head_dim) + group * kPageTokens +
           kAttentionRows * group * (padded(head_dim) + 2 + (rotates ? head_dim : 0));
  }
  Workspace(float* memory, int64_t head_dim, int64_t group) {
    rows = memory;
    values = rows + page_floats(head_dim);
    keys = values + page_floats(head_dim);
    scores = keys + page_floats(head_dim);
    out = scores + group * kPageTokens;
    best = out + kAttentionRows * group * padded(head_dim);
    total = best + kAttentionRows * group;
    q = total + kAttentionRows * group;
  }
};

}  // namespace

int64_t attention_scratch_floats(const AttentionSpec& spec, const CacheTypes& types) {
  return Workspace::floats(spec.head_dim, spec.heads / spec.kv_heads, is_rotated(types.keys));
}
}  // namespace skald::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace skald::cpu::HWY_NAMESPACE {
namespace {

// Chosen so that a tile of 4 heads fits the registers
constexpr int kVectors = HWY_CAP_GE512 ? 4 : 2;
constexpr int kMaxHeads = 4;

// The keys of a page that a row attends to: [from, to) within the page.
struct Visible {
  int64_t from, to;
};

// scores[h][j] = q[h] · key j. Works on blocks of kVectors * kLanes keys and skips blocks without
// visible keys.
template <int heads>
HWY_INLINE void score(const float* q, int64_t head_dim, const float* keys, Visible visible,
                      float* scores) {
  const DF d;
  constexpr int64_t kBlock = kVectors * kLanes;
  for (int64_t j = visible.from / kBlock * kBlock; j < visible.to; j += kBlock) {
    VF sum[heads][kVectors];
    for (auto& row : sum) {
      for (VF& s : row) s = hn::Zero(d);
    }
    for (int64_t i = 0; i < head_dim; ++i) {
      VF key[kVectors];
      for (int v = 0; v < kVectors; ++v)
        key[v] = hn::Load(d, keys + i * kPageTokens + j + v * kLanes);
      for (int h = 0; h < heads; ++h) {
        const VF x = hn::Set(d, q[h * head_dim + i]);
        for (int v = 0; v < kVectors; ++v) sum[h][v] = hn::MulAdd(x, key[v], sum[h][v]);
      }
    }
    for (int h = 0; h < heads; ++h) {
      for (int v = 0; v < kVectors; ++v) {
        hn::Store(sum[h][v], d, scores + h * kPageTokens + j + v * kLanes);
      }
    }
  }
}

// Not inlined: g++ 12 at -O3 for AVX-512 generates wrong code if this is inlined into soften().
HWY_NOINLINE void cap_scores(float* scores, float scale, float cap) {
  const DF d;
  for (int64_t j = 0; j < kPageTokens; j += kLanes) {
    const VF scaled = hn::Mul(hn::Load(d, scores + j), hn::Set(d, scale));
    hn::Store(cap_lanes(scaled, hn::Set(d, cap)), d, scores + j);
  }
}

// Turns a page's scores into probabilities relative to the maximum score so far. Returns the factor
// that rescales the sums of earlier pages.
HWY_INLINE float soften(float* scores, float scale, Visible visible, float& best, float& total) {
  const DF d;
  const VF from = hn::Set(d, static_cast<float>(visible.from));
  const VF to = hn::Set(d, static_cast<float>(visible.to));
  const VF lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  const auto mask = [&](int64_t j) HWY_ATTR {
    const VF index = hn::Iota(d, static_cast<float>(j));
    return hn::And(hn::Ge(index, from), hn::Lt(index, to));
  };
  VF largest = lowest;
  for (int64_t j = 0; j < kPageTokens; j += kLanes) {
    const VF scaled = hn::Mul(hn::Load(d, scores + j), hn::Set(d, scale));
    hn::Store(scaled, d, scores + j);
    largest = hn::Max(largest, hn::IfThenElse(mask(j), scaled, lowest));
  }
  const float new_best = std::max(best, hn::GetLane(hn::MaxOfLanes(d, largest)));
  VF sum = hn::Zero(d);
  for (int64_t j = 0; j < kPageTokens; j += kLanes) {
    const VF e = exp_lanes(hn::Sub(hn::Load(d, scores + j), hn::Set(d, new_best)));
    const VF p = hn::IfThenElseZero(mask(j), e);
    hn::Store(p, d, scores + j);
    sum = hn::Add(sum, p);
  }
  const float factor = hn::GetLane(exp_lanes(hn::Set(d, best - new_best)));
  total = total * factor + sum_one(sum);
  best = new_best;
  return factor;
}

// out[h] = out[h] * factor[h] + sum over visible j of p[h][j] * value j, for `vectors` vectors of a
// row.
template <int heads, int vectors>
HWY_INLINE void weigh(const float* values, int64_t head_dim, const float* p, const float* factor,
                      Visible visible, float* out, int64_t out_stride) {
  const DF d;
  VF sum[heads][vectors];
  for (int h = 0; h < heads; ++h) {
    for (int v = 0; v < vectors; ++v) {
      sum[h][v] = hn::Mul(hn::Load(d, out + h * out_stride + v * kLanes), hn::Set(d, factor[h]));
    }
  }
  for (int64_t j = visible.from; j < visible.to; ++j) {
    VF value[vectors];
    for (int v = 0; v < vectors; ++v) value[v] = hn::LoadU(d, values + j * head_dim + v * kLanes);
    for (int h = 0; h < heads; ++h) {
      const VF weight = hn::Set(d, p[h * kPageTokens + j]);
      for (int v = 0; v < vectors; ++v) sum[h][v] = hn::MulAdd(weight, value[v], sum[h][v]);
    }
  }
  for (int h = 0; h < heads; ++h) {
    for (int v = 0; v < vectors; ++v) hn::Store(sum[h][v], d, out + h * out_stride + v * kLanes);
  }
}

// Attends `heads` query heads of one row to the page in the workspace. The spec's scale is the
// row's own.
template <int heads>
HWY_NOINLINE void attend_page(const AttentionSpec& spec, const float* q, Visible visible,
                              const Workspace& w, int64_t state) {
  const int64_t stride = padded(spec.head_dim);
  score<heads>(q, spec.head_dim, w.keys, visible, w.scores);
  const bool capped = spec.softcap != 0;
  float factor[heads];
  for (int h = 0; h < heads; ++h) {
    float* scores = w.scores + h * kPageTokens;
    if (capped) cap_scores(scores, spec.scale, spec.softcap);
    factor[h] =
        soften(scores, capped ? 1 : spec.scale, visible, w.best[state + h], w.total[state + h]);
  }
  float* out = w.out + state * stride;
  const int64_t vectors = (spec.head_dim + kLanes - 1) / kLanes;
  int64_t v = 0;
  for (; v + kVectors <= vectors; v += kVectors) {
    weigh<heads, kVectors>(w.values + v * kLanes, spec.head_dim, w.scores, factor, visible,
                           out + v * kLanes, stride);
  }
  for (; v < vectors; ++v) {
    weigh<heads, 1>(w.values + v * kLanes, spec.head_dim, w.scores, factor, visible,
                    out + v * kLanes, stride);
  }
}

// Loads tokens [from, to) of the page that begins at position `start` into the workspace; keys are
// transposed.
void load_page(const AttentionTile& tile, int64_t start, Visible tokens, const Workspace& w) {
  const AttentionArgs& a = *tile.args;
  const int64_t head_dim = a.spec.head_dim;
  const int64_t skip = tokens.from * head_dim, count = (tokens.to - tokens.from) * head_dim;
  const auto load = [&](Half half, float* to) {
    const CacheBytes<std::byte> from =
        cache_bytes(a, a.at[tile.first_row], half, tile.kv_head, start + tokens.from);
    decode_numbers(type_of(a.cache, half), {from.codes, from.scales}, count, to + skip);
  };
  load(Half::Keys, w.rows);
  load(Half::Values, w.values);
  // Lanes of tokens outside [from, to) hold old values. That is harmless: lanes are masked before
  // they are combined.
  const auto* bytes = reinterpret_cast<const std::byte*>(w.rows);
  const int64_t row_bytes = head_dim * static_cast<int64_t>(sizeof(float));
  for (int64_t j = tokens.from / kLanes * kLanes; j < tokens.to; j += kLanes) {
    for (int64_t i = 0; i < head_dim; i += 4) {
      VU part[4];
      load_transposed(bytes + j * row_bytes + i * static_cast<int64_t>(sizeof(float)), row_bytes,
                      part);
      for (int n = 0; n < 4; ++n) {
        hn::Store(hn::BitCast(DF(), part[n]), DF(), w.keys + (i + n) * kPageTokens + j);
      }
    }
  }
}

void attend(const AttentionTile& tile, float* scratch) {
  const AttentionArgs& a = *tile.args;
  AttentionSpec spec = a.spec;
  const int64_t group = spec.heads / spec.kv_heads;
  const int64_t stride = padded(spec.head_dim);
  const Workspace w(scratch, spec.head_dim, group);
  std::fill_n(w.out, tile.rows * group * stride, 0.0f);
  if (a.sinks) {  // the first score of each head, with a weight of 1 and no value
    for (int64_t r = 0; r < tile.rows; ++r) {
      std::copy_n(a.sinks + tile.kv_head * group, group, w.best + r * group);
    }
  } else {
    std::fill_n(w.best, tile.rows * group, -std::numeric_limits<float>::infinity());
  }
  std::fill_n(w.total, tile.rows * group, a.sinks ? 1.0f : 0.0f);
  const float* queries = a.q + (tile.first_row * spec.heads + tile.kv_head * group) * spec.head_dim;
  int64_t query_stride = int64_t{spec.heads} * spec.head_dim;
  if (is_rotated(a.cache.types.keys)) {
    for (int64_t r = 0; r < tile.rows; ++r) {
      float* const rotated = w.q + r * group * spec.head_dim;
      std::copy_n(queries + r * query_stride, group * spec.head_dim, rotated);
      for (int64_t h = 0; h < group; ++h) {
        rotate_hadamard(rotated + h * spec.head_dim, spec.head_dim);
      }
    }
    queries = w.q;
    query_stride = group * spec.head_dim;
  }

  const auto first_seen = [&](int64_t position) {
    return spec.window ? std::max<int64_t>(0, position - spec.window + 1) : 0;
  };
  const AttentionRow* rows = a.at + tile.first_row;
  const int64_t begin = first_seen(rows[0].position), end = rows[tile.rows - 1].position + 1;
  for (int64_t page = begin / kPageTokens; page * kPageTokens < end; ++page) {
    const int64_t start = page * kPageTokens;
    const auto within = [&](int64_t from, int64_t to) {
      return Visible{std::max<int64_t>(from - start, 0),
                     std::min<int64_t>(to - start, kPageTokens)};
    };
    load_page(tile, start, within(begin, end), w);
    for (int64_t r = 0; r < tile.rows; ++r) {
      const Visible visible = within(first_seen(rows[r].position), rows[r].position + 1);
      if (visible.from >= visible.to) continue;
      spec.scale = a.spec.scale * a.spec.growth.at(rows[r].position);
      const float* q = queries + r * query_stride;
      for (int64_t h = 0; h < group; h += kMaxHeads) {
        const float* first = q + h * spec.head_dim;
        switch (std::min<int64_t>(kMaxHeads, group - h)) {
          case 1:
            attend_page<1>(spec, first, visible, w, r * group + h);
            break;
          case 2:
            attend_page<2>(spec, first, visible, w, r * group + h);
            break;
          case 3:
            attend_page<3>(spec, first, visible, w, r * group + h);
            break;
          case 4:
            attend_page<4>(spec, first, visible, w, r * group + h);
            break;
        }
      }
    }
  }
  for (int64_t r = 0; r < tile.rows; ++r) {
    for (int64_t h = 0; h < group; ++h) {
      float* out =
          a.out + ((tile.first_row + r) * spec.heads + tile.kv_head * group + h) * spec.head_dim;
      const float* sums = w.out + (r * group + h) * stride;
      const float total = w.total[r * group + h];
      for (int64_t i = 0; i < spec.head_dim; ++i) out[i] = sums[i] / total;
      if (is_rotated(a.cache.types.values)) rotate_hadamard(out, spec.head_dim);
    }
  }
}

void to_f16(const float* from, uint16_t* to, int64_t count) {
  int64_t i = 0;
  if constexpr (kHardwareF16) {
    const hn::Rebind<hwy::float16_t, DF> dhalf;
    for (; i + kLanes <= count; i += kLanes) {
      hn::StoreU(hn::DemoteTo(dhalf, hn::LoadU(DF(), from + i)), dhalf,
                 reinterpret_cast<hwy::float16_t*>(to + i));
    }
  }
  for (; i < count; ++i) to[i] = f32_to_f16(from[i]);
}

const AttentionKernels* attention_table() {
  static constexpr AttentionKernels kTable{attend, to_f16};
  return &kTable;
}

}  // namespace
}  // namespace skald::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
SKALD_DISPATCH(AttentionKernels, attention)
#endif
