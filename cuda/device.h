// What is asked of the CUDA runtime about a GPU.
#pragma once

#include "cuda/cuda.h"

namespace skald::cuda {

// The device must be the current one.
DeviceInfo describe_device(int device);

}  // namespace skald::cuda
