// What skald quantize is going to write: the head, and each tensor with its format; and reports of
// it for people and programs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "models/convert/gguf_export.h"
#include "models/convert/quant_mix.h"

namespace skald {

struct QuantizeSettings {
  const QuantMix* mix = nullptr;
  std::vector<std::pair<std::string, DType>> wishes;  // pattern of a tensor's name, format
  bool requantize = false;                            // from formats that are not floats too
};

struct QuantizePlan {
  std::string name;  // of the mix
  GgufHead head;     // complete
  std::vector<MadeTensor> tensors;
  std::vector<bool> other_rows;    // of each: another format, since rows are no whole blocks
  std::vector<std::string> notes;  // for stderr
  int64_t source_bytes = 0, parameters = 0;

  int64_t tensor_bytes() const;
};

// "attn_v=q6_k". Throws Error(Exit::Usage).
std::pair<std::string, DType> parse_wish(const std::string& text);

QuantizePlan plan_quantize(const OpenedModel& opened, const QuantizeSettings& settings);

std::string to_text(const QuantizePlan& plan, bool tensors);
std::string to_json(const QuantizePlan& plan, bool written);

}  // namespace skald
