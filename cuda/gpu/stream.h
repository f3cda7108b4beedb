// The name of a CUDA stream for headers that include no CUDA header.
#pragma once

struct CUstream_st;

namespace skald::cuda {

using Stream = CUstream_st*;  // cudaStream_t

}  // namespace skald::cuda
