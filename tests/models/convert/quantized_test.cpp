// Quantizing while loading: the model is described first, the weights are made later.
#include "models/convert/quantized.h"

#include <algorithm>
#include <random>

#include "models/fingerprint.h"
#include "models/open.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/golden.h"
#include "tests/safetensors_writer.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

OpenedModel described(const OpenedModel& opened, const char* type) {
  OpenedModel model = opened;
  model.model = quantized_model(opened.model, find_quant_mix(type));
  return model;
}

}  // namespace

TEST_CASE("a quantized model is described without its weights, and its weights are made once") {
  const OpenedModel opened = open_model(find_golden("llama-mha"));
  const Model model = described(opened, "q4_k_m").model;
  const Tensor& up = *model.weights->find("blk.0.ffn_up.weight");
  const Tensor& source = *opened.model.weights->find("blk.0.ffn_up.weight");
  CHECK(up.source.data == source.view.data);
  CHECK(info(up.view.type).block_elems > 1);
  CHECK(up.view.bytes() < source.view.bytes());
  // Norms keep their format.
  CHECK(model.weights->find("output_norm.weight")->source.data == nullptr);
  for (const Weight& weight : model.program().weights) {
    const Tensor& tensor = *model.weights->find(weight.name);
    CHECK(weight.source.data == tensor.source.data);
  }

  const Model made = made_model(model, {.threads = 2});
  CHECK(made_model(model, {}).weights == made.weights);
  CHECK(made_model(made, {}).weights == made.weights);
  CHECK(made.weights->bytes() == model.weights->bytes());
  for (const Tensor& tensor : made.weights->tensors()) CHECK_FALSE(tensor.source.data);
}

TEST_CASE("reading a part of a weight that is not made yet gives the bytes of the made weight") {
  const OpenedModel opened = open_model(find_golden("llama-mha"));
  std::mt19937 random(3);
  for (const char* type : {"f32", "f16", "q8_0", "q4_0", "q4_k_m", "q5_k_s"}) {
    const Model model = described(opened, type).model, made = made_model(model, {.threads = 1});
    for (const Tensor& tensor : model.weights->tensors()) {
      CAPTURE(type, tensor.name);
      const int64_t bytes = tensor.view.bytes();
      const Tensor& there = *made.weights->find(tensor.name);
      REQUIRE(there.view.bytes() == bytes);
      for (int i = 0; i < 8; ++i) {
        const auto first = static_cast<int64_t>(random() % static_cast<uint64_t>(bytes));
        const int64_t count = std::min<int64_t>(bytes - first, random() % 1000);
        std::vector<std::byte> part(static_cast<size_t>(count));
        model.weights->read(tensor, first, part);
        CHECK(std::equal(part.begin(), part.end(), there.view.data + first));
      }
    }
  }
}

TEST_CASE("a quantized model has the same hash before and after its weights are made") {
  const OpenedModel opened = open_model(find_golden("llama-mha"));
  std::string before = model_hash(opened);
  for (const char* type : {"bf16", "q8_0", "q4_k_m"}) {
    CAPTURE(type);
    OpenedModel model = described(opened, type);
    const std::string hash = model_hash(model);
    model.model = made_model(model.model, {.threads = 2});
    CHECK(model_hash(model) == hash);
    CHECK(hash != before);
    before = hash;
  }
}

TEST_CASE(
    "while loading, a weight that the format cannot hold is an error that names tensor and row") {
  const OpenedModel opened = open_model(find_golden("llama-mha"));
  const Tensor& tensor = *opened.model.weights->find("blk.0.ffn_up.weight");
  const int64_t offset = 3 * tensor.view.row_bytes;
  TempFolder temp;
  const std::filesystem::path folder = find_golden("llama-mha");
  std::string file = read_file(folder / "model.safetensors");
  // Makes the first weight of row 3 infinite.
  const std::string row(reinterpret_cast<const char*>(tensor.view.data + offset),
                        static_cast<size_t>(tensor.view.row_bytes));
  const size_t at = file.find(row);
  REQUIRE(at != std::string::npos);
  const float infinite = INFINITY;
  std::byte bits[4];
  info(tensor.view.type).encode_row(&infinite, bits, 1, nullptr);
  std::copy_n(reinterpret_cast<const char*>(bits), info(tensor.view.type).block_bytes,
              file.begin() + static_cast<std::ptrdiff_t>(at));
  temp.write("model.safetensors", file);
  temp.write("config.json", read_file(folder / "config.json"));
  const Model model = described(open_model(temp.path()), "q8_0").model;
  const std::string text = error_text([&] { made_model(model, {}); }, Exit::Model);
  CHECK(has(text, "tensor 'blk.0.ffn_up.weight' holds inf in row 3, which Q8_0 cannot hold"));
  // The same error again, so nothing was half made.
  CHECK(error_text([&] { made_model(model, {}); }, Exit::Model) == text);
}

}  // namespace skald::test
