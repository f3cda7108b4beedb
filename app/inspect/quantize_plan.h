// Plans what skald quantize writes: the GGUF's head and the format of each tensor. Reports the plan
// as text and JSON.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "models/convert/gguf_export.h"
#include "models/convert/importance.h"
#include "models/convert/quant_mix.h"

namespace skald {

struct QuantizeSettings {
  const QuantMix* mix = nullptr;
  std::vector<std::pair<std::string, DType>> overrides;  // regex for tensor names, format
  bool requantize = false;                               // allow quantized sources
  const ImportanceFile* importances = nullptr;
};

struct QuantizePlan {
  std::string name;  // the name of the mix
  GgufHead head;     // complete
  std::vector<MadeTensor> tensors;
  std::vector<bool> other_rows;    // per tensor: rows are no whole blocks of the mix's format
  std::vector<std::string> notes;  // for stderr
  int64_t source_bytes = 0, parameters = 0;

  int64_t tensor_bytes() const;
};

// Parses "attn_v=q6_k". Throws Error(Exit::Usage).
std::pair<std::string, DType> parse_override(const std::string& text);

QuantizePlan plan_quantize(const OpenedModel& opened, const QuantizeSettings& settings);

std::string to_text(const QuantizePlan& plan, bool tensors);
std::string to_json(const QuantizePlan& plan, bool written);

}  // namespace skald
