#include "app/inspect/tokenize_check.h"

#include <algorithm>
#include <fstream>
#include <iostream>

#include "app/files/json.h"
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
  std::ifstream opened;
  if (file != "-") {
    opened.open(file, std::ios::binary);
    if (!opened) fail(Exit::Failed, printable(file), ": cannot be read");
  }
  std::istream& in = file == "-" ? std::cin : opened;
  StandardOutput out;
  std::string line;
  int64_t texts = 0, differ = 0;
  for (int64_t number = 1; !interrupted_by() && std::getline(in, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Reference expected = parse_line(line, concat(printable(file), ": line ", number));
    const std::vector<int32_t> found = tokenizer.encode(expected.text, options);
    ++texts;
    if (found == expected.ids) continue;
    if (differ++ >= kMostShown) continue;
    out.write(concat("line ", number, ": ", difference(expected, found, tokenizer), "\n"));
  }
  if (interrupted_by()) return 128 + interrupted_by();
  if (in.bad()) fail(Exit::Failed, printable(file), ": cannot be read");
  if (texts == 0) {
    fail(Exit::Usage, printable(file),
         R"(: has no lines; expected lines of {"text": "...", "ids": [...]})");
  }
  out.write(concat(counted(texts, "text"), ", ", differ, differ == 1 ? " differs\n" : " differ\n"));
  return static_cast<int>(differ > 0 ? Exit::Failed : Exit::Done);
}

}  // namespace skald
