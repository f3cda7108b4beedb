// The table of kernels that a step plan chooses from: one row per kernel. A row says which shapes
// the kernel takes, what the kernel does besides its product, and which GPUs have its code. The
// launcher is in the kernel's own file, under the row's name (cuda/kernels/kernel_id.h).
#pragma once

#include <limits>
#include <optional>
#include <string_view>

#include "cuda/gpu/kernel_code.h"
#include "cuda/kernels/attention/attention.h"
#include "cuda/kernels/experts/experts.h"
#include "cuda/kernels/linear.h"
#include "cuda/kernels/states/space.h"
#include "cuda/kernels/states/states.h"

namespace skald::cuda {

// The GPU that kernels are chosen for.
struct Gpu {
  int compute_capability = 0;
  int multiprocessors = 0;
  bool mps = false;  // DeviceInfo's
};

// True if a kernel can start before its predecessor has finished (dependent launches).
inline bool has_dependent_launches(const Gpu& gpu) {
  return runs_on(KernelCode::Sm90a, gpu.compute_capability);
}

// For up to this many rows, reading the weights once per one or two rows is faster than a GEMM.
inline constexpr int kFewRows = 4;
inline constexpr int kAnyRows = std::numeric_limits<int>::max();

struct ProductKernel {
  std::string_view name;
  KernelCode code;
  bool (*supports)(const LinearShape&);
  int fewest_rows = 1, most_rows = kAnyRows;
  int most_rows_beside_copy = kAnyRows;  // most_rows if the matrix has a 16-bit copy
  // What the kernel does itself. Small kernels before and after it do the rest.
  bool norm = false, gate = false;
  bool bias = false;  // adds the bias, and activates if LinearShape::activates
  // A row's result does not depend on the number of rows.
  bool any_rows = false;
  bool uses_copy = false;       // multiplies the 16-bit copy of a quantized matrix
  bool rounds_weights = false;  // rounds weights to f16, two or three times each
  // Non-null: one launch can multiply two pieces of these shapes.
  bool (*supports_pair)(const LinearShape&, const LinearShape&) = nullptr;
  bool has_partners = false;  // has pair kernels that take one piece (ProductCall::partner)
  bool signals = false;       // has late start, signal and wait (GemvQPart)
  bool prepares = false;      // has the edges of GemmQPart: prepared, carried, shared, beside

  constexpr KernelId id() const { return kernel_id(name.data()); }
};

inline bool any_product(const LinearShape&) { return true; }

// select_product() takes the first row that supports a product.
inline constexpr ProductKernel kProductKernels[] = {
    {.name = "gemv_sm90",
     .code = KernelCode::Sm90a,
     .supports = supports_gemv_sm90,
     .norm = true,
     .gate = true,
     .bias = true},
    {.name = "gemv_q_sm90",
     .code = KernelCode::Sm90a,
     .supports = supports_gemv_q_sm90,
     .norm = true,
     .gate = true,
     .bias = true,
     .supports_pair = supports_gemv_q_pair_sm90,
     .has_partners = true,
     .signals = true},
    {.name = "gemm_q_sm90",
     .code = KernelCode::Sm90a,
     .supports = supports_gemm_q_sm90,
     .most_rows = kGemmQMostRows,
     .most_rows_beside_copy = 64,
     .norm = true,
     .gate = true,
     .bias = true,
     .rounds_weights = true,
     .supports_pair = supports_gemm_q_pair_sm90,
     .prepares = true},
    {.name = "expand_q + gemm_cublas",
     .code = KernelCode::Any,
     .supports = supports_gemm_expanded,
     .fewest_rows = kFewRows + 1,
     .any_rows = true,
     .uses_copy = true},
    {.name = "gemm_cublas",
     .code = KernelCode::Any,
     .supports = supports_gemm_cublas,
     .fewest_rows = kFewRows + 1,
     .any_rows = true},
    {.name = "gemv_plain",
     .code = KernelCode::Any,
     .supports = any_product,
     .gate = true,
     .bias = true,
     .any_rows = true},
};

struct ProductNeed {
  bool copy = false;    // the matrix has a 16-bit copy
  bool pinned = false;  // one kernel whatever the number of rows (kPinnedRows)
};
const ProductKernel& select_product(const LinearShape& shape, const ProductNeed& need,
                                    const Gpu& gpu);

// An attention kernel. `least`: the lowest AttentionCode, which follows from the KV cache's type
// and the GPU, that has the kernel.
struct AttentionKernel {
  std::string_view name;
  AttentionCode least;
  bool decode;  // decode steps alone; norms, rotates and appends itself
  bool (*supports)(const AttentionSpec&);
  bool (*prepares)(const AttentionSpec&) = nullptr;  // can write prepared rows instead of `out`
  bool any_step = false;                             // decode too, after launch_rope_append()
  // Reads and appends to a cache of codes of such types, instead of a plain one. Null: never.
  bool (*reads_codes)(const CacheTypes&) = nullptr;

  constexpr KernelId id() const { return kernel_id(name.data()); }
};

inline bool any_attention(const AttentionSpec&) { return true; }

// select_attention() takes the first row that is for the step, decode or a prompt, and supports the
// shape.
inline constexpr AttentionKernel kAttentionKernels[] = {
    {.name = "attention_decode_codes_sm90",
     .least = AttentionCode::Wgmma,
     .decode = true,
     .supports = codes_takes,
     .prepares = attention_prepares_rows,
     .reads_codes = codes_takes},
    {.name = "attention_decode",
     .least = AttentionCode::Mma,
     .decode = true,
     .supports = mma_takes,
     .prepares = attention_prepares_rows},
    {.name = "attention_prefill_sm90",
     .least = AttentionCode::Wgmma,
     .decode = false,
     .supports = wgmma_takes},
    {.name = "attention_prefill",
     .least = AttentionCode::Mma,
     .decode = false,
     .supports = mma_takes},
    {.name = "attention_wide",
     .least = AttentionCode::Mma,
     .decode = false,
     .supports = wide_takes,
     .any_step = true},
    {.name = "attention_plain",
     .least = AttentionCode::Plain,
     .decode = false,
     .supports = any_attention,
     .any_step = true},
};
// coded: the types of a cache of codes, if the KV cache is one.
const AttentionKernel& select_attention(AttentionCode code, const AttentionSpec& spec, bool decode,
                                        const std::optional<CacheTypes>& coded = {});

struct ExpertsKernel {
  std::string_view name;
  KernelCode code;
  bool (*supports)(const ExpertsShape&, const RoutingShape&);
  // A step suits the kernel if it has at most so many rows, or experts have at most so many places
  // on average. most_places_sm90a, if not 0, is the bound where experts_many_sm90 could take more:
  // that kernel is faster from there on. All 0: no bound.
  int most_rows = 0, most_places = 0, most_places_sm90a = 0;
  bool any_rows = false;  // a row's result does not depend on the number of rows
  bool placed = false;    // reads rows in the order of places (placed_rows.h)
  bool in_place = false;  // also reads experts on the host, and those in the slots of a cache
  // Lets the next kernel start after its own wait, when the choice of experts is complete.
  bool after_choice = false;
  bool signals = false;  // has signal and wait (ExpertsLaunch)
  // True if the product of gate and up can route the row itself. Null: the kernel never does.
  bool (*routes)(const ExpertsShape& gate, const RoutingShape&, int multiprocessors) = nullptr;

  constexpr KernelId id() const { return kernel_id(name.data()); }
};

// With fewer rows than this of a sequence on average, a kernel of chunks has no use.
inline constexpr int kFewestChunkRows = 8;

// A kernel of layers with a recurrent state. select_state() takes the first row that supports the
// layer.
template <class Shape>
struct StateKernel {
  std::string_view name;
  KernelCode code;
  bool (*supports)(const Shape&);
  bool decode = false;  // decode steps alone; convolves itself
  bool chunks = false;  // a result depends on how a prompt is divided; long prompts alone

  constexpr KernelId id() const { return kernel_id(name.data()); }
};
using DeltaKernel = StateKernel<DeltaShape>;
using SpaceKernel = StateKernel<SpaceShape>;

inline constexpr DeltaKernel kDeltaKernels[] = {
    {.name = "delta_decode", .code = KernelCode::Any, .supports = supports_delta, .decode = true},
    {.name = "delta_chunks",
     .code = KernelCode::Sm80,
     .supports = supports_delta_chunks,
     .chunks = true},
    {.name = "delta_rows", .code = KernelCode::Any, .supports = supports_delta},
    {.name = "delta_plain", .code = KernelCode::Any, .supports = any_delta},
};

inline constexpr SpaceKernel kSpaceKernels[] = {
    {.name = "space_decode", .code = KernelCode::Any, .supports = supports_space, .decode = true},
    {.name = "space_chunks",
     .code = KernelCode::Sm80,
     .supports = supports_space_chunks,
     .chunks = true},
    {.name = "space_rows", .code = KernelCode::Any, .supports = supports_space},
    {.name = "space_plain", .code = KernelCode::Any, .supports = any_space},
};

struct StateNeed {
  bool decode = false;
  bool few_each = false;      // fewer than kFewestChunkRows rows of a sequence on average
  bool reproducible = false;  // a row's result does not depend on how a prompt is divided
};
const DeltaKernel& select_state(const DeltaShape& shape, const StateNeed& need, const Gpu& gpu);
const SpaceKernel& select_state(const SpaceShape& shape, const StateNeed& need, const Gpu& gpu);

// select_experts() takes the first row that supports the experts.
inline constexpr ExpertsKernel kExpertsKernels[] = {
    {.name = "gemv_q_experts_sm90",
     .code = KernelCode::Sm90a,
     .supports = supports_gemv_q_experts_sm90,
     .most_rows = 1,
     .after_choice = true,
     .signals = true,
     .routes = gemv_q_experts_routes},
    {.name = "experts_row",
     .code = KernelCode::Sm80,
     .supports = supports_experts_row,
     .most_rows = 1,
     .in_place = true,
     .after_choice = true},
    // Tiles of 8 places: the weights of most experts are read once.
    {.name = "experts_few",
     .code = KernelCode::Sm80,
     .supports = supports_experts_few,
     .most_rows = 16,
     .most_places = 8,
     .most_places_sm90a = 4,
     .in_place = true,
     .after_choice = true},
    // Tiles of up to 160 places.
    {.name = "experts_many_sm90",
     .code = KernelCode::Sm90a,
     .supports = supports_experts_many_sm90,
     .any_rows = true,
     .placed = true},
    {.name = "experts_many",
     .code = KernelCode::Sm80,
     .supports = supports_experts_many,
     .any_rows = true},
    {.name = "experts_plain",
     .code = KernelCode::Any,
     .supports = supports_experts_plain,
     .any_rows = true},
};
struct ExpertsNeed {
  bool reproducible = false;
  bool in_place = false;  // experts lie on the host, or in the slots of a cache
};
const ExpertsKernel& select_experts(const ExpertsShape& shape, const RoutingShape& routing,
                                    const Gpu& gpu, const ExpertsNeed& need);
// The same, or nullptr if no kernel supports the experts: with ExpertsShape::sums.
const ExpertsKernel* find_experts(const ExpertsShape& shape, const RoutingShape& routing,
                                  const Gpu& gpu, const ExpertsNeed& need);

}  // namespace skald::cuda
