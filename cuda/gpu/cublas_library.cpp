#include "cuda/gpu/cublas_library.h"

#include <cublasLt.h>

#include "engine/base/shared_library.h"

#define SKALD_TEXT_OF(value) #value
#define SKALD_TEXT(value) SKALD_TEXT_OF(value)

namespace skald::cuda {
namespace {

constexpr const char* kName = "libcublasLt.so." SKALD_TEXT(CUBLAS_VER_MAJOR);

// Every function that skald calls.
struct Functions {
  SharedLibrary library{{kName, std::string("/usr/local/cuda/lib64/") + kName}};
#define SKALD_FUNCTION(name) decltype(::name)* name = get<decltype(::name)>(#name)
  SKALD_FUNCTION(cublasLtCreate);
  SKALD_FUNCTION(cublasLtDestroy);
  SKALD_FUNCTION(cublasLtGetStatusString);
  SKALD_FUNCTION(cublasLtMatmul);
  SKALD_FUNCTION(cublasLtMatmulAlgoConfigGetAttribute);
  SKALD_FUNCTION(cublasLtMatmulAlgoGetHeuristic);
  SKALD_FUNCTION(cublasLtMatmulDescCreate);
  SKALD_FUNCTION(cublasLtMatmulDescDestroy);
  SKALD_FUNCTION(cublasLtMatmulDescSetAttribute);
  SKALD_FUNCTION(cublasLtMatmulPreferenceCreate);
  SKALD_FUNCTION(cublasLtMatmulPreferenceDestroy);
  SKALD_FUNCTION(cublasLtMatmulPreferenceSetAttribute);
  SKALD_FUNCTION(cublasLtMatrixLayoutCreate);
  SKALD_FUNCTION(cublasLtMatrixLayoutDestroy);
#undef SKALD_FUNCTION

  template <class Function>
  Function* get(const char* name) {
    return reinterpret_cast<Function*>(library.find(name));
  }
};

Functions& functions() {
  static Functions all;
  return all;
}

// Calls a function of the library where all of them are there.
template <class Function, class... Arguments>
cublasStatus_t pass_on(Function* Functions::*function, Arguments... arguments) {
  Functions& all = functions();
  if (!all.library.problem().empty()) return CUBLAS_STATUS_NOT_INITIALIZED;
  return (all.*function)(arguments...);
}

}  // namespace

const std::string& cublas_problem() { return functions().library.problem(); }

const char* cublas_name() { return kName; }

}  // namespace skald::cuda

// The declarations of <cublasLt.h> let the compiler check every parameter: a definition with others
// would be another function of the same C name, which is an error.
using skald::cuda::Functions;
using skald::cuda::pass_on;

cublasStatus_t CUBLASWINAPI cublasLtCreate(cublasLtHandle_t* handle) {
  return pass_on(&Functions::cublasLtCreate, handle);
}

cublasStatus_t CUBLASWINAPI cublasLtDestroy(cublasLtHandle_t handle) {
  return pass_on(&Functions::cublasLtDestroy, handle);
}

const char* CUBLASWINAPI cublasLtGetStatusString(cublasStatus_t status) {
  const auto& all = skald::cuda::functions();
  return all.cublasLtGetStatusString ? all.cublasLtGetStatusString(status) : "cuBLAS is missing";
}

cublasStatus_t CUBLASWINAPI cublasLtMatmul(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t description, const void* alpha, const void* a,
    cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
    const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
    cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
    size_t workspace_bytes, cudaStream_t stream) {
  return pass_on(&Functions::cublasLtMatmul, handle, description, alpha, a, a_layout, b, b_layout,
                 beta, c, c_layout, d, d_layout, algorithm, workspace, workspace_bytes, stream);
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulAlgoConfigGetAttribute(
    const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulAlgoConfigAttributes_t which, void* value,
    size_t bytes, size_t* written) {
  return pass_on(&Functions::cublasLtMatmulAlgoConfigGetAttribute, algorithm, which, value, bytes,
                 written);
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t description, cublasLtMatrixLayout_t a_layout,
    cublasLtMatrixLayout_t b_layout, cublasLtMatrixLayout_t c_layout,
    cublasLtMatrixLayout_t d_layout, cublasLtMatmulPreference_t preference, int most,
    cublasLtMatmulHeuristicResult_t results[], int* found) {
  return pass_on(&Functions::cublasLtMatmulAlgoGetHeuristic, handle, description, a_layout,
                 b_layout, c_layout, d_layout, preference, most, results, found);
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description,
                                                     cublasComputeType_t compute,
                                                     cudaDataType_t scale) {
  return pass_on(&Functions::cublasLtMatmulDescCreate, description, compute, scale);
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  return pass_on(&Functions::cublasLtMatmulDescDestroy, description);
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                                           cublasLtMatmulDescAttributes_t which,
                                                           const void* value, size_t bytes) {
  return pass_on(&Functions::cublasLtMatmulDescSetAttribute, description, which, value, bytes);
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return pass_on(&Functions::cublasLtMatmulPreferenceCreate, preference);
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return pass_on(&Functions::cublasLtMatmulPreferenceDestroy, preference);
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t which,
    const void* value, size_t bytes) {
  return pass_on(&Functions::cublasLtMatmulPreferenceSetAttribute, preference, which, value, bytes);
}

cublasStatus_t CUBLASWINAPI cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout,
                                                       cudaDataType type, uint64_t rows,
                                                       uint64_t columns, int64_t stride) {
  return pass_on(&Functions::cublasLtMatrixLayoutCreate, layout, type, rows, columns, stride);
}

cublasStatus_t CUBLASWINAPI cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return pass_on(&Functions::cublasLtMatrixLayoutDestroy, layout);
}
