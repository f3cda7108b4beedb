// The tiny models of all families (tests/family_golden.h) on the GPU: with their own f16 weights,
// and with the same numbers as float32, where logits must agree closely; and with the kernels of
// older GPUs.
#include "tests/cuda/kernels/switches.h"
#include "tests/cuda/run/golden_gpu.h"
#include "tests/family_golden.h"

namespace skald::test {

using Json = nlohmann::json;

TEST_CASE("tiny models of all families predict on the GPU what Hugging Face predicts") {
  const std::string name =
      GENERATE("nemo", "ministral", "yarn", "dynamic", "granite", "smollm3", "longrope", "gemma",
               "gemma2", "gemma3", "olmo2", "olmo3", "qwen3", "qwen3-window", "mixtral", "qwen3moe",
               "qwen3moe-dense", "nanbeige");
  const bool floats = GENERATE(true, false);
  const int limit = GENERATE(0, 80, 75);
  if (floats && limit == 80) return;  // float32 has the same kernels for 75 and 80
  TempFolder temp;
  const fs::path folder = write_folder(temp, name);
  if (floats) temp.write("m/model.safetensors", as_floats(read_file(folder / "model.safetensors")));
  const Model model = open_model(folder).model;
  for (const std::string text : read_json(golden_folder(name) / "golden.json").at("texts")) {
    CAPTURE(name, text, floats, limit);
    const Json golden = read_json(golden_folder(name) / (text + ".json"));
    RunOptions options;
    options.context = golden["context"].get<int64_t>();
    options.arch_limit = limit;
    const auto executor = cuda::make_executor(model, options, 0, switches());
    check_golden(
        *executor, golden, read_npy(golden_folder(name) / (text + ".npy")), floats,
        concat(name, " ", text, floats ? " f32" : " f16", limit ? concat(" sm_", limit) : ""));
  }
}

}  // namespace skald::test
