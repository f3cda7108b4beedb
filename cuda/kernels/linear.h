// Products with a weight matrix: gemv_sm90 and gemv_q_sm90 read weights at the memory's speed for a
// few rows, gemm_q_sm90 is for more, gemm_cublas for many; gemv_plain runs everything else and is
// the reference. cuda/plan/select.h says which one a case gets.
#pragma once

#include <cublasLt.h>

#include <memory>

#include "cuda/kernels/epilogue.h"
#include "cuda/kernels/gemm_q/gemm_q_workspace.h"
#include "cuda/kernels/launch.h"

namespace skald::cuda {

inline constexpr int kPinnedRows = 128;

// How many clusters of 1 to kMostCluster blocks run at a time where a block takes a whole
// multiprocessor. These lie in groups that differ from GPU to GPU, and a cluster in one of them.
inline constexpr int kMostCluster = 8;
struct ClusterRoom {
  int of[kMostCluster + 1] = {};
};
ClusterRoom cluster_room();  // on the current device; takes some microseconds

struct LinearLaunch {
  DType type;          // of in and out: F16, BF16 or F32
  DType format;        // of weight: the same, or a block format
  const void* weight;  // [outs, ins]; Gated: rows alternate gate, up; a block format: tiles/
  int64_t outs, ins;
  int rows;
  const void* in;  // [rows, ins]; with norm_weight: float [rows, ins], normalized first
  const float* norm_weight = nullptr;  // [ins]
  float norm_eps = 0;
  const float* bias = nullptr;  // [outs]
  // Store: [rows, outs]; AddTo, Floats and Logits: float [rows, outs]; Gated: [rows, outs / 2]. May
  // be columns of a wider matrix.
  void* out;
  int64_t out_stride;  // numbers from one row of out to the next
  Epilogue epilogue;
  float scale = 1;  // AddTo: of what is added
  Activation activation = Activation::Silu;
  // gemv_sm90, gemv_q_sm90: an integer of this launch's own, zero before and after.
  unsigned* ticket = nullptr;
  const void* copy = nullptr;  // [outs, ins] of `type`, of a block format: where there is one
  void* workspace = nullptr;   // gemm_q_sm90: gemm_q_workspace.h says how much; 128-byte aligned
  // gemm_q_sm90: launches that follow one another multiply the same activations by other weights.
  // The first leaves these in the workspace for the others, which run beside it.
  bool first_piece = false, next_piece = false;
  double share = 1;                   // of the multiprocessors, beside the others
  const ClusterRoom* room = nullptr;  // gemm_q_sm90: asked for, where it is not given
  // gemm_q_sm90, for products one after the other with one residual stream: memory that stays from
  // one to the next (gemm_q_workspace.h has its size), where a product with a norm leaves what the
  // rows were multiplied with. AddTo after it, of outs that are a multiple of 256, can leave its
  // results times the weights of the next product's norm there, and that one takes them.
  void* handed = nullptr;
  const float* next_norm_weight = nullptr;
  DType next_format = DType::F32;
  bool takes_handed = false;
  // gemm_q_sm90: what the kernel ahead has left in the workspace is multiplied, and `in` is not
  // read. Gated, of outs that are a multiple of 512, with takes_handed: where results go in place
  // of out.
  bool takes_left = false;
  LeftRows leaves;
  // The kernel, and cuBLAS's algorithm, are those of kPinnedRows rows, whatever the number of rows,
  // and no sum is split: so a row's result does not depend on how many stand beside it.
  bool pinned = false;
  bool dependent = false;  // starts before the kernel ahead has finished, and waits for it inside
  // gemv_q_sm90: the kernel behind it starts when a warp of each block has brought its share of the
  // first activations, not before.
  bool starts_next_late = false;
  // gemm_q_sm90: the kernel ahead or behind is attention's, of whose decode kernel a block is to
  // have room beside each of this one's.
  bool beside_attention = false;
  // gemv_q_sm90: of two launches, one behind the other, the first tells and the second heeds: an
  // integer of theirs, zero before and after. There the blocks of the first count who has asked for
  // all of its weights. Until most have, these of the second leave most of their rings empty: what
  // they took of the memory's bandwidth, a kernel would lack that is needed earlier.
  unsigned *tells = nullptr, *heeds = nullptr;
  // gemv_sm90 of one row: blocks so small that those of the next kernel are beside them. For chains
  // of kernels that are all like that; better where a kernel takes a few microseconds.
  bool paired = false;
};

// What gemv_sm90 can do; the limit on rows * ins is that all rows' activations fit beside the ring.
bool supports_gemv_sm90(const LinearLaunch& launch, int compute_capability);
void launch_gemv_sm90(const LinearLaunch& launch, int multiprocessors, Stream stream);

// The same for block formats and one row.
bool supports_gemv_q_sm90(const LinearLaunch& launch, int compute_capability);
void launch_gemv_q_sm90(const LinearLaunch& launch, int multiprocessors, Stream stream);
// Two of these as one kernel: of the same activations, by matrices of unlike formats, for the pairs
// of formats that models mix. Each launch has a ticket of its own.
bool has_gemv_q_pair_sm90(DType a, DType b);
bool supports_gemv_q_pair_sm90(const LinearLaunch& a, const LinearLaunch& b,
                               int compute_capability);
void launch_gemv_q_pair_sm90(const LinearLaunch& a, const LinearLaunch& b, int multiprocessors,
                             Stream stream);
// One alone by the kernel of its format's pair with another: a model that mixes the two has less
// code then, which is slow where it comes anew.
void launch_gemv_q_of_pair_sm90(const LinearLaunch& launch, DType other, int multiprocessors,
                                Stream stream);

// And up to 256 rows. Two kernels: activations become f16 in the workspace, which all launches of a
// stream may share. With takes_left one, and the workspace is nobody else's from the kernel that
// leaves on.
bool has_gemm_q_sm90(int compute_capability);  // for any product
bool supports_gemm_q_sm90(const LinearLaunch& launch, int compute_capability);
void launch_gemm_q_sm90(const LinearLaunch& launch, int multiprocessors, Stream stream);
// Two of these as one launch, of the same activations by matrices of unlike formats, both to be
// stored: for the pairs of formats that models mix, and up to 64 rows.
bool supports_gemm_q_pair_sm90(const LinearLaunch& a, const LinearLaunch& b,
                               int compute_capability);
void launch_gemm_q_pair_sm90(const LinearLaunch& a, const LinearLaunch& b, int multiprocessors,
                             Stream stream);
// Whether launches may be pieces of one product.
bool gemm_q_shares_activations(DType format, DType other);
// For a kernel that leaves what this launch takes, none of it above `bound`; no memory where that
// cannot be.
LeftRows gemm_q_left_rows(const LinearLaunch& launch, float bound);

// Without norm; any type, any format, any size, any GPU.
void launch_gemv_plain(const LinearLaunch& launch, Stream stream);
void launch_gemv_q_plain(const LinearLaunch& launch, Stream stream);  // its part for block formats

// Without norm, bias or gating: Store, AddTo, Floats and Logits only. Keeps cuBLASLt's choices by
// shape.
class GemmCublas {
 public:
  GemmCublas();
  ~GemmCublas();
  void launch(const LinearLaunch& launch, Stream stream);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace skald::cuda
