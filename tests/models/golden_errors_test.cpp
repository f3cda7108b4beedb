// Prints how far the logits of each golden are from transformers' on the CPU
// (scripts/golden_table).
#include "tests/golden_errors.h"

#include "engine/cpu/executor.h"
#include "models/convert/quantized.h"

namespace skald::test {

TEST_CASE("the largest error of a logit on the CPU, for every golden", "[.][goldens]") {
  print_golden_errors("CPU", [](const Model& model) {
    return cpu::make_executor(made_model(model, {}), {.exact = true});
  });
}

}  // namespace skald::test
