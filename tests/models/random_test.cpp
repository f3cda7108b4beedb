#include "models/random.h"

#include <cmath>

#include "engine/cpu/executor.h"
#include "tests/catch.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

TEST_CASE("every type makes a model whose logits are finite and of a sensible size") {
  for (std::string_view type : random_types()) {
    if (type == "f32") continue;  // half a gigabyte
    CAPTURE(type);
    const Model model = random_model("smollm2-135m", type);
    RunOptions options;
    options.context = 64;
    const auto executor = cpu::make_executor(model, options);
    Sequence sequence = executor->new_sequence();
    const std::vector<int32_t> tokens{1, 100, 49151, 7};
    const SeqRows step{&sequence, tokens, Want::LastRow};
    executor->run({&step, 1});
    double squares = 0;
    bool finite = true;
    const auto logits = executor->logits(0);
    for (const float logit : logits) {
      finite = finite && std::isfinite(logit);
      squares += double{logit} * logit;
    }
    CHECK(finite);
    const double size = std::sqrt(squares / static_cast<double>(logits.size()));
    CHECK(size > 0.01);
    CHECK(size < 1000);
  }
}

TEST_CASE("a shape's parameters are those of the published model") {
  const Model model = random_model("smollm2-135m", "q8_0");
  int64_t parameters = 0;
  for (const Tensor& tensor : model.weights->tensors()) {
    parameters += tensor.view.rows * tensor.view.cols;
  }
  CHECK(parameters == 134515008);
  CHECK(model.config.layers == 30);
  CHECK(model.config.tied);
}

TEST_CASE("unknown shapes and types list what there is") {
  CHECK(has(error_text([] { random_model("x", "f16"); }, Exit::Usage),
            "unknown shape 'x'; these are: smollm2-135m, "));
  CHECK(has(error_text([] { random_model("smollm2-135m", "F16"); }, Exit::Usage),
            "unknown type 'F16'; these are: f32, f16, "));
}

}  // namespace
}  // namespace skald::test
