// The table of kernels that a step plan chooses from: one row a kernel. A row says what the kernel
// takes, what it does besides its product, and which GPUs have its code. The launcher stands in the
// kernel's own file, under the row's name (cuda/kernels/kernel_id.h).
#pragma once

#include <limits>
#include <string_view>

#include "cuda/gpu/kernel_code.h"
#include "cuda/kernels/attention/attention.h"
#include "cuda/kernels/experts/experts.h"
#include "cuda/kernels/linear.h"

namespace skald::cuda {

// The GPU that kernels are chosen for.
struct Gpu {
  int compute_capability = 0;
  int multiprocessors = 0;
};

// Whether kernels can start before the kernel ahead has finished.
inline bool has_dependent_launches(const Gpu& gpu) {
  return runs_on(KernelCode::Sm90a, gpu.compute_capability);
}

// Rows up to which reading the weights once for a row or two beats setting up a matrix product.
inline constexpr int kFewRows = 4;
inline constexpr int kAnyRows = std::numeric_limits<int>::max();

struct ProductKernel {
  std::string_view name;
  KernelCode code;
  bool (*supports)(const LinearShape&);
  int fewest_rows = 1, most_rows = kAnyRows;
  int most_rows_beside_copy = kAnyRows;  // where the matrix has a 16-bit copy
  // What the kernel does itself; else a small kernel before or after it does.
  bool norm = false, gate = false, bias = false;
  // A row's result does not depend on the number of rows.
  bool any_rows = false;
  bool uses_copy = false;       // multiplies the 16-bit copy of a quantized matrix
  bool rounds_weights = false;  // to f16, two or three times
  // Two pieces of one product as one launch.
  bool (*supports_pair)(const LinearShape&, const LinearShape&) = nullptr;
  bool has_partners = false;  // one piece may take the kernel of a pair (launch_product's partner)
  bool signals = false;       // GemvQPart: late start, signal and wait
  bool prepares = false;      // GemmQPart: prepared and carried rows, pieces, beside attention

  constexpr KernelId id() const { return kernel_id(name); }
};

inline bool any_product(const LinearShape&) { return true; }

// The first row that takes a product is chosen.
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
  bool pinned = false;  // one kernel for all numbers of rows (kPinnedRows)
};
const ProductKernel& select_product(const LinearShape& shape, const ProductNeed& need,
                                    const Gpu& gpu);

// By the code that the cache's type and the GPU allow. Rows of a prompt, or one row a sequence.
struct AttentionKernel {
  std::string_view name;
  AttentionCode least;
  bool decode;  // takes one row of each sequence alone, and norms, rotates and appends itself
  bool (*supports)(const AttentionSpec&);
  bool (*prepares)(const AttentionSpec&) = nullptr;  // can write prepared rows in place of out

  constexpr KernelId id() const { return kernel_id(name); }
};

inline bool any_attention(const AttentionSpec&) { return true; }

inline constexpr AttentionKernel kAttentionKernels[] = {
    {.name = "attention_decode",
     .least = AttentionCode::Mma,
     .decode = true,
     .supports = any_attention,
     .prepares = attention_prepares_rows},
    {.name = "attention_prefill_sm90",
     .least = AttentionCode::Wgmma,
     .decode = false,
     .supports = wgmma_takes},
    {.name = "attention_prefill",
     .least = AttentionCode::Mma,
     .decode = false,
     .supports = any_attention},
    {.name = "attention_plain",
     .least = AttentionCode::Plain,
     .decode = false,
     .supports = any_attention},
};
const AttentionKernel& select_attention(AttentionCode code, const AttentionSpec& spec, bool decode);

struct ExpertsKernel {
  std::string_view name;
  KernelCode code;
  bool (*supports)(const ExpertsShape&, const RoutingShape&);
  // Up to so many rows, or places of an expert on average; from so many places on for weights of a
  // block format. 0: any number.
  int most_rows = 0, most_places = 0, fewest_block_places = 0;
  bool any_rows = false;  // a row's result does not depend on the number of rows

  constexpr KernelId id() const { return kernel_id(name); }
};

inline bool any_experts(const ExpertsShape&, const RoutingShape&) { return true; }

// The first row that takes the experts is chosen. The kernel experts_one is no row: it stands for
// experts_few and the sum after it (one_kernel_sums()).
inline constexpr ExpertsKernel kExpertsKernels[] = {
    // Tiles of 8 places read most experts' weights once.
    {.name = "experts_few",
     .code = KernelCode::Sm80,
     .supports = supports_experts_few,
     .most_rows = 16,
     .most_places = 4},
    // Tiles of 128 places: worth it for many places where weights become bf16 on the way.
    {.name = "experts_many_sm90",
     .code = KernelCode::Sm90a,
     .supports = supports_experts_many,
     .fewest_block_places = 64,
     .any_rows = true},
    {.name = "experts_many",
     .code = KernelCode::Sm80,
     .supports = supports_experts_many,
     .any_rows = true},
    {.name = "experts_plain", .code = KernelCode::Any, .supports = any_experts, .any_rows = true},
};
const ExpertsKernel& select_experts(const ExpertsShape& shape, const RoutingShape& routing,
                                    const Gpu& gpu, bool reproducible);
// Whether one kernel multiplies the down matrices and sums the experts.
bool one_kernel_sums(const ExpertsShape& down, const RoutingShape& routing,
                     const ExpertsKernel& kernel);

}  // namespace skald::cuda
