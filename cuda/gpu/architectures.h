// Tells whether a GPU can run the code in this binary: compares the list CMAKE_CUDA_ARCHITECTURES
// with the GPU's compute capability.
#pragma once

#include <charconv>
#include <string_view>

#include "cuda/cuda.h"

namespace skald::cuda {

// One entry: "80" (machine code and PTX), "80-real" (machine code), "75-virtual" (PTX), "90a-real".
inline Code code_of_entry(std::string_view entry, int compute_capability) {
  int number = 0;
  const char* end = entry.data() + entry.size();
  const auto [rest, error] = std::from_chars(entry.data(), end, number);
  if (error != std::errc()) return Code::None;
  const bool alone = rest != end && *rest == 'a';  // "90a": features that only this GPU has
  const bool real = !entry.ends_with("-virtual"), ptx = !entry.ends_with("-real");
  if (alone && number != compute_capability) return Code::None;
  // Machine code runs on later GPUs of the same generation, PTX on all later ones.
  if (real && number / 10 == compute_capability / 10 && number <= compute_capability) {
    return Code::Native;
  }
  return ptx && number <= compute_capability ? Code::Ptx : Code::None;
}

inline Code code_for(std::string_view architectures, int compute_capability) {
  Code best = Code::None;
  while (!architectures.empty()) {
    const size_t length = architectures.find(' ');
    const Code code = code_of_entry(architectures.substr(0, length), compute_capability);
    if (code == Code::Native || best == Code::None) best = code;
    if (best == Code::Native || length == std::string_view::npos) break;
    architectures.remove_prefix(length + 1);
  }
  return best;
}

}  // namespace skald::cuda
