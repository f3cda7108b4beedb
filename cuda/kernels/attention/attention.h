// Attention over the paged cache. launch_attention_decode() is for steps with one row of each
// sequence: one kernel that also rotates and appends. launch_attention_prefill() takes any rows,
// after launch_rope_append(). Neither reads a cache slot beyond a row's position.
//
// With a dependent launch the kernels read the step table and the cache's earlier tokens ahead of
// their wait. So the table must be complete before the kernel ahead starts, and the earlier tokens
// before the step.
#pragma once

#include <string_view>

#include "cuda/kernels/launch.h"

namespace skald::cuda {

inline constexpr int kMaxHeadDim = 256;
inline constexpr int kMaxGroup = 64;  // query heads that read one KV head

// attention_code_of(): the best code for `type` that a GPU of this compute capability can run.
// attention_code(): the best that this program holds for the current device, which may be less.
AttentionCode attention_code_of(DType type, int compute_capability);
AttentionCode attention_code(DType type);

// The kernel that the two launchers below choose.
enum class AttentionKernel { Plain, Decode, Prefill, PrefillSm90 };
AttentionKernel attention_kernel(AttentionCode code, const AttentionSpec& spec, bool decode);
std::string_view kernel_name(AttentionKernel kernel);

// For rows of different sequences, each the last of its sequence. Norms and rotates q and k,
// appends k and v to the cache, and attends.
void launch_attention_decode(const AttentionLaunch& launch, Stream stream);
// Whether attention_decode can store f16 activations for the next product in place of `out`: 16
// columns must belong to one head.
bool attention_leaves_rows(AttentionCode code, const AttentionSpec& spec);
// The depth by which a step is split whose deepest row has `tokens` tokens, itself included. There
// are few such depths, so that few graphs are captured. The depth depends on nothing else, so that
// no result depends on the planned context or on earlier steps.
int decode_depth(int64_t tokens);
// Enough for any launch of up to `rows` rows with `depth` tokens, or with decode_depth() of fewer.
int64_t attention_workspace_floats(int rows, const AttentionSpec& spec, int depth,
                                   int multiprocessors);
int64_t attention_tickets(int rows, const AttentionSpec& spec);

// Norms and rotates q in place, and appends k, normed and rotated, and v to the cache.
void launch_rope_append(const AttentionLaunch& launch, Stream stream);

// For rows of any sequences at any positions, after launch_rope_append().
void launch_attention_prefill(const AttentionLaunch& launch, Stream stream);
// Fills `tiles`, those with the most work first, and returns their number: at most
// attention_tiles_bound(), in which a sequence whose positions have gaps counts once more for each
// gap. With `by_page` no tile has positions of two cache pages. Then a row's result does not depend
// on the rows that share its tile, since no tile reads a page that only some of its rows see.
int build_attention_tiles(const int32_t* positions, const int32_t* sequences, int rows,
                          const AttentionSpec& spec, AttentionCode code, AttentionTile* tiles,
                          bool by_page = false);
int attention_tiles_bound(int rows, int sequences, const AttentionSpec& spec, AttentionCode code);

// The kernel of launch_attention_prefill() on sm_90a, for the head dimensions that it supports.
bool attention_has_wgmma();
inline bool wgmma_takes(const AttentionSpec& s) { return s.head_dim == 64 || s.head_dim == 128; }
inline constexpr int kWgmmaQueries = 128;  // of a tile, counting each query head
void launch_attention_wgmma(const AttentionLaunch& launch, Stream stream);

// Plain arithmetic, one block for each row and head, for any type and GPU; after
// launch_rope_append().
void launch_attention_plain(const AttentionLaunch& launch, Stream stream);

// Throws an Error that names types and shape if no kernel supports them. All kernels take a cache
// of the activations' type alone.
void check_attention(DType type, DType cache_type, const AttentionSpec& spec, int rope_pairs);
inline void check_attention(const AttentionLaunch& a) {
  check_attention(a.type, a.cache_type, a.spec, a.rope_pairs);
}

}  // namespace skald::cuda
