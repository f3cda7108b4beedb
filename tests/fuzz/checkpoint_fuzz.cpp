// The input is a safetensors file of a quantized checkpoint. Reads its matrices by each method, and
// every row.
#include <vector>

#include "engine/base/error.h"
#include "models/checkpoints/weights.h"
#include "tests/fuzz/driver.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace skald;
  constexpr int64_t kMostRow = 1 << 20;  // numbers: a wider row only takes longer
  const MemoryFile file(data, size);
  const auto same = [](std::string_view name) { return std::string(name); };
  for (const QuantTool tool : {QuantTool::Gptq, QuantTool::Awq, QuantTool::CompressedTensors,
                               QuantTool::Fp8, QuantTool::ModelOpt, QuantTool::BitsAndBytes}) {
    for (int settings = 0; settings < 8; ++settings) {
      constexpr int kBits[] = {2, 3, 4, 8};
      QuantMethod method{.tool = tool, .where = "fuzz", .bits = {kBits[settings % 4]}};
      if (tool == QuantTool::CompressedTensors && settings >= 4) method.bits.push_back(8);
      method.ordered = method.zeros_less_one = settings >= 4;
      method.group = settings % 2 * 32;
      method.block_rows = method.block_cols = settings % 2 * 128;
      try {
        const auto weights = quantized_weights(
            open_safetensors(file.path(), part_names(same), RawTensors::Kept), method);
        std::vector<std::byte> row;
        for (const Tensor& tensor : weights->tensors()) {
          if (!tensor.view.reader || tensor.view.cols > kMostRow) continue;
          row.resize(static_cast<size_t>(tensor.view.own_row_bytes()));
          for (const int64_t at : {int64_t{0}, tensor.view.rows / 2, tensor.view.rows - 1}) {
            tensor.view.copy_row(at, row.data());
          }
        }
      } catch (const Error&) {
      }
    }
  }
  return 0;
}
