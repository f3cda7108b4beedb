#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "cuda/gpu/acquire.h"
#include "cuda/gpu/check.h"
#include "cuda/gpu/check_cublas.h"
#include "cuda/gpu/cublas_library.h"
#include "cuda/gpu/memory.h"
#include "cuda/kernels/gemm/gemm_cublas.h"
#include "cuda/kernels/linear.h"
#include "cuda/kernels/tiles/expand_q.h"
#include "engine/base/error.h"
#include "engine/quant/dtype.h"

namespace skald::cuda {
// One product's description and the algorithms that cuBLASLt proposes, best first, except that
// runs_cooler() may change the order. A kernel is loaded at its first launch. If there is no memory
// for it then, this kernel will never work again, but another one may.
struct CublasPlan {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t weight = nullptr, in = nullptr, out = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  std::vector<cublasLtMatmulAlgo_t> algorithms;  // the first one is used
  bool loaded = false;                           // true after the first launch

  CublasPlan() = default;
  CublasPlan(const CublasPlan&) = delete;
  CublasPlan& operator=(const CublasPlan&) = delete;
  ~CublasPlan() {
    if (preference) cublasLtMatmulPreferenceDestroy(preference);
    if (out) cublasLtMatrixLayoutDestroy(out);
    if (in) cublasLtMatrixLayoutDestroy(in);
    if (weight) cublasLtMatrixLayoutDestroy(weight);
    if (operation) cublasLtMatmulDescDestroy(operation);
  }
};

namespace {

cudaDataType_t data_type(DType type) {
  if (type == DType::F16) return CUDA_R_16F;
  if (type == DType::BF16) return CUDA_R_16BF;
  if (type == DType::F32) return CUDA_R_32F;
  fail(Exit::Failed, "cuBLAS has no matrices of ", name(type));
}

using PlanKey = std::tuple<DType, int64_t, int64_t, int64_t, int, Epilogue, int, bool>;

// Output in columns of a wider matrix may start at any address; cuBLAS assumes 256-byte alignment.
int out_alignment(const LinearLaunch& a) {
  constexpr uintptr_t kUsual = 256;
  const auto at = reinterpret_cast<uintptr_t>(a.out);
  return static_cast<int>(std::min(kUsual, (at | kUsual) & ~((at | kUsual) - 1)));
}

[[noreturn]] void fail_no_product(const LinearLaunch& a) {
  fail(Exit::Failed, "cuBLAS has no product of ", name(a.type), " [", a.outs, ", ", a.ins,
       "] with ", a.rows, " rows on this GPU", a.cublas.pinned ? " that is reproducible" : "");
}

// The part of a plan that depends on no operand's shape.
std::unique_ptr<CublasPlan> begin_plan(const LinearLaunch& a) {
  auto plan = std::make_unique<CublasPlan>();
  const cublasOperation_t transpose = CUBLAS_OP_T;
  SKALD_CUBLAS(cublasLtMatmulDescCreate(&plan->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  SKALD_CUBLAS(cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_TRANSA,
                                              &transpose, sizeof transpose));
  SKALD_CUBLAS(cublasLtMatmulPreferenceCreate(&plan->preference));
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, const auto& value) {
    SKALD_CUBLAS(
        cublasLtMatmulPreferenceSetAttribute(plan->preference, what, &value, sizeof value));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
         static_cast<uint64_t>(a.cublas.pinned ? 0 : kCublasWorkspaceBytes));
  const auto alignment = static_cast<uint32_t>(out_alignment(a));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
  if (a.cublas.pinned) {
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE));
  }
  return plan;
}

// cuBLAS is column-major: a row-major [rows, ins] is its [ins, rows].
void set_shapes(CublasPlan& plan, const LinearLaunch& a) {
  const cudaDataType_t type = data_type(a.type);
  const cudaDataType_t out_type = a.epilogue == Epilogue::Store ? type : CUDA_R_32F;
  const auto outs = static_cast<uint64_t>(a.outs), ins = static_cast<uint64_t>(a.ins);
  const auto rows = static_cast<uint64_t>(a.rows);
  SKALD_CUBLAS(cublasLtMatrixLayoutCreate(&plan.weight, type, ins, outs, a.ins));
  SKALD_CUBLAS(cublasLtMatrixLayoutCreate(&plan.in, type, ins, rows, a.ins));
  SKALD_CUBLAS(cublasLtMatrixLayoutCreate(&plan.out, out_type, outs, rows, a.out_stride));
}

// Long products draw all the power that the card may draw, and its clock falls. Then cuBLAS's first
// proposal is 2 to 9 % slower than its proposal with tiles of 168 x 128, if 16-bit results are
// stored. Both have the same results, bit for bit.
bool runs_cooler(const LinearLaunch& a, const cublasLtMatmulAlgo_t& algorithm) {
  constexpr int64_t kLongRows = 2048;
  constexpr uint32_t kTile168x128 = 197;  // older toolkits have no name for it
  uint32_t tile = 0;
  const bool known =
      cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID, &tile,
                                           sizeof tile, nullptr) == CUBLAS_STATUS_SUCCESS;
  return known && tile == kTile168x128 && a.rows >= kLongRows && a.epilogue == Epilogue::Store;
}

std::unique_ptr<CublasPlan> make_plan(cublasLtHandle_t handle, const LinearLaunch& a) {
  std::unique_ptr<CublasPlan> plan = begin_plan(a);
  set_shapes(*plan, a);
  constexpr int kMost = 8;
  cublasLtMatmulHeuristicResult_t best[kMost] = {};
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle, plan->operation, plan->weight, plan->in, plan->out, plan->out, plan->preference,
      a.cublas.pinned ? 1 : kMost, best, &found);
  if (status != CUBLAS_STATUS_SUCCESS || found == 0) fail_no_product(a);
  for (int i = 0; i < found; ++i) plan->algorithms.push_back(best[i].algo);
  std::stable_partition(plan->algorithms.begin(), plan->algorithms.end(),
                        [&](const auto& algorithm) { return runs_cooler(a, algorithm); });
  return plan;
}

}  // namespace

struct GemmCublas::State {
  ~State() {
    plans.clear();
    if (handle) cublasLtDestroy(handle);
  }

  // The plan for a launch: made once, and kept only if it is complete.
  CublasPlan& plan(const LinearLaunch& a) {
    std::unique_ptr<CublasPlan>& plan = plans[{a.type, a.outs, a.ins, a.out_stride, a.rows,
                                               a.epilogue, out_alignment(a), a.cublas.pinned}];
    if (!plan) plan = make_plan(handle, a);
    return *plan;
  }

  cublasStatus_t try_multiply(const CublasPlan& plan, const LinearLaunch& a, Stream stream) {
    if (!plan.loaded && acquisition_fails()) return CUBLAS_STATUS_ALLOC_FAILED;
    const float keep = a.epilogue == Epilogue::AddTo ? 1 : 0;
    return cublasLtMatmul(handle, plan.operation, &a.scale, a.weight, plan.weight, a.in, plan.in,
                          &keep, a.out, plan.out, a.out, plan.out, &plan.algorithms.front(),
                          workspace.as<void>(), kCublasWorkspaceBytes, stream);
  }

  void multiply(const LinearLaunch& a, Stream stream) {
    constexpr int64_t kRoom = 64 << 20;  // enough to load any kernel
    CublasPlan& plan = this->plan(a);
    for (;;) {
      const cublasStatus_t status = try_multiply(plan, a, stream);
      plan.loaded |= status == CUBLAS_STATUS_SUCCESS;
      const bool others = !plan.loaded && plan.algorithms.size() > 1;
      if (others) plan.algorithms.erase(plan.algorithms.begin());
      if (others && free_memory() >= kRoom) continue;
      SKALD_CUBLAS(status);
      return;
    }
  }

  cublasLtHandle_t handle = nullptr;
  DeviceMemory workspace{kCublasWorkspaceBytes, "cuBLAS's workspace"};
  std::map<PlanKey, std::unique_ptr<CublasPlan>> plans;
};

GemmCublas::GemmCublas() : state_(std::make_unique<State>()) {
  if (!cublas_problem().empty()) {
    fail(Exit::Failed, "a library of CUDA cannot be loaded: ", cublas_problem(),
         "; skald doctor says more");
  }
  acquire("cuBLAS handle", [&] {
    SKALD_CUBLAS(cublasLtCreate(&state_->handle));
    return cudaSuccess;
  });
}

GemmCublas::~GemmCublas() = default;

void GemmCublas::launch(const LinearLaunch& a, Stream stream) {
  check(!a.norm_weight && !a.bias && a.epilogue != Epilogue::Gated, "gemm_cublas is plain");
  if (!a.cublas.pinned) return state_->multiply(a, stream);
  // The last piece has more rows than the product; nobody reads them.
  LinearLaunch piece = a;
  piece.rows = kPinnedRows;
  const DType out_type = a.epilogue == Epilogue::Store ? a.type : DType::F32;
  for (int64_t first = 0; first < a.rows; first += kPinnedRows) {
    piece.in = static_cast<const std::byte*>(a.in) + row_bytes(a.type, first * a.ins);
    piece.out = static_cast<std::byte*>(a.out) + row_bytes(out_type, first * a.out_stride);
    state_->multiply(piece, stream);
  }
}

template <>
void launch_product<kernel_id("gemm_cublas")>(const ProductCall& call) {
  call.cublas.launch(call.pieces.front(), call.stream);
}

// Multiplies the matrix's 16-bit copy, or expands some of its rows at a time and multiplies those.
template <>
void launch_product<kernel_id("expand_q + gemm_cublas")>(const ProductCall& call) {
  const LinearLaunch& whole = call.pieces.front();
  LinearLaunch launch = whole;
  launch.format = launch.type;
  if (whole.cublas.copy) {
    launch.weight = whole.cublas.copy;
    return call.cublas.launch(launch, call.stream);
  }
  const DType out_type = whole.epilogue == Epilogue::Store ? whole.type : DType::F32;
  launch.weight = whole.cublas.expanded;
  for (int64_t first = 0; first < whole.outs; first += whole.cublas.expanded_rows) {
    launch.outs = std::min(whole.cublas.expanded_rows, whole.outs - first);
    launch.out = static_cast<std::byte*>(whole.out) + row_bytes(out_type, first);
    launch_expand_q({whole.format, whole.weight, whole.ins, first, launch.outs, launch.type,
                     whole.cublas.expanded},
                    call.stream);
    call.cublas.launch(launch, call.stream);
  }
}

}  // namespace skald::cuda
