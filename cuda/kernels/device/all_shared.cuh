// For decode kernels, whose blocks share a multiprocessor with blocks of the next kernel. All these
// kernels ask for the largest shared-memory carve-out. A kernel with another carve-out could start
// only on an empty multiprocessor.
#pragma once

#include "cuda/gpu/check.h"

namespace skald::cuda {

template <class... Params>
void ask_for_all_shared(void (*kernel)(Params...)) {
  SKALD_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                  cudaSharedmemCarveoutMaxShared));
}

}  // namespace skald::cuda
