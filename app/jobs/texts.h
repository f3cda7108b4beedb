// Fields of a line that hold texts or token ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "app/files/json_fwd.h"

namespace skald {

struct LineText {
  std::string text;
  std::vector<int32_t> ids;
  bool is_ids = false;
};

// `field` names the value in errors. These throw LineError.
std::vector<int32_t> read_ids(std::string_view field, const Json& list);
// A text, a list of ids, or a list of either.
std::vector<LineText> read_texts(std::string_view field, const Json& value);

}  // namespace skald
