// The instruction sets that the SIMD kernels are compiled for, and the one that this CPU uses.
#pragma once

#include <string>
#include <vector>

namespace skald::cpu {

struct Simd {
  std::string chosen;                 // Highway's name: "AVX3_DL", "AVX2", "NEON", ...
  std::vector<std::string> compiled;  // best first; the last one runs on any CPU
  bool slow = false;                  // true: `chosen` is plain C++ or little better
};
Simd find_simd();

}  // namespace skald::cpu
