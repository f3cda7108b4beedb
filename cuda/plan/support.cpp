// Which models CUDA can run: those that fuse_program() accepts.
#include "cuda/cuda.h"
#include "cuda/plan/fused_program.h"
#include "engine/base/error.h"

namespace skald::cuda {

std::string model_problem(const Model& model) {
  try {
    fuse_program(model.program());
    return "";
  } catch (const Error& error) {
    std::string text = error.what();
    constexpr std::string_view kAdvice = "; use --device cpu";  // for the caller to decide
    if (text.ends_with(kAdvice)) text.resize(text.size() - kAdvice.size());
    return text;
  }
}

}  // namespace skald::cuda
