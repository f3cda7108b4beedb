#include "app/inspect/tokenize_check.h"

#include <algorithm>

#include "app/files/json.h"
#include "app/files/jsonl_reader.h"
#include "app/files/signals.h"
#include "app/terminal/output.h"
#include "engine/base/counted.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

constexpr int kMostShown = 5;

struct Reference {
  std::string text;
  std::vector<int32_t> ids;
};

Reference parse_line(const std::string& line, const std::string& place) {
  Reference out;
  try {
    const Json json = parse_json(line);
    if (json.is_object() && json.contains("text") && json.contains("ids") &&
        json["ids"].is_array()) {
      for (const Json& id : json["ids"]) {
        const bool fits = id.is_number_integer() && id >= INT32_MIN && id <= INT32_MAX;
        if (!fits) fail(Exit::Usage, place, ": ids: expected token ids, found ", dump(id));
        out.ids.push_back(id.get<int32_t>());
      }
      out.text = json["text"].get<std::string>();
      return out;
    }
  } catch (const nlohmann::json::exception&) {
  }
  fail(Exit::Usage, place, R"(: expected {"text": "...", "ids": [...]})");
}

std::string id_text(const std::vector<int32_t>& ids, size_t at, const Tokenizer& tokenizer) {
  if (at >= ids.size()) return "the end";
  return concat(ids[at], " '", printable(tokenizer.piece(ids[at]), 40), "'");
}

std::string difference(const Reference& expected, const std::vector<int32_t>& found,
                       const Tokenizer& tokenizer) {
  const auto [theirs, ours] =
      std::mismatch(expected.ids.begin(), expected.ids.end(), found.begin(), found.end());
  const size_t at = static_cast<size_t>(theirs - expected.ids.begin());
  return concat("token ", at, " is ", id_text(found, at, tokenizer), ", expected ",
                id_text(expected.ids, at, tokenizer), ", in '", printable(expected.text, 60), "'");
}

}  // namespace

int check_ids(const std::string& file, const Tokenizer& tokenizer, const EncodeOptions& options) {
  JsonlReader reader(file);
  StandardOutput out;
  int64_t texts = 0, differ = 0;
  for (JsonlLine line; reader.next(line);) {
    const std::string place = concat(reader.name(), ": line ", line.number);
    if (line.too_long) fail(Exit::Usage, place, ": has ", line.bytes, " bytes, too many");
    const Reference expected = parse_line(line.text, place);
    const std::vector<int32_t> found = tokenizer.encode(expected.text, options);
    ++texts;
    if (found == expected.ids) continue;
    if (differ++ >= kMostShown) continue;
    out.write(concat("line ", line.number, ": ", difference(expected, found, tokenizer), "\n"));
  }
  if (interrupted_by()) return 128 + interrupted_by();
  if (texts == 0) {
    fail(Exit::Usage, reader.name(),
         R"(: has no lines; expected lines of {"text": "...", "ids": [...]})");
  }
  out.write(concat(counted(texts, "text"), ", ", differ, differ == 1 ? " differs\n" : " differ\n"));
  return static_cast<int>(differ > 0 ? Exit::Failed : Exit::Done);
}

}  // namespace skald
