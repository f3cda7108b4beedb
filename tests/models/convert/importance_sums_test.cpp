// Importances of real products: against a plain computation, and of a folder against its GGUF.
#include "models/convert/importance_sums.h"

#include <cmath>

#include "engine/base/error.h"
#include "models/convert/quantized.h"
#include "models/files/gguf.h"
#include "tests/catch.h"
#include "tests/exported_gguf.h"
#include "tests/paths.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

namespace fs = std::filesystem;

const std::vector<int32_t> kTokens = {1, 40, 41, 42, 7, 9, 40, 11, 50, 3, 8, 30};

std::shared_ptr<const GgufFile> importances_of(const fs::path& path, const TempFolder& folder) {
  const OpenedModel opened = open_model(path);
  ImportanceSums sums(opened);
  const Model model = made_model(opened.model, {});
  const auto executor =
      cpu::make_observed_executor(model, {.exact = true, .rows = 5, .threads = 2}, sums);
  Sequence sequence = executor->new_sequence();
  for (size_t at = 0; at < kTokens.size(); at += 5) {
    const size_t count = std::min<size_t>(5, kTokens.size() - at);
    const SeqRows step{&sequence, std::span(kTokens).subspan(at, count), Want::Nothing};
    executor->run({&step, 1});
  }
  CHECK(sums.matrices() > 0);
  return open_gguf(folder.write("sums.gguf", sums.file({"a.txt", 12, 1})));
}

std::vector<float> floats(const GgufFile& file, const std::string& name) {
  const Tensor* tensor = file.find(name);
  REQUIRE(tensor);
  std::vector<float> out(static_cast<size_t>(tensor->view.rows * tensor->view.cols));
  std::vector<std::byte> scratch;
  for (int64_t r = 0; r < tensor->view.rows; ++r) {
    tensor->view.decode_row(r, out.data() + r * tensor->view.cols, scratch);
  }
  return out;
}

}  // namespace

TEST_CASE("the importances of the first layer's queries are the normed embedding's squares") {
  TempFolder folder;
  const fs::path path = source_dir() / "models" / "demo";
  const auto file = importances_of(path, folder);
  CHECK(file->metadata().text("general.type") == "imatrix");
  CHECK(file->metadata().strings("imatrix.datasets").at(0) == "a.txt");
  CHECK(file->metadata().uint("imatrix.chunk_count") == 1);
  CHECK(file->metadata().uint("imatrix.chunk_size") == 12);

  const OpenedModel opened = open_model(path);
  const TensorView embedding = opened.model.weights->find("token_embd.weight")->view;
  const TensorView norm = opened.model.weights->find("blk.0.attn_norm.weight")->view;
  const auto dim = static_cast<size_t>(embedding.cols);
  std::vector<float> row(dim), weight(dim);
  std::vector<double> expected(dim);
  std::vector<std::byte> scratch;
  norm.decode_row(0, weight.data(), scratch);
  for (const int32_t token : kTokens) {
    embedding.decode_row(token, row.data(), scratch);
    double sum = 0;
    for (float x : row) sum += double{x} * x;
    const double mean = sum / static_cast<double>(dim) + opened.model.config.norm_eps;
    for (size_t i = 0; i < dim; ++i) expected[i] += std::pow(row[i] * weight[i], 2) / mean;
  }
  for (const char* part : {"attn_q", "attn_k", "attn_v"}) {
    const std::string tensor = concat("blk.0.", part, ".weight");
    const std::vector<float> sums = floats(*file, tensor + ".in_sum2");
    CHECK(file->find(tensor + ".in_sum2")->shape ==
          std::vector<int64_t>{1, static_cast<int64_t>(dim)});
    REQUIRE(sums.size() == dim);
    for (size_t i = 0; i < dim; ++i) CHECK(sums[i] == Approx(expected[i]).epsilon(1e-4));
    CHECK(floats(*file, tensor + ".counts") == std::vector<float>{12});
  }
}

TEST_CASE("a folder has the importances of its GGUF, with the GGUF's names and experts") {
  for (const char* golden : {"gpt_oss", "gemma4-moe", "llama3-gqa-tied-ropescale"}) {
    CAPTURE(golden);
    TempFolder folder;
    const fs::path path = data_dir() / "goldens" / golden;
    const fs::path gguf = folder.write("f32.gguf", gguf_bytes(open_model(path), DType::F32));
    const auto of_folder = importances_of(path, folder);
    TempFolder other;
    const auto of_gguf = importances_of(gguf, other);
    REQUIRE(of_folder->tensors().size() == of_gguf->tensors().size());
    bool experts = false;
    for (const Tensor& tensor : of_gguf->tensors()) {
      CAPTURE(tensor.name);
      const Tensor* found = of_folder->find(tensor.name);
      REQUIRE(found);
      CHECK(found->shape == tensor.shape);
      experts = experts || tensor.shape[0] > 1;
      const std::vector<float> a = floats(*of_folder, tensor.name),
                               b = floats(*of_gguf, tensor.name);
      double size = 0, difference = 0;
      for (size_t i = 0; i < a.size(); ++i) {
        size += double{b[i]} * b[i];
        difference += std::pow(double{a[i]} - b[i], 2);
      }
      CHECK(difference <= 1e-4 * size);
    }
    CHECK(experts == (std::string(golden) != "llama3-gqa-tied-ropescale"));
  }
}

}  // namespace skald::test
