// What is asked of the CUDA runtime about a GPU.
#pragma once

#include "cuda/cuda.h"

namespace skald::cuda {

// Makes it the current one. Throws Error where it cannot be used, with the reason.
DeviceInfo describe_device(int device);

}  // namespace skald::cuda
