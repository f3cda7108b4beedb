// Which tool quantized a checkpoint, and what its configuration says about all matrices. What the
// tensors themselves show (sizes, groups, zero points) is read from them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/quant/dtype.h"

namespace skald {

class HfConfig;

enum class QuantTool : uint8_t { Gptq, Awq, CompressedTensors, Fp8, ModelOpt, BitsAndBytes };

struct QuantMethod {
  QuantTool tool = QuantTool::Gptq;
  std::string name;             // quant_method: "gptq"
  std::string where;            // the configuration, for messages
  DType plain = DType::BF16;    // the checkpoint's own type: of weights that become plain numbers
  std::vector<int> bits;        // the widths that integers may have: of GPTQ and AWQ, one
  bool ordered = false;         // groups follow an order of columns that the file must have
  int64_t group = 0;            // GPTQ's and AWQ's columns of a group; 0: all of a row
  bool zeros_less_one = false;  // GPTQ's first format stores zero points less 1
  int64_t block_rows = 0,
          block_cols = 0;  // the block of an FP8 scale; 0: the scales have no blocks
};

// Reads quantization_config, or the file that a tool writes in its place: hf_quant_config.json,
// quantize_config.json (GPTQ), quant_config.json (AWQ). Empty: the model is
// not quantized, or by the method `own`, which its family reads itself. Throws an Error that names
// the key if the weights mean something that skald does not read.
std::optional<QuantMethod> read_quant_method(const HfConfig& config,
                                             const std::filesystem::path& folder,
                                             std::string_view own);

}  // namespace skald
