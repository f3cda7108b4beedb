// A model that is quantized while a GPU loads it computes, bit for bit, what the model computes
// whose weights the host has quantized.
#include <cmath>
#include <filesystem>

#include "cuda/cuda.h"
#include "models/convert/quantized.h"
#include "models/open.h"
#include "tests/catch.h"
#include "tests/cuda/kernels/switches.h"
#include "tests/cuda/run/golden_gpu.h"
#include "tests/error_text.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

namespace fs = std::filesystem;

// The logits of every row: the tokens in two steps, then one by one.
std::vector<std::map<int64_t, std::vector<float>>> logits_of(const Model& model,
                                                             RunOptions options = {}) {
  std::vector<int32_t> ids = {1, 45, 101, 7, 300, 2, 99, 511, 17, 250, 33, 8, 400, 64, 5, 123};
  for (int32_t& id : ids) id %= static_cast<int32_t>(model.config.vocab);
  const auto executor = cuda::make_executor(model, options, 0, switches());
  return {run_text(*executor, ids, 12), run_text(*executor, ids, 1)};
}

// Writes the folder's model, with one weight of the tensor `name` changed.
void write_with(const TempFolder& temp, const fs::path& folder, const std::string& name,
                int64_t row, float value) {
  const OpenedModel opened = open_model(folder);
  const TensorView& view = opened.model.weights->find(name)->view;
  std::string file = read_file(folder / "model.safetensors");
  const std::string bytes(reinterpret_cast<const char*>(view.row(row)),
                          static_cast<size_t>(view.row_bytes));
  const size_t at = file.find(bytes);
  REQUIRE(at != std::string::npos);
  std::byte bits[4];
  info(view.type).encode_row(&value, bits, 1, nullptr);
  file.replace(at, static_cast<size_t>(info(view.type).block_bytes),
               reinterpret_cast<const char*>(bits),
               static_cast<size_t>(info(view.type).block_bytes));
  temp.write("model.safetensors", file);
  temp.write("config.json", read_file(folder / "config.json"));
}

}  // namespace

TEST_CASE("quantized while a GPU loads it, a model is the one that the host quantizes", "[slow]") {
  const std::string name =
      GENERATE("demo", "llama-mha", "llama3-gqa-tied-ropescale", "openllama-headdim100",
               "qwen2-bias-tied", "phi3-fused", "mixtral-moe");
  const fs::path folder = name == "demo" ? source_dir() / "models" / "demo" : find_golden(name);
  if (folder.empty()) return;
  const OpenedModel opened = open_model(folder);
  for (const std::string_view type : quant_mix_names()) {
    CAPTURE(name, type);
    const Model described = quantized_model(opened.model, find_quant_mix(type));
    if (!cuda::model_problem(described).empty()) continue;
    const Model made = made_model(described, {});
    const auto expected = logits_of(made);
    CHECK(logits_of(described) == expected);
    if (type == "q4_k_m") {
      CHECK(logits_of(described, {.prefill_copy = PrefillCopy::Off}) ==
            logits_of(made, {.prefill_copy = PrefillCopy::Off}));
    }
  }
}

TEST_CASE("a weight that its format cannot hold is the same error on the GPU and on the host") {
  const fs::path folder = find_golden("llama-mha");
  for (const float bad : {INFINITY, NAN}) {
    for (const char* type : {"q8_0", "q4_0", "q4_k_m", "bf16"}) {
      for (const char* name : {"blk.1.ffn_up.weight", "token_embd.weight", "blk.0.attn_k.weight"}) {
        CAPTURE(bad, type, name);
        TempFolder temp;
        write_with(temp, folder, name, 5, bad);
        const Model model = quantized_model(open_model(temp.path()).model, find_quant_mix(type));
        const std::string on_host = error_text([&] { made_model(model, {}); });
        CHECK(has(on_host, concat("tensor '", name, "' holds ")));
        CHECK(error_text([&] { cuda::make_executor(model, {}, 0); }) == on_host);
      }
    }
  }
}

}  // namespace skald::test
