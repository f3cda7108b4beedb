#include "engine/program/program.h"

#include "tests/catch.h"
#include "tests/engine/random_llama.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

TEST_CASE("a builder finds weights by name and checks their shapes") {
  MadeWeights file;
  file.matrix("w", DType::F32, 3, 4);
  file.constant("norm", 4);
  ProgramBuilder builder(file);
  CHECK(builder.weight("w", 3, 4) != WeightId::None);
  CHECK(builder.optional_weight("none", 1, 1) == WeightId::None);
  CHECK(error_text([&] { builder.weight("none", 2, 4); }) ==
        "made in memory: tensor 'none' is missing (expected [2, 4]); the file is incomplete or of "
        "another architecture");
  CHECK(error_text([&] { builder.weight("w", 4, 3); }) ==
        "made in memory: tensor 'w' is [3, 4], expected [4, 3] by the model's configuration");
  CHECK(has(error_text([&] { builder.optional_weight("norm", 1, 5); }), "is [4], expected [5]"));
}

TEST_CASE("every op has a name, and every op but Logits an output") {
  const Program program = random_llama({.layers = 1}).program();
  std::string names;
  for (const Op& op : program.ops) {
    names += std::string(op_name(op)) + " ";
    CHECK((op_output(op) == nullptr) == std::holds_alternative<Logits>(op));
  }
  CHECK(names ==
        "embed rms_norm linear linear linear rope rope attention linear add rms_norm "
        "linear linear gated_act linear add rms_norm logits ");
  CHECK(program.vocab() == 300);
  CHECK(program.kv.size() == 1);
}

TEST_CASE("a decode step reads all weights and a single row of the embedding") {
  const Model model = random_llama({.layers = 1});
  const int64_t embedding = model.weights->find("token_embd.weight")->view.bytes();
  CHECK(model.program().weight_bytes() == model.weights->bytes() - embedding + 256 * 4);
}

}  // namespace
}  // namespace skald::test
