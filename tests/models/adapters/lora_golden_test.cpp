// Models with adapters against PEFT's logits in float32.
#include <cstring>

#include "models/convert/quantized.h"
#include "tests/catch.h"
#include "tests/models/adapters/adapter_files.h"

namespace skald::test {
namespace {

double difference_from(const Model& model, const fs::path& logits_npy,
                       cpu::KernelSet kernels = cpu::KernelSet::Fast, int64_t rows = 512) {
  const Matrix expected = read_npy(logits_npy);
  const auto executor =
      cpu::make_executor(model, {.exact = true, .rows = rows, .threads = 1}, kernels);
  double largest = 0;
  for_each_logits(*executor, lora_ids(), [&](size_t position, std::span<const float> logits) {
    const float* row = expected.row(static_cast<int64_t>(position));
    largest = std::max(largest, largest_difference(logits, row));
  });
  return largest;
}

OpenedModel folder_with(const TempFolder& temp, const std::string& base,
                        const std::vector<LoraUse>& uses) {
  return with_adapter(open_model(write_folder(temp, base)), uses);
}

TEST_CASE("an adapter of a folder gives PEFT's logits") {
  const auto [base, name] = GENERATE(std::pair<std::string, std::string>{"nemo", "all"},
                                     std::pair<std::string, std::string>{"nemo", "rslora"},
                                     std::pair<std::string, std::string>{"longrope", "fused"});
  CAPTURE(name);
  TempFolder temp;
  const OpenedModel opened = folder_with(temp, base, {{lora(name)}});
  const fs::path expected = lora(name) / "logits.npy";
  CHECK(difference_from(opened.model, expected) < kLogitTolerance);
  CHECK(difference_from(opened.model, expected, cpu::KernelSet::Reference) < kLogitTolerance);
  CHECK(difference_from(opened.model, expected, cpu::KernelSet::Fast, 5) < kLogitTolerance);
  // The adapter matters.
  CHECK(difference_from(open_model(write_folder(temp, base)).model, expected) > 0.05);
}

TEST_CASE("an adapter of a folder gives PEFT's logits on a GGUF, whose heads are interleaved") {
  const auto [base, name] = GENERATE(std::pair<std::string, std::string>{"nemo", "all"},
                                     std::pair<std::string, std::string>{"longrope", "fused"});
  CAPTURE(name);
  TempFolder temp;
  const OpenedModel opened = with_adapter(open_model(write_gguf(temp, base)), {{lora(name)}});
  CHECK(difference_from(opened.model, lora(name) / "logits.npy") < kLogitTolerance);
}

TEST_CASE("a GGUF adapter gives the same logits on a GGUF and on a folder") {
  TempFolder temp;
  const OpenedModel gguf = open_model(write_gguf(temp, "nemo"));
  const Adapter adapter = load_adapter(gguf, "", std::vector<LoraUse>{{lora("all")}});
  const fs::path file = temp.write("adapter.gguf", gguf_adapter(adapter, "llama").file());
  const fs::path expected = lora("all") / "logits.npy";
  CHECK(difference_from(with_adapter(gguf, {{file}}).model, expected) < kLogitTolerance);
  CHECK(difference_from(folder_with(temp, "nemo", {{file}}).model, expected) < kLogitTolerance);
}

TEST_CASE("several adapters, and scales, add up") {
  TempFolder temp;
  const OpenedModel both = folder_with(temp, "nemo", {{lora("all")}, {lora("rslora")}});
  CHECK(difference_from(both.model, data_dir() / "lora" / "both.npy") < kLogitTolerance);
  const OpenedModel parts =
      folder_with(temp, "nemo", {{lora("all"), 0.25f}, {lora("rslora")}, {lora("all"), 0.75f}});
  CHECK(difference_from(parts.model, data_dir() / "lora" / "both.npy") < kLogitTolerance);
  const OpenedModel undone =
      folder_with(temp, "nemo", {{lora("all")}, {lora("rslora"), 2}, {lora("rslora"), -2}});
  CHECK(difference_from(undone.model, lora("all") / "logits.npy") < kLogitTolerance);
}

TEST_CASE("a merged adapter gives PEFT's logits up to the rounding of 16 bits") {
  TempFolder temp;
  const fs::path folder = write_folder(temp, "nemo");
  const OpenedModel opened = with_adapter(open_model(folder), {{lora("all")}});
  Model base = opened.model;
  const auto adapters = std::exchange(base.adapters, nullptr);
  const Model merged = made_model(merged_model(base, adapters), {.threads = 1});
  CHECK(merged.weights->bytes() == base.weights->bytes());
  CHECK(difference_from(merged, lora("all") / "logits.npy") < 0.03);
}

TEST_CASE("a merged weight is the rounded sum") {
  TempFolder temp;
  const OpenedModel opened = open_model(write_folder(temp, "nemo"));
  const auto adapters = std::make_shared<Adapters>();
  adapters->push_back(load_adapter(opened, "", std::vector<LoraUse>{{lora("rslora")}}));
  const Model merged = made_model(merged_model(opened.model, adapters), {.threads = 1});
  const AdapterMatrix& m = adapters->front().matrices.front();
  const TensorView &was = opened.model.weights->find(m.tensor)->view,
                   &is = merged.weights->find(m.tensor)->view;
  REQUIRE(is.type == was.type);
  const auto cols = static_cast<size_t>(was.cols);
  std::vector<float> before(cols), after(cols), expected(cols);
  std::vector<std::byte> scratch, bytes(static_cast<size_t>(was.own_row_bytes()));
  for (int64_t row = 0; row < was.rows; ++row) {
    was.decode_row(row, before.data(), scratch);
    for (size_t col = 0; col < cols; ++col) {
      double sum = before[col];
      for (int64_t i = 0; i < m.rank; ++i) {
        sum += double{m.up[static_cast<size_t>(row * m.rank + i)]} *
               double{m.down[static_cast<size_t>(i) * cols + col]};
      }
      expected[col] = static_cast<float>(sum);
    }
    info(was.type).encode_row(expected.data(), bytes.data(), was.cols, nullptr);
    CHECK(std::memcmp(bytes.data(), is.row(row), bytes.size()) == 0);
  }
  const Tensor* other = opened.model.weights->find("blk.0.attn_k.weight");
  CHECK(merged.weights->find(other->name)->view.data == other->view.data);
}

}  // namespace
}  // namespace skald::test
