#include "models/random/random.h"

#include <cmath>

#include "engine/cpu/executor.h"
#include "tests/catch.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

TEST_CASE("random weights of every type give finite logits of a reasonable size") {
  for (std::string_view type : random_types()) {
    if (type == "f32") continue;  // would take half a gigabyte
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

TEST_CASE("a shape has the parameters of the published model") {
  const Model model = random_model("smollm2-135m", "q8_0");
  int64_t parameters = 0;
  for (const Tensor& tensor : model.weights->tensors()) {
    parameters += tensor.view.rows * tensor.view.cols;
  }
  CHECK(parameters == 134515008);
  CHECK(model.config.layers == 30);
  CHECK(model.config.tied);
}

TEST_CASE("shapes of every family have the published number of parameters and build a program") {
  const struct {
    const char* shape;
    int64_t parameters;
    int windowed;
  } cases[] = {{"llama-3.2-1b", 1235814400, 0},   {"qwen3-0.6b", 596049920, 0},
               {"mixtral-8x7b", 46702792704, 0},  {"qwen3-30b-a3b", 30532122624, 0},
               {"nanbeige4.2-3b", 4169800704, 0}, {"qwen1.5-moe-a2.7b", 14315784192, 0},
               {"starcoder2-3b", 3030371328, 30}, {"command-r7b", 8028033024, 24},
               {"gemma-2-2b", 2614341888, 13},    {"gemma-3-1b", 999885952, 22}};
  for (const auto& [shape, parameters, windowed] : cases) {
    CAPTURE(shape);
    const Model model = shape_model(shape, "bf16");
    int64_t counted = 0;
    for (const Tensor& tensor : model.weights->tensors()) {
      counted += tensor.view.rows * tensor.view.cols;
    }
    CHECK(counted == parameters);
    int attentions_with_a_window = 0;
    const Program program = model.program();
    for (const Op& op : program.ops) {
      const auto* attention = std::get_if<Attention>(&op);
      attentions_with_a_window += attention && attention->spec.window > 0;
    }
    CHECK(attentions_with_a_window == windowed);
  }
}

TEST_CASE("shapes with delta nets have one attention in four layers, and build a program") {
  const struct {
    const char* shape;
    double parameters;  // as the model's name says, in billions
  } cases[] = {{"qwen3.5-27b", 27}, {"qwen3.5-35b-a3b", 35}, {"qwen3-next-80b-a3b", 80}};
  for (const auto& [shape, parameters] : cases) {
    CAPTURE(shape);
    const Model model = shape_model(shape, "q4_k_m");
    double counted = 0;
    for (const Tensor& tensor : model.weights->tensors()) {
      counted += static_cast<double>(tensor.view.rows * tensor.view.cols);
    }
    CHECK(counted / 1e9 == Approx(parameters).epsilon(0.03));
    int nets = 0, attentions = 0;
    const Program program = model.program();
    for (const Op& op : program.ops) {
      nets += std::holds_alternative<DeltaNet>(op);
      attentions += std::holds_alternative<Attention>(op);
    }
    CHECK(nets == 3 * attentions);
    CHECK(nets + attentions == model.config.layers);
  }
}

TEST_CASE("an unknown shape or type is an error that lists the known ones") {
  CHECK(has(error_text([] { random_model("x", "f16"); }, Exit::Usage),
            "unknown shape 'x'; these are: smollm2-135m, "));
  CHECK(has(error_text([] { random_model("smollm2-135m", "f17"); }, Exit::Usage),
            "unknown type 'f17'; these are: f32, f16, "));
  CHECK(random_model("smollm2-135m", "Q4_K_M").weights->bytes() ==
        random_model("smollm2-135m", "q4_k_m").weights->bytes());
}

}  // namespace
}  // namespace skald::test
