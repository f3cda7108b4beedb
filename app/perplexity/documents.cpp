#include "app/perplexity/documents.h"

#include <algorithm>

#include "app/files/json.h"
#include "engine/base/error.h"
#include "engine/base/sha256.h"
#include "tokenizer/text/utf8.h"

namespace skald {
namespace {

constexpr int64_t kBlock = int64_t{1} << 20;
constexpr int64_t kMostDocumentBytes = int64_t{256} << 20;

// True for the characters that \s matches in Python.
bool python_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
         c == 0x205f || c == 0x3000;
}

}  // namespace

Documents::Documents(const std::vector<std::string>& paths) {
  Sha256 hash;
  for (const std::string& path : paths) {
    const TextFile& file = *files_.emplace_back(std::make_unique<TextFile>(path));
    const size_t index = files_.size() - 1;
    const bool lines = path.ends_with(".jsonl");
    int64_t start = 0, line = 1;
    for (int64_t at = 0; at < file.size();) {
      const std::string block = file.read(at, kBlock);
      hash.add(block);
      for (size_t newline = 0; lines && (newline = block.find('\n', newline)) != block.npos;) {
        const int64_t end = at + static_cast<int64_t>(newline++);
        if (end > start) places_.push_back({index, start, end - start, line});
        start = end + 1;
        ++line;
      }
      at += std::ssize(block);
    }
    if (start < file.size())
      places_.push_back({index, start, file.size() - start, lines ? line : 0});
    bytes_ += file.size();
  }
  sha256_ = hash.hex();
  if (places_.empty()) {
    fail(Exit::Usage, files_.front()->name(), ": the file is empty; the doc protocol needs text");
  }
}

std::string Documents::text(int64_t document) const {
  const Place& place = places_[static_cast<size_t>(document)];
  const TextFile& file = *files_[place.file];
  if (place.bytes > kMostDocumentBytes) {
    fail(Exit::Failed, file.name(), ": a document has ", place.bytes, " bytes, the limit is ",
         kMostDocumentBytes, "; split it, or use another protocol");
  }
  std::string text = file.read(place.offset, place.bytes);
  file.check_text(text, place.offset);
  if (place.line == 0) return text;
  const Json json = parse_json_or_null(text);
  if (json.is_string()) return json.get<std::string>();
  if (json.is_object() && json.contains("text") && json["text"].is_string()) {
    return json["text"].get<std::string>();
  }
  fail(Exit::Failed, file.name(), ": line ", place.line,
       ": expected a JSON string, or an object with a \"text\"");
}

int64_t count_words(std::string_view text) {
  int64_t words = 1;
  bool in_space = false;
  while (!text.empty()) {
    const size_t length = std::max<size_t>(utf8_length(text), 1);
    const bool space =
        python_space(utf8_length(text) ? utf8_code_point(text.substr(0, length)) : 0);
    words += space && !in_space;
    in_space = space;
    text.remove_prefix(length);
  }
  return words;
}

}  // namespace skald
