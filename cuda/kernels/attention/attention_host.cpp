// Host code of attention: supported shapes, bytes of memory, and the tiles of a step. It calls no
// CUDA, so that plans need no GPU.
#include <algorithm>

#include "cuda/gpu/kernel_code.h"
#include "cuda/kernels/attention/attention.h"
#include "cuda/kernels/attention/attention_split.h"
#include "engine/base/error.h"
#include "engine/memory/page_tokens.h"
#include "engine/quant/dtype.h"

namespace skald::cuda {

AttentionCode attention_code_of(DType type, int compute_capability) {
  if (type != DType::F16 && type != DType::BF16) return AttentionCode::Plain;
  if (runs_on(KernelCode::Sm90a, compute_capability)) return AttentionCode::Wgmma;
  return runs_on(KernelCode::Sm80, compute_capability) ? AttentionCode::Mma : AttentionCode::Plain;
}

void check_attention(DType type, const AttentionSpec& s, int rope_pairs) {
  const bool number = type == DType::F32 || type == DType::F16 || type == DType::BF16;
  const bool heads = s.kv_heads > 0 && s.heads > 0 && s.heads % s.kv_heads == 0;
  const bool group = heads && (!mma_takes(s) || s.heads / s.kv_heads <= kMaxGroup);
  const bool dims = s.head_dim > 0 && s.head_dim <= kMaxHeadDim && s.head_dim % 2 == 0 &&
                    2 * rope_pairs <= s.head_dim;
  if (!number || !group || !dims) {
    fail(Exit::Model, "no CUDA attention for ", name(type), " with ", s.heads, " heads, ",
         s.kv_heads, " of keys and values, of ", s.head_dim, " dimensions of which ",
         2 * rope_pairs, " rotate; it takes even head dimensions up to ", kMaxHeadDim,
         " and up to ", kMaxGroup, " heads for one of keys and values");
  }
}

void check_growth(const AttentionSpec& s, int rope_pairs) {
  if (s.growth.rate == 0 || 2 * rope_pairs == s.head_dim || !mma_takes(s)) return;
  fail(Exit::Model, "no CUDA attention for queries that grow with their position and have ",
       s.head_dim, " dimensions, of which ", 2 * rope_pairs, " rotate; all must rotate");
}

AttentionLaunch decode_launch(const AttentionLaunch& asked) {
  AttentionLaunch a = asked;
  if (a.decode.after_append) {
    check(!a.dependent, "the rows of the step are in the cache before attention starts");
    if (a.appends) {  // q is ready
      a.rope_pairs = 0;
      a.q_norm = a.k_norm = nullptr;
      a.v_norm = false;
    }
  }
  check_attention(a);
  check(a.code != AttentionCode::Plain && mma_takes(a.spec),
        "attention_decode multiplies heads of up to 256 dimensions on tensor cores");
  check(!a.decode.prepares.memory || attention_prepares_rows(a.spec),
        "heads whose results can be prepared rows");
  return a;
}

int decode_depth(int64_t tokens) {
  int64_t depth = kLeastDepth;
  while (depth < tokens) depth *= kDepthFactor;
  return static_cast<int>(std::min(depth, kMostDepth));
}

namespace {

// The floats of a launch of so many rows whose split has been made for `depth` tokens.
int64_t workspace_floats(int rows, const AttentionSpec& spec, int depth, int multiprocessors) {
  if (wide_takes(spec)) {
    const int runs = wide_split(rows, spec, depth, multiprocessors, false).runs;
    constexpr int kTotals = 2;  // a maximum and a sum of weights
    return runs == 1 ? 0 : int64_t{rows} * spec.heads * runs * (spec.head_dim + kTotals);
  }
  int64_t parts = 0;
  // Without clusters each run stores a partial result.
  for (int resident = 1; resident <= kMostResident; ++resident) {
    const Split split = split_for(rows, spec, depth, {multiprocessors, resident, false});
    parts = std::max(parts, int64_t{rows} * split.runs * spec.kv_heads * head_tiles(spec));
  }
  return parts * kPartFloats * padded_head_dim(spec.head_dim);
}

}  // namespace

int64_t attention_workspace_floats(int rows, const AttentionSpec& spec, int depth,
                                   int multiprocessors) {
  if (!mma_takes(spec) && !wide_takes(spec)) return 0;
  int64_t floats = 0;
  const auto count = [&](int at) {
    for (int r = 1; r <= rows; ++r) {
      floats = std::max(floats, workspace_floats(r, spec, at, multiprocessors));
    }
  };
  for (int64_t less = kLeastDepth; less < depth; less *= kDepthFactor) {
    count(static_cast<int>(less));
  }
  count(depth);
  return floats;
}

int64_t attention_tickets(int rows, const AttentionSpec& spec) {
  if (!mma_takes(spec)) return 0;
  return int64_t{rows} * spec.kv_heads * head_tiles(spec) * kMaxCluster;
}

int build_attention_tiles(const TileRequest& request, AttentionTile* tiles) {
  const auto& [positions_of, sequences_of, spec, code, by_page] = request;
  const int32_t *positions = positions_of.data(), *sequences = sequences_of.data();
  const int rows = static_cast<int>(positions_of.size()), most = rows_per_tile(spec, code);
  int count = 0;
  for (int row = 0, end; row < rows; row = end) {
    for (end = row + 1; end < rows && end - row < most; ++end) {
      if (sequences[end] != sequences[row] || positions[end] != positions[end - 1] + 1) break;
      if (by_page && positions[end] % kPageTokens == 0) break;
    }
    tiles[count++] = {row, end - row};
  }
  const auto keys = [&](const AttentionTile& t) {
    const int last = positions[t.row] + t.rows;
    return spec.window > 0 ? std::min(last, spec.window + t.rows) : last;
  };
  std::stable_sort(tiles, tiles + count, [&](const AttentionTile& x, const AttentionTile& y) {
    return keys(x) > keys(y);
  });
  return count;
}

int attention_tiles_bound(int rows, int sequences, const AttentionSpec& spec, AttentionCode code) {
  return rows / rows_per_tile(spec, code) + sequences;
}

}  // namespace skald::cuda
