// Products with a weight matrix. gemv_sm90 and gemv_q_sm90 read weights at the memory's speed for a
// few rows, gemm_q_sm90 is for more rows, gemm_cublas for many; gemv_plain runs everything else and
// is the reference. cuda/plan/kernel_table.h says which one a product gets.
//
// Launchers check the launch, never allocate and never synchronize. All pointers are device
// pointers. What changes from step to step is read from device memory, so that a captured graph of
// launches stays valid.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "cuda/gpu/stream.h"
#include "cuda/kernels/epilogue.h"
#include "cuda/kernels/kernel_id.h"
#include "cuda/kernels/prepared_rows.h"
#include "engine/program/specs.h"
#include "engine/quant/dtype.h"

namespace skald::cuda {

// Rows by which a kernel, and cuBLAS's algorithm, are chosen where results must not depend on the
// number of rows (CublasPart::pinned).
inline constexpr int kPinnedRows = 128;

// How many clusters of 1 to kMostCluster blocks run at a time where a block takes a whole
// multiprocessor. A cluster lies in one group of multiprocessors, and the sizes of these groups
// differ from GPU to GPU.
inline constexpr int kMostCluster = 8;
struct ClusterRoom {
  int of[kMostCluster + 1] = {};
};
ClusterRoom cluster_room();  // on the current device; takes some microseconds

// What a kernel is chosen by: a product without its pointers.
struct LinearShape {
  DType type;    // of in and out: F16, BF16 or F32
  DType format;  // of the weight: the same, or a block format
  int64_t outs, ins;
  int rows;
  float norm_eps = 0;
  int64_t out_stride;  // numbers from one row of out to the next
  Epilogue epilogue;
  float scale = 1;  // AddTo: of what is added
  Activation activation = Activation::Silu;
  bool dependent = false;  // starts before the kernel ahead has finished, and waits for it inside
};

// gemv_sm90 and gemv_q_sm90.
struct GemvPart {
  unsigned* ticket = nullptr;  // an integer of this launch's own, zero before and after
  // gemv_sm90 of one row: blocks so small that those of the next kernel are beside them. For chains
  // of kernels that are all like that; better where a kernel takes a few microseconds.
  bool paired = false;
};

// gemv_q_sm90.
struct GemvQPart {
  // The next kernel starts when a warp of each block has its share of the first activations, not
  // before.
  bool late_start = false;
  // Two launches in a row may share an integer, zero before and after: the signal of the first, the
  // wait of the second. Each block of the first adds one when it has asked for all of its weights.
  // Until most blocks have, the second leaves most of its ring empty, so that it takes no memory
  // bandwidth from the first, whose results are needed earlier.
  unsigned *signal = nullptr, *wait = nullptr;
};

// gemm_q_sm90.
struct GemmQPart {
  void* workspace = nullptr;  // gemm_q_workspace_bytes(), 128-byte aligned; shared by a stream
  // Pieces of one product follow one another and multiply the same activations. The first prepares
  // them in the workspace; the others run beside it.
  bool first_piece = false, next_piece = false;
  double share = 1;                   // of the multiprocessors, beside the other pieces
  const ClusterRoom* room = nullptr;  // null: asked of the device
  // Carried rows: gemm_q_carried_bytes() that stay from one product to the next on one residual
  // stream. A product with a norm stores the factors of its norm there. A later AddTo, of outs that
  // are a multiple of 256, can store its results there, times the weights of the next product's
  // norm; the next product then takes its activations from there.
  void* carried = nullptr;
  const float* next_norm_weight = nullptr;
  DType next_format = DType::F32;
  bool takes_carried = false;
  // The kernel ahead has written prepared rows into the workspace; `in` is not read.
  bool takes_prepared = false;
  // Gated with takes_carried, of outs that are a multiple of 512: where results go in place of out.
  PreparedRows prepares;
  // The kernel ahead or behind is attention_decode, and a block of it is to have room beside each
  // block of this one.
  bool beside_attention = false;
};

// gemm_cublas.
struct CublasPart {
  const void* copy = nullptr;  // [outs, ins] of `type`: the matrix of a block format, where kept
  void* expanded = nullptr;    // else memory for so many of its rows in `type`
  int64_t expanded_rows = 0;   // a multiple of 16
  // cuBLAS's algorithm is that of kPinnedRows rows, and no sum is split, so that a row's result
  // does not depend on the number of rows.
  bool pinned = false;
};

struct LinearLaunch : LinearShape {
  const void* weight;  // [outs, ins]; Gated: rows alternate gate, up; a block format: tiles/
  const void* in;      // [rows, ins]; with norm_weight: float [rows, ins], normalized first
  const float* norm_weight = nullptr;  // [ins]
  const float* bias = nullptr;         // [outs]
  // Store: [rows, outs]; AddTo, Floats and Logits: float [rows, outs]; Gated: [rows, outs / 2]. May
  // be columns of a wider matrix.
  void* out;
  GemvPart gemv;
  GemvQPart gemv_q;
  GemmQPart gemm_q;
  CublasPart cublas;
};

class GemmCublas;

// A product as the kernel of a row of the table takes it (kernel_id.h).
struct ProductCall {
  std::span<const LinearLaunch> pieces;  // one; two for kernels that take a pair
  std::optional<DType> partner;          // one piece: by the kernel that this pair of formats has
  int multiprocessors;
  GemmCublas& cublas;
  Stream stream;
};
template <KernelId>
void launch_product(const ProductCall& call);

// The supports_* functions look at the shape alone, and need no GPU. Whether a GPU has the kernel's
// code is a matter of the kernel's row in the table (cuda/plan/kernel_table.h).

// Up to 16 rows, as far as all activations fit beside the ring.
bool supports_gemv_sm90(const LinearShape& shape);
void launch_gemv_sm90(const LinearLaunch& launch, int multiprocessors, Stream stream);

// Block formats and one row.
bool supports_gemv_q_sm90(const LinearShape& shape);
void launch_gemv_q_sm90(const LinearLaunch& launch, int multiprocessors, Stream stream);
// Two of these as one kernel: the same activations by matrices of unlike formats, for the pairs of
// formats that models mix. Each launch has a ticket of its own.
bool has_gemv_q_pair_sm90(DType a, DType b);
bool supports_gemv_q_pair_sm90(const LinearShape& a, const LinearShape& b);
void launch_gemv_q_pair_sm90(const LinearLaunch& a, const LinearLaunch& b, int multiprocessors,
                             Stream stream);
// One product by the kernel that its format's pair with `other` has: a model that mixes the two
// formats has less code then, and the first use of code is slow.
void launch_gemv_q_of_pair_sm90(const LinearLaunch& launch, DType other, int multiprocessors,
                                Stream stream);

// Block formats and up to 256 rows. Two kernels: the first prepares activations in the workspace,
// unless the launch takes carried or prepared rows.
bool supports_gemm_q_sm90(const LinearShape& shape);
void launch_gemm_q_sm90(const LinearLaunch& launch, int multiprocessors, Stream stream);
// Two of these as one launch, both with Store: for the pairs of formats that models mix, and up to
// 64 rows.
bool supports_gemm_q_pair_sm90(const LinearShape& a, const LinearShape& b);
void launch_gemm_q_pair_sm90(const LinearLaunch& a, const LinearLaunch& b, int multiprocessors,
                             Stream stream);
// Whether launches may be pieces of one product.
bool gemm_q_shares_activations(DType format, DType other);
// Whether the kernel ahead of this product can write prepared rows for it, none above `bound`; and
// what that kernel needs for it.
bool gemm_q_takes_prepared(const LinearShape& shape, float bound);
PreparedRows gemm_q_prepared_rows(const LinearShape& shape, float bound, void* workspace);

// Any type, any format, any size, any GPU; without norm.
void launch_gemv_plain(const LinearLaunch& launch, Stream stream);
void launch_gemv_q_plain(const LinearLaunch& launch, Stream stream);  // its part for block formats

// More than a few rows by cuBLASLt (gemm/gemm_cublas.h has the launcher): without norm, bias or
// gating. Expanded: of a block format, whose matrix becomes 16-bit rows first, or has a copy.
bool supports_gemm_cublas(const LinearShape& shape);
bool supports_gemm_expanded(const LinearShape& shape);

}  // namespace skald::cuda
