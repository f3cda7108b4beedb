// Attention over the paged cache. Two ways in: decode, for steps with one row of each sequence, is
// one kernel that also rotates and appends; prefill takes any rows, after launch_rope_append.
// Neither reads a cache slot beyond a row's position.
//
// With a dependent launch, what the step table points to must be complete before the kernel ahead
// starts, and the cache's earlier tokens before the step: both are read ahead of the wait.
#pragma once

#include <string_view>

#include "cuda/kernels/launch.h"

namespace skald::cuda {

inline constexpr int kMaxHeadDim = 256;
inline constexpr int kMaxGroup = 64;  // query heads that read one KV head

// The best for `type` that a GPU of this compute capability can run; and the best that this program
// holds for the current device, which may be less.
AttentionCode attention_code_of(DType type, int compute_capability);
AttentionCode attention_code(DType type);

// What the two launchers below choose.
enum class AttentionKernel { Plain, Decode, Prefill, PrefillSm90 };
AttentionKernel attention_kernel(AttentionCode code, const AttentionSpec& spec, bool decode);
std::string_view kernel_name(AttentionKernel kernel);

// Rows of different sequences, each the last of its sequence. Norms and rotates q and k, appends k
// and v, attends.
void launch_attention_decode(const AttentionLaunch& launch, Stream stream);
// Whether it can leave f16 rows for a product in place of `out`: 16 columns are of one head.
bool attention_leaves_rows(AttentionCode code, const AttentionSpec& spec);
// The depth that a step is divided for whose deepest row has so many tokens, itself included: one
// of a few, so that few graphs are captured, and by nothing else, so that no result depends on what
// was planned or on what a text went through.
int decode_depth(int64_t tokens);
// Enough for any launch of up to `rows` rows for `depth` tokens, or for decode_depth() of fewer.
int64_t attention_workspace_floats(int rows, const AttentionSpec& spec, int depth,
                                   int multiprocessors);
int64_t attention_tickets(int rows, const AttentionSpec& spec);

// Norms and rotates q in place, and appends k, normed and rotated, and v to the cache.
void launch_rope_append(const AttentionLaunch& launch, Stream stream);

// Rows of any sequences at any positions, after launch_rope_append.
void launch_attention_prefill(const AttentionLaunch& launch, Stream stream);
// Fills `tiles`, the most work first, and returns their number: at most
// attention_tiles_bound(), where a sequence whose positions have gaps counts once more for each
// gap. With `by_page` no tile has positions of two cache pages: then a row's result does not depend
// on the rows that share its tile, since it is never done with a page that only others see.
int build_attention_tiles(const int32_t* positions, const int32_t* sequences, int rows,
                          const AttentionSpec& spec, AttentionCode code, AttentionTile* tiles,
                          bool by_page = false);
int attention_tiles_bound(int rows, int sequences, const AttentionSpec& spec, AttentionCode code);

// What launch_attention_prefill() uses on sm_90a for the head dimensions that it takes.
bool attention_has_wgmma();
inline bool wgmma_takes(const AttentionSpec& s) { return s.head_dim == 64 || s.head_dim == 128; }
inline constexpr int kWgmmaQueries = 128;  // of a tile, counting each query head
void launch_attention_wgmma(const AttentionLaunch& launch, Stream stream);

// Each row and head by one block, by plain arithmetic: after launch_rope_append, for any type and
// GPU.
void launch_attention_plain(const AttentionLaunch& launch, Stream stream);

// Throws where no kernel fits: an error that names type and shape.
void check_attention(DType type, const AttentionSpec& spec, int rope_pairs);
inline void check_attention(const AttentionLaunch& a) {
  check_attention(a.type, a.spec, a.rope_pairs);
}

}  // namespace skald::cuda
