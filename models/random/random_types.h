// The types that random models can have: which format each matrix has.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/quant/dtype.h"

namespace skald {

// One format, or a mix of a quantizer: `head` for the output (or the tied embedding), `more` for
// attn_v and ffn_down of the layers that lose most, `experts` for experts.
struct RandomType {
  std::string name;
  DType most, more, head;
  std::optional<DType> experts = {};  // else as `most` and `more`
};

const std::vector<RandomType>& all_random_types();

}  // namespace skald
