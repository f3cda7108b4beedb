// Attention over the paged KV cache. launch_attention_decode() is for steps with one row of each
// sequence: one kernel that also rotates and appends. Steps with a few rows of each sequence can
// use it after launch_rope_append(). launch_attention_prefill() takes any rows, after
// launch_rope_append(). Neither reads a cache slot beyond a row's position.
//
// In a dependent launch the kernels read the step table and the cache's earlier tokens before they
// wait. So the table must be complete before the kernel ahead starts, and the earlier tokens before
// the step.
#pragma once

#include <cstdint>
#include <span>

#include "cuda/gpu/stream.h"
#include "cuda/kernels/kernel_id.h"
#include "cuda/kernels/prepared_rows.h"
#include "cuda/kernels/rows_of_step.h"
#include "engine/program/specs.h"
#include "engine/quant/cache_type.h"
#include "engine/quant/dtype_enum.h"

namespace skald::cuda {

// One layer's cache: its LayerCache (engine/memory/cache_layout.h) in page p starts at data + p *
// page_stride bytes. Where the keys serve as values, it has no values.
//
// Most kernels read a plain cache, whose types are the activations'. A cache of other types, of
// codes, goes with a plain one that has the same pages, of one layer: launch_rope_append() writes
// new keys and values there, launch_encode_cache() takes them from there, and launch_decode_cache()
// writes there what the kernel of attention reads.
struct KvLayerView {
  void* data;
  int64_t page_stride;
};

// Up to `rows` query rows, adjacent in the step and in one sequence at consecutive positions.
struct AttentionTile {
  int32_t row;   // the first
  int32_t rows;  // 0: nothing to do
};

// Plain arithmetic (any type and GPU), mma.sync (sm_80), or wgmma where a kernel has it (sm_90a).
enum class AttentionCode : uint8_t { Plain, Mma, Wgmma };

struct AttentionLaunch {
  DType type;              // type of qkv and out: F16, BF16 or F32
  CacheTypes cache_types;  // of `coded`, if there is one, or of `cache`
  // [rows, heads of q, k and v, head_dim]; q is scratch. Without v if the keys serve as values.
  void* qkv;
  void* out;  // [rows, heads * head_dim]
  int rows;
  StepTable step;
  KvLayerView cache;       // plain
  KvLayerView coded = {};  // without data if the cache is plain
  AttentionSpec spec;
  const float* inv_freq;  // [rope_pairs]; rotates q and k first
  int rope_pairs;
  bool rope_interleaved;
  float rope_scale = 1;                              // factor of cosines and sines
  const float *q_norm = nullptr, *k_norm = nullptr;  // [head_dim]: each head is normed
  float norm_eps = 0;
  bool norm_after_rope = false;  // norm after the rotation, not before; requires rope_scale == 1
  bool v_norm = false;           // each head of v is normed without weights; requires q_norm
  // qkv has no v: it is k before its norm.
  bool values_are_keys = false;
  // False: the cache has the rows' keys and values already, and qkv has q alone. Then k_norm and
  // v_norm have no effect.
  bool appends = true;
  const float* sinks = nullptr;  // [heads]: a score of each head, after the scale, without a value
  AttentionCode code;            // attention_code(type)
  bool dependent;                // as LinearShape::dependent
  int multiprocessors;           // needed in decode, and for prompts on sm_90a

  struct Decode {
    int depth;              // no row has more tokens; with rows, fixes the grid
    float* workspace;       // attention_workspace_floats() floats
    int* tickets;           // attention_tickets() integers, zero before and after each launch
    PreparedRows prepares;  // written instead of `out`, if attention_prepares_rows()
    // launch_rope_append() goes before, and a row may see other rows of the step. A launch of
    // attention_decode is then not dependent. attention_wide always comes after
    // launch_rope_append(); there, false promises that each row is the last of its sequence, so
    // that older tokens may be fetched before the wait.
    bool after_append = false;
  } decode;

  // From build_attention_tiles(), on the device; code Plain has none.
  struct Prefill {
    const AttentionTile* tiles;
    int count;  // the number of tiles; the grid depends on it
  } prefill;
};

inline constexpr int kMaxHeadDim = 576;
inline constexpr int kMaxMmaHeadDim = 256;  // of kernels that multiply on tensor cores
inline bool mma_takes(const AttentionSpec& s) {
  return s.head_dim <= kMaxMmaHeadDim && !s.keys_serve;
}
// Heads of attention_wide: more than 256 dimensions, or keys that serve as values. Keys and values
// of more dimensions would not fit in the shared memory of every GPU.
inline constexpr int kMostWideValues = 512;
inline bool wide_takes(const AttentionSpec& s) {
  return !mma_takes(s) && s.head_dim % 16 == 0 && (s.keys_serve || s.head_dim <= kMostWideValues);
}
// Query heads that read one KV head, of heads that mma_takes().
inline constexpr int kMaxGroup = 64;

// attention_code_of(): the best code for `type` that a GPU of this compute capability can run.
// attention_code(): the best that this program holds for the current device, which may be less.
AttentionCode attention_code_of(DType type, int compute_capability);
AttentionCode attention_code(DType type);

template <KernelId>
void launch_attention(const AttentionLaunch& launch, Stream stream);

// For rows of different sequences, each the last of its sequence. Norms and rotates q and k,
// appends k and v to the cache, and attends. With Decode::after_append, only attends, and rows may
// belong to one sequence. Not for code Plain, nor for heads that mma_takes() refuses.
void launch_attention_decode(const AttentionLaunch& launch, Stream stream);
// attention_decode_codes_sm90 is the same for a cache of codes of 4 or 8 bits, all of one type. It
// reads and appends to the cache without a plain one between. With Decode::after_append,
// launch_encode_cache() goes before too.
inline bool codes_takes(const AttentionSpec& s) {
  return mma_takes(s) && (s.head_dim == 64 || s.head_dim == 128 || s.head_dim == 256);
}
inline bool codes_takes(const CacheTypes& types) {
  return code_bits(types.keys) <= 8 && types.keys == types.values;
}
// True if attention_decode can write prepared rows for the next product instead of `out`: every 16
// columns must belong to one head.
inline bool attention_prepares_rows(const AttentionSpec& spec) { return spec.head_dim % 16 == 0; }
// The depth for which a step is split if its deepest row has `tokens` tokens, itself included.
// There are few such depths, so that few graphs are captured. The depth depends on nothing else, so
// no result depends on the planned context or on earlier steps.
int decode_depth(int64_t tokens);
// Enough floats for any launch of up to `rows` rows with `depth` tokens, or with decode_depth() of
// fewer tokens. attention_tickets(): enough tickets. Heads that neither mma_takes() nor
// wide_takes() need neither.
int64_t attention_workspace_floats(int rows, const AttentionSpec& spec, int depth,
                                   int multiprocessors);
int64_t attention_tickets(int rows, const AttentionSpec& spec);

// Norms and rotates q in place. If the launch appends: appends k, normed and rotated, and v to the
// cache.
void launch_rope_append(const AttentionLaunch& launch, Stream stream);

// For rows of any sequences at any positions, after launch_rope_append(). Not for code Plain, nor
// for heads that mma_takes() refuses.
void launch_attention_prefill(const AttentionLaunch& launch, Stream stream);
// Fills `tiles`, the tiles with the most work first, and returns their number. It is at most
// attention_tiles_bound(), in which a sequence whose positions have gaps counts once more for each
// gap. With `by_page` no tile crosses a cache page. Then a row's result does not depend on the rows
// that share its tile, since no tile reads a page that only some of its rows see.
struct TileRequest {
  std::span<const int32_t> positions, sequences;  // [rows]
  const AttentionSpec& spec;
  AttentionCode code;
  bool by_page = false;
};
int build_attention_tiles(const TileRequest& request, AttentionTile* tiles);
int attention_tiles_bound(int rows, int sequences, const AttentionSpec& spec, AttentionCode code);

// Prefill on sm_90a, for the head dimensions that the kernel supports.
bool attention_has_wgmma();
inline bool wgmma_takes(const AttentionSpec& s) {
  return mma_takes(s) && (s.head_dim == 64 || s.head_dim == 128);
}
inline constexpr int kWgmmaQueries = 128;  // queries of a tile: rows times query heads
void launch_attention_wgmma(const AttentionLaunch& launch, Stream stream);

// For a cache of codes. encode: the step's new keys and values, which stay in the plain cache as
// their codes say. decode: what the step's rows see.
void launch_encode_cache(const AttentionLaunch& launch, Stream stream);
void launch_decode_cache(const AttentionLaunch& launch, Stream stream);

// Plain arithmetic, one block for each row and head, for any type and GPU; after
// launch_rope_append().
void launch_attention_plain(const AttentionLaunch& launch, Stream stream);

// Throws an Error that names type and shape if no kernel supports them.
void check_attention(DType type, const AttentionSpec& spec, int rope_pairs);
// Throws if queries grow with their position, not all their dimensions rotate, and mma_takes() the
// heads: those kernels apply the growth when they rotate.
void check_growth(const AttentionSpec& spec, int rope_pairs);
inline void check_attention(const AttentionLaunch& a) {
  check_attention(a.type, a.spec, a.rope_pairs);
}

}  // namespace skald::cuda
