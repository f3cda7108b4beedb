// For decode kernels whose blocks stand beside those of others on a multiprocessor: all ask for all
// of its memory as shared memory, else a kernel waits until the multiprocessor is empty and can be
// divided anew.
#pragma once

#include "cuda/gpu/check.h"

namespace skald::cuda {

template <class... Params>
void ask_for_all_shared(void (*kernel)(Params...)) {
  SKALD_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                  cudaSharedmemCarveoutMaxShared));
}

}  // namespace skald::cuda
