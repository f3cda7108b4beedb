// cuBLASLt, opened at run time: one program serves machines with and without CUDA's libraries.
// cublas_library.cpp defines the functions of <cublasLt.h> that skald calls; each passes its
// arguments on to the library's own. A new call of another function needs a line there; the linker
// names it.
#pragma once

#include <string>

namespace skald::cuda {

// Loads the library at the first call; any thread may call it. Empty if the functions can be
// called. Otherwise says why not; then each of them returns CUBLAS_STATUS_NOT_INITIALIZED.
const std::string& cublas_problem();

const char* cublas_name();  // "libcublasLt.so.13"

}  // namespace skald::cuda
