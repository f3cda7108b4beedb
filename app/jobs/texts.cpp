#include "app/jobs/texts.h"

#include "app/files/json.h"
#include "app/jobs/fields.h"
#include "app/jobs/line.h"
#include "engine/base/error.h"

namespace skald {

std::vector<int32_t> read_ids(std::string_view field, const Json& list) {
  std::vector<int32_t> ids;
  for (const Json& id : list) {
    const bool good = id.is_number_integer() && id >= 0 && id <= INT32_MAX;
    if (!good) fail_field(field, "token ids", id);
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

std::vector<LineText> read_texts(std::string_view field, const Json& value) {
  constexpr size_t kMostTexts = 4096;
  constexpr std::string_view kExpected = "a text, a list of token ids, or a list of these";
  if (value.is_string()) return {{value.get<std::string>(), {}, false}};
  if (!value.is_array() || value.empty()) fail_field(field, kExpected, value);
  if (value.front().is_number()) return {{"", read_ids(field, value), true}};
  if (value.size() > kMostTexts) {
    fail_request(concat("field '", field, "': has ", value.size(), " texts, at most ", kMostTexts,
                        " go in one line"));
  }
  std::vector<LineText> texts;
  for (const Json& one : value) {
    const bool ids = one.is_array();
    if (ids != value.front().is_array() || (!ids && !one.is_string())) {
      fail_field(field, kExpected, one);
    }
    if (ids) {
      texts.push_back({"", read_ids(field, one), true});
    } else {
      texts.push_back({one.get<std::string>(), {}, false});
    }
  }
  return texts;
}

}  // namespace skald
