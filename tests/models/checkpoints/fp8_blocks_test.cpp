// Checkpoints in FP8 whose rows are whole blocks keep their eight bits.
#include <cmath>

#include "engine/cpu/executor.h"
#include "models/convert/quant_mix.h"
#include "models/convert/quantized.h"
#include "tests/exported_gguf.h"
#include "tests/models/checkpoints/checkpoint_files.h"
#include "tests/models/checkpoints/fp8_folder.h"

namespace skald::test {
namespace {

const std::vector<int32_t> kIds = {1, 7, 30, 4, 4, 19, 47, 2, 11, 25};

std::vector<float> logits_of(const Model& model, bool exact) {
  const auto executor = cpu::make_executor(model, {.exact = exact, .threads = 1});
  return all_logits(*executor, kIds);
}

TEST_CASE("FP8 in whole blocks stays in 8 bits, with the weights of its scales") {
  const auto scales = GENERATE(Fp8Scales::Matrix, Fp8Scales::Row, Fp8Scales::Block);
  CAPTURE(text(scales));
  const Fp8Folder folder(scales);
  const OpenedModel opened = folder.open(), f32 = folder.open_in_f32();
  int matrices = 0;
  for (const Tensor& tensor : opened.model.weights->tensors()) {
    CAPTURE(tensor.name);
    const bool fp8 = tensor.name.find("attn_") != tensor.name.npos ||
                     tensor.name.find("ffn_") != tensor.name.npos;
    const bool matrix = fp8 && tensor.name.find("norm") == tensor.name.npos;
    CHECK(name(tensor.view.type) == name(matrix ? DType::FP8 : DType::F32));
    matrices += matrix;
    CHECK((decoded(tensor) == decoded(*f32.model.weights->find(tensor.name))));
  }
  CHECK(matrices == 7);
}

TEST_CASE("a model in FP8 predicts what its weights in float32 predict") {
  const auto scales = GENERATE(Fp8Scales::Matrix, Fp8Scales::Row, Fp8Scales::Block);
  CAPTURE(text(scales));
  const Fp8Folder folder(scales);
  const std::vector<float> expected = logits_of(folder.open_in_f32().model, true);
  for (const bool exact : {true, false}) {
    CHECK(largest_difference(logits_of(folder.open().model, exact), expected.data()) <
          kLogitTolerance);
  }
}

TEST_CASE("a weight in FP8 that is no number reaches the logits") {
  const Fp8Folder folder(Fp8Scales::Row, true);
  for (const bool exact : {true, false}) {
    const std::vector<float> logits = logits_of(folder.open().model, exact);
    CHECK(std::any_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); }));
  }
}

TEST_CASE("FP8 becomes other formats, and a GGUF, which has no FP8") {
  const Fp8Folder folder(Fp8Scales::Block);
  const OpenedModel opened = folder.open();
  const std::vector<float> expected = logits_of(folder.open_in_f32().model, true);
  const Model q8 = quantized_model(opened.model, find_quant_mix("q8_0"));
  CHECK(q8.weights->find("blk.0.attn_q.weight")->view.type == DType::Q8_0);
  CHECK(largest_difference(logits_of(q8, true), expected.data()) < 0.2);
  TempFolder temp;
  const OpenedModel gguf = open_model(temp.write("m.gguf", gguf_bytes(opened, DType::F32)));
  CHECK(largest_difference(logits_of(gguf.model, true), expected.data()) < kLogitTolerance);
}

}  // namespace
}  // namespace skald::test
