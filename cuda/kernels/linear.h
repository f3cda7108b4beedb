// Products with a weight matrix. gemv_sm90 and gemv_q_sm90 multiply few rows at the speed of
// memory, gemm_q_sm90 more rows, gemm_cublas many. gemv_plain runs everything else and is the
// reference. cuda/plan/kernel_table.h has the rules for choosing one.
//
// Launchers check the launch, never allocate and never synchronize. All pointers are device
// pointers. Numbers that change from step to step are read from device memory, so that a captured
// graph of launches stays valid.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "cuda/gpu/stream.h"
#include "cuda/kernels/epilogue.h"
#include "cuda/kernels/kernel_id.h"
#include "cuda/kernels/prepared_rows.h"
#include "engine/program/specs.h"
#include "engine/quant/dtype_enum.h"

namespace skald::cuda {

// With CublasPart::pinned, the kernel and cuBLAS's algorithm are chosen for this number of rows, so
// that results do not depend on the number of rows.
inline constexpr int kPinnedRows = 128;

// How many clusters of 1 to kMostCluster blocks run at a time if each block takes a whole
// multiprocessor. A cluster lies in one group of multiprocessors, and the sizes of these groups
// differ from GPU to GPU.
inline constexpr int kMostCluster = 8;
struct ClusterRoom {
  int of[kMostCluster + 1] = {};
};
ClusterRoom cluster_room();  // on the current device; takes some microseconds

// A matrix that is put together from those of one row's chosen experts, for gemv_q_experts_sm90.
// Below one another, they multiply the same activations: outs is the experts' weight rows in all.
// Beside one another, each multiplies activations of its own, times the expert's weight, and the
// results are the sums of all experts: ins is the experts' columns in all.
struct ChosenShape {
  int used = 0;  // 0: the matrix is an ordinary one
  bool beside = false;
};
inline constexpr int kMostChosen = 32;  // experts of a row: one for each lane of a warp

// A product without its pointers: a kernel is chosen by it.
struct LinearShape {
  DType type;    // type of in and out: F16, BF16 or F32
  DType format;  // the weight's format: `type`, or a block format
  int64_t outs, ins;
  int rows;
  float norm_eps = 0;
  int64_t out_stride;  // numbers from one row of out to the next
  Epilogue epilogue;
  float scale = 1;  // AddTo: factor of the product
  Activation activation = Activation::Silu;
  bool activates = false;  // Store: stores activation(product + bias)
  bool dependent = false;  // starts before the kernel ahead ends and waits for it inside
  ChosenShape experts;
};

// Fields for gemv_sm90 and gemv_q_sm90.
struct GemvPart {
  unsigned* ticket = nullptr;  // this launch's own integer, zero before and after
  // gemv_sm90 with one row: blocks are so small that blocks of the next kernel fit beside them. For
  // chains of such kernels; faster if a kernel takes only a few microseconds.
  bool paired = false;
};

// Fields for gemv_q_sm90.
struct GemvQPart {
  // The next kernel starts only after a warp of each block has its share of the first activations.
  bool next_starts_late = false;
  // Two consecutive launches may share an integer, zero before and after: `signal` of the first is
  // `wait` of the second. Each block of the first adds one when it has issued the loads of all its
  // weights. Until most blocks have done so, the second keeps most of its ring empty: the first
  // needs the memory bandwidth sooner.
  unsigned *signal = nullptr, *wait = nullptr;
};

// Fields for ChosenShape. `weight` is the first expert's matrix, and bias has [experts, outs].
struct ChosenPart {
  const int32_t* chosen = nullptr;  // [used], the experts' numbers
  const float* weights = nullptr;   // [used]; beside one another
  int64_t stride = 0;               // bytes from one expert's matrix to the next one's
  // The choice was complete before the kernel ahead started, or the kernel ahead has let this one
  // start after the choice was complete.
  bool early = false;
  // The matrix of the last of `used` experts, which every row has; or nullptr. `chosen` does not
  // name it, and it has no bias.
  const void* shared = nullptr;
};

// For experts below one another: the product itself routes the row. Its blocks compute logits from
// the normed row, send them to one another, and each chooses the experts. So all blocks must run at
// the same time. There are no more than multiprocessors, and each takes at most half of one: so at
// most two such products may run on a GPU at the same time, those of a model and of its draft
// model, and none of other programs (MPS).
struct RouterPart {
  const float* weight = nullptr;  // [count, ins]; nullptr: the choice is complete
  const float *bias = nullptr, *choice_bias = nullptr;  // as RouteLaunch
  ExpertsSpec spec;
  // [kRouterLogits], each kNotSent before the product. A later product of experts beside one
  // another, which also has this address but no `weight`, sets them to kNotSent again.
  uint32_t* logits = nullptr;
  int32_t* chosen = nullptr;  // [used], written for later launches, in the order of their numbers
  // [used], written. With ChosenPart::shared one more: the sigmoid of shared_gate · the normed row;
  // without a gate, 1.
  float* weights = nullptr;
  const float* shared_gate = nullptr;  // [ins] or nullptr
};
inline constexpr int kMostRouted = 512;  // experts
// The weight of an expert that every row has lies behind the logits.
inline constexpr int kSharedLogit = kMostRouted, kRouterLogits = kMostRouted + 4;
inline constexpr uint32_t kNotSent = ~0u;     // the bits of no logit
inline constexpr int kMostRoutedByBlock = 4;  // logits of a block

// Fields for gemm_q_sm90.
struct GemmQPart {
  void* workspace = nullptr;  // gemm_q_workspace_bytes(), 128-byte aligned; shared by a stream
  // Pieces of one product follow one another and multiply the same activations. The first piece
  // prepares the activations in the workspace; the others run beside it.
  bool first_piece = false, next_piece = false;
  double share = 1;                   // share of the multiprocessors that this piece gets
  const ClusterRoom* room = nullptr;  // null: the launcher asks the device
  // Carried rows: gemm_q_carried_bytes() that persist between products on one residual stream. A
  // product with a norm stores its norm's factors there. A later AddTo, whose outs are a multiple
  // of 256, can store its results times the next product's norm weights there. The next product
  // then takes its activations from there.
  void* carried = nullptr;
  const float* next_norm_weight = nullptr;
  DType next_format = DType::F32;
  bool takes_carried = false;
  // The kernel ahead has written prepared rows into the workspace; `in` is not read.
  bool takes_prepared = false;
  // Gated with takes_carried, outs a multiple of 512: results go here instead of to `out`.
  PreparedRows prepares;
  // attention_decode runs before or after this kernel: one of its blocks must fit beside each block
  // of this kernel.
  bool beside_attention = false;
};

// Fields for gemm_cublas.
struct CublasPart {
  const void* copy = nullptr;  // [outs, ins] in `type`: copy of a block format's matrix
  void* expanded = nullptr;    // without a copy: memory for expanded_rows rows in `type`
  int64_t expanded_rows = 0;   // a multiple of 16
  // cuBLAS uses the algorithm for kPinnedRows rows and splits no sum. So a row's result does not
  // depend on the number of rows.
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
  ChosenPart chosen;
  RouterPart router;
  GemmQPart gemm_q;
  CublasPart cublas;
};

class GemmCublas;

// A product as a kernel's launcher takes it (kernel_id.h).
struct ProductCall {
  std::span<const LinearLaunch> pieces;  // one, or two for kernels that take a pair
  std::optional<DType> partner;          // one piece: use the kernel of this pair of formats
  int multiprocessors;
  GemmCublas& cublas;
  Stream stream;
};
template <KernelId>
void launch_product(const ProductCall& call);

// supports_*() look at the shape alone and need no GPU. The row in cuda/plan/kernel_table.h says
// which GPUs have the kernel's code.

// True for up to 16 rows, if all activations fit beside the ring in shared memory.
bool supports_gemv_sm90(const LinearShape& shape);
void launch_gemv_sm90(const LinearLaunch& launch, int multiprocessors, Stream stream);

// True for block formats and one row.
bool supports_gemv_q_sm90(const LinearShape& shape);
bool takes_half_multiprocessor(const LinearShape& shape);  // of gemv_q_sm90's blocks
void launch_gemv_q_sm90(const LinearLaunch& launch, int multiprocessors, Stream stream);
// The same for chosen experts (ChosenShape).
void launch_gemv_q_experts_sm90(const LinearLaunch& launch, int multiprocessors, Stream stream);
// Two launches as one kernel: matrices of different formats multiply the same activations. For the
// pairs of formats that models mix. Each launch has its own ticket.
bool has_gemv_q_pair_sm90(DType a, DType b);
bool supports_gemv_q_pair_sm90(const LinearShape& a, const LinearShape& b);
void launch_gemv_q_pair_sm90(const LinearLaunch& a, const LinearLaunch& b, int multiprocessors,
                             Stream stream);
// One launch by the kernel of the pair of formats (its own, `other`). A model that mixes the two
// formats then loads less code, and first use of code is slow.
void launch_gemv_q_of_pair_sm90(const LinearLaunch& launch, DType other, int multiprocessors,
                                Stream stream);

// True for block formats and up to 256 rows. The launch has two kernels: the first prepares
// activations in the workspace, unless the launch takes carried or prepared rows.
bool supports_gemm_q_sm90(const LinearShape& shape);
void launch_gemm_q_sm90(const LinearLaunch& launch, int multiprocessors, Stream stream);
// Two launches as one kernel, both with Store: for the pairs of formats that models mix, and up to
// 64 rows.
bool supports_gemm_q_pair_sm90(const LinearShape& a, const LinearShape& b);
void launch_gemm_q_pair_sm90(const LinearLaunch& a, const LinearLaunch& b, int multiprocessors,
                             Stream stream);
// True if matrices of the two formats may be pieces of one product.
bool gemm_q_shares_activations(DType format, DType other);
// True if the kernel before this product can prepare its rows; no number exceeds `bound`.
// gemm_q_prepared_rows() says how that kernel writes them.
bool gemm_q_takes_prepared(const LinearShape& shape, float bound);
PreparedRows gemm_q_prepared_rows(const LinearShape& shape, float bound, void* workspace);

// Any type, any format, any size, any GPU; without norm.
void launch_gemv_plain(const LinearLaunch& launch, Stream stream);
void launch_gemv_q_plain(const LinearLaunch& launch, Stream stream);  // gemv_plain of block formats

// cuBLASLt, for more than a few rows (launcher: gemm/gemm_cublas.h); without norm, bias or gating.
// Expanded: a matrix of a block format, which has a 16-bit copy or is expanded to 16-bit rows.
bool supports_gemm_cublas(const LinearShape& shape);
bool supports_gemm_expanded(const LinearShape& shape);

}  // namespace skald::cuda
