// Quantized checkpoints against the packages that made them.
#include <map>

#include "models/convert/quant_mix.h"
#include "models/convert/quantized.h"
#include "models/families/family.h"
#include "tests/catch.h"
#include "tests/exported_gguf.h"
#include "tests/models/checkpoints/checkpoint_files.h"
#include "tests/sha256.h"

namespace skald::test {
namespace {

const Tensor& tensor_of(const OpenedModel& opened, const std::string& hf_name) {
  const Tensor* tensor = opened.model.weights->find(opened.description->canonical_name(hf_name));
  REQUIRE(tensor);
  return *tensor;
}

double logit_error(const Model& described, const std::string& name) {
  const nlohmann::json golden = read_json(checkpoints() / name / "golden.json");
  const auto expected = golden["logits"].get<std::vector<std::vector<float>>>();
  const auto ids = golden["ids"].get<std::vector<int32_t>>();
  const auto executor =
      cpu::make_executor(made_model(described, {}), {.exact = true, .threads = 1});
  const std::vector<float> logits = all_logits(*executor, ids);
  const size_t vocab = expected.front().size();
  double largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const size_t row = ids.size() - expected.size() + i;
    largest = std::max(largest, largest_difference(std::span(logits).subspan(row * vocab, vocab),
                                                   expected[i].data()));
  }
  return largest;
}

TEST_CASE("weights of quantized checkpoints are those of their packages to the last bit") {
  for (const std::string& name : checkpoint_names()) {
    CAPTURE(name);
    TempFolder temp;
    const OpenedModel opened = open_in_f32(temp, name);
    const nlohmann::json golden = read_json(checkpoints() / name / "golden.json");
    CHECK(golden["weights"].size() == 7);
    for (const auto& [hf_name, hash] : golden["weights"].items()) {
      CAPTURE(hf_name);
      std::vector<float> weights = decoded(tensor_of(opened, hf_name));
      for (float& weight : weights) weight += 0.0F;  // no negative zeros, which no format keeps
      CHECK(sha256_hex({reinterpret_cast<const char*>(weights.data()), weights.size() * 4}) ==
            hash);
    }
  }
}

TEST_CASE("logits of quantized checkpoints are transformers' with the packages' weights") {
  for (const std::string& name : checkpoint_names()) {
    CAPTURE(name);
    TempFolder temp;
    CHECK(logit_error(open_in_f32(temp, name).model, name) < kLogitTolerance);
  }
}

TEST_CASE("integers become blocks that hold them exactly, other weights the checkpoint's type") {
  const std::map<DType, std::vector<std::string>> expected = {
      {DType::Q4_0, {"gptq2", "gptq3", "gptq4", "ct-int4"}},
      {DType::Q5_0, {"gptq4-asym", "gptq_v2", "awq4", "ct-int4-asym"}},
      {DType::Q8_0, {"gptq8", "ct-int8"}},
      {DType::MXFP4, {"ct-mxfp4"}},
      {DType::F16, {"gptq4-act", "bnb-nf4-double", "bnb-fp4", "bnb-int8"}},
      {DType::BF16,
       {"ct-int4-act", "ct-fp8", "ct-fp8-tensor", "ct-fp8-block", "ct-nvfp4", "fp8", "modelopt-fp8",
        "modelopt-nvfp4", "bnb-nf4"}}};
  const std::string hf_name = "model.layers.0.mlp.down_proj.weight";
  size_t seen = 0;
  for (const auto& [type, names] : expected) {
    for (const std::string& name : names) {
      CAPTURE(name);
      ++seen;
      const OpenedModel opened = open_model(checkpoints() / name);
      const Tensor& tensor = tensor_of(opened, hf_name);
      CHECK(skald::name(tensor.view.type) == skald::name(type));
      if (info(type).block_elems > 1) continue;
      // Each weight is rounded once.
      TempFolder temp;
      const OpenedModel exact = open_in_f32(temp, name);
      const std::vector<float> weights = decoded(tensor), wide = decoded(tensor_of(exact, hf_name));
      std::vector<std::byte> row(wide.size() * 2);
      std::vector<float> rounded(wide.size());
      info(type).encode_row(wide.data(), row.data(), std::ssize(wide), nullptr);
      info(type).decode_row(row.data(), rounded.data(), std::ssize(wide));
      CHECK((weights == rounded));  // thousands of numbers are no message
    }
  }
  CHECK(seen == checkpoint_names().size());
}

TEST_CASE("a quantized checkpoint becomes a GGUF with the same logits") {
  for (const std::string name : {"gptq4-asym", "awq4", "ct-fp8-block", "ct-mxfp4"}) {
    CAPTURE(name);
    TempFolder temp;
    const std::string bytes = gguf_bytes(open_in_f32(temp, name), DType::F32);
    CHECK(logit_error(open_model(temp.write("m.gguf", bytes)).model, name) < kLogitTolerance);
  }
}

TEST_CASE("a checkpoint in FP8 is quantized to another type while it is loaded") {
  const Model model =
      quantized_model(open_model(checkpoints() / "fp8").model, find_quant_mix("q8_0"));
  CHECK(model.weights->find("blk.0.attn_q.weight")->view.type == DType::Q8_0);
  CHECK(logit_error(model, "fp8") < 0.1);
}

}  // namespace
}  // namespace skald::test
