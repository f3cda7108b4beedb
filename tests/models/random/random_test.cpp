#include "models/random/random.h"

#include <algorithm>
#include <cmath>

#include "engine/cpu/executor.h"
#include "models/random/random_shapes.h"
#include "tests/catch.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

void check_logits(const Model& model) {
  RunOptions options;
  options.context = 64;
  const auto executor = cpu::make_executor(model, options);
  Sequence sequence = executor->new_sequence();
  const std::vector<int32_t> tokens{1, 100, static_cast<int32_t>(model.config.vocab - 1), 7};
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

int64_t parameters_of(const Model& model) {
  int64_t parameters = 0;
  for (const Tensor& tensor : model.weights->tensors()) {
    parameters += tensor.view.rows * tensor.view.cols;
  }
  return parameters;
}

template <class Kind>
int count_ops(const Program& program) {
  return static_cast<int>(std::count_if(program.ops.begin(), program.ops.end(), [](const Op& op) {
    return std::holds_alternative<Kind>(op);
  }));
}

TEST_CASE("random weights of every type give finite logits of a reasonable size") {
  for (std::string_view type : random_types()) {
    if (type == "f32") continue;  // would take half a gigabyte
    CAPTURE(type);
    check_logits(random_model("smollm2-135m", type));
  }
}

TEST_CASE("a shape has the parameters of the published model") {
  const Model model = random_model("smollm2-135m", "q8_0");
  CHECK(parameters_of(model) == 134515008);
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
    CHECK(parameters_of(model) == parameters);
    int attentions_with_a_window = 0;
    const Program program = model.program();
    for (const Op& op : program.ops) {
      const auto* attention = std::get_if<Attention>(&op);
      attentions_with_a_window += attention && attention->spec.window > 0;
    }
    CHECK(attentions_with_a_window == windowed);
  }
}

TEST_CASE("the shape of Ministral 3 has its yarn, and queries that grow with their position") {
  const Model model = shape_model("ministral-3-8b", "bf16");
  CHECK(parameters_of(model) == 8489553920);
  const ModelConfig& c = model.config;
  CHECK((c.architecture == "mistral3" && c.rope_scaling == "yarn" && c.rope.scale == 1));
  CHECK(c.query_growth == QueryGrowth{0.1f, 16384});
  CHECK(c.context == 262144);
  // The slowest pair turns a 16th as fast as without yarn, the fastest one as before.
  CHECK(c.rope.inv_freq.front() == 1);
  CHECK(c.rope.inv_freq.back() == Approx(std::pow(1e6, -126.0 / 128) / 16).epsilon(1e-5));
  const Program program = model.program();
  for (const Op& op : program.ops) {
    const auto* attention = std::get_if<Attention>(&op);
    if (attention) CHECK(attention->spec.growth == c.query_growth);
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
    CHECK(static_cast<double>(parameters_of(model)) / 1e9 == Approx(parameters).epsilon(0.03));
    const Program program = model.program();
    const int nets = count_ops<DeltaNet>(program), attentions = count_ops<Attention>(program);
    CHECK(nets == 3 * attentions);
    CHECK(nets + attentions == model.config.layers);
  }
}

TEST_CASE("shapes with state spaces have the published layers and number of parameters") {
  const struct {
    const char* shape;
    int64_t parameters;
    int spaces, attentions, experts;
  } cases[] = {{"nemotron-h-8b", 8100852736, 24, 4, 0},
               {"nemotron-3-nano-30b-a3b", 31577940288, 23, 6, 23},
               {"granite-4.0-h-tiny", 6939037248, 36, 4, 40},
               {"granite-4.0-h-small", 32207337984, 36, 4, 40}};
  for (const auto& [shape, parameters, spaces, attentions, experts] : cases) {
    CAPTURE(shape);
    const Model model = shape_model(shape, "bf16");
    CHECK(parameters_of(model) == parameters);
    const Program program = model.program();
    CHECK(count_ops<StateSpace>(program) == spaces);
    CHECK(count_ops<Attention>(program) == attentions);
    CHECK(count_ops<Experts>(program) == experts);
    CHECK(count_ops<Rope>(program) == 0);
  }
  const ModelConfig granite = shape_model("granite-4.0-h-small", "bf16").config;
  for (int layer = 0; layer < granite.layers; ++layer) {
    CHECK(granite.has_space(layer) == (layer != 5 && layer != 15 && layer != 25 && layer != 35));
  }
}

TEST_CASE("random weights of every kind of layer with state spaces give finite logits") {
  for (const char* name : {"nemotron-h-8b", "nemotron-3-nano-30b-a3b", "granite-4.0-h-tiny"}) {
    CAPTURE(name);
    RandomShape shape = random_shape(name);
    shape.layers = 9;  // the first ones, which are of all kinds
    shape.pattern = shape.pattern.substr(0, 9);
    shape.dim = shape.ffn_dim = 256;
    shape.heads = 4;
    shape.kv_heads = 2;
    shape.space.heads = 16;
    shape.vocab = 1000;
    if (shape.experts.count > 0) {
      shape.experts.count = 8;
      shape.experts.ffn_dim = shape.experts.shared_dim = 256;
    }
    for (const char* type : {"bf16", "q4_k_m"}) {
      CAPTURE(type);
      check_logits(random_model(shape, type));
    }
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
