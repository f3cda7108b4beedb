// Prints how far the logits of each golden are from transformers' on the GPU
// (scripts/golden_table).
#include "tests/golden_errors.h"

#include "cuda/cuda.h"
#include "tests/cuda/kernels/switches.h"

namespace skald::test {

TEST_CASE("the largest error of a logit on the GPU, for every golden", "[.][goldens]") {
  print_golden_errors(
      "GPU", [](const Model& model) { return cuda::make_executor(model, {}, 0, switches()); });
}

}  // namespace skald::test
