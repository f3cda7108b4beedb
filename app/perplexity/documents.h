// The documents of the `doc` protocol. A file is one document. A *.jsonl file has one document per
// line: a JSON string, or an object with "text". Documents are read one at a time; only the
// positions of the lines are kept in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "app/files/text_file.h"

namespace skald {

class Documents {
 public:
  explicit Documents(const std::vector<std::string>& paths);

  int64_t count() const { return static_cast<int64_t>(places_.size()); }
  int64_t bytes() const { return bytes_; }               // of all files together
  const std::string& sha256() const { return sha256_; }  // of all files, concatenated
  std::string text(int64_t document) const;

 private:
  struct Place {
    size_t file;
    int64_t offset, bytes;
    int64_t line;  // in a *.jsonl file, from 1; else 0
  };

  std::vector<std::unique_ptr<TextFile>> files_;
  std::vector<Place> places_;
  std::string sha256_;
  int64_t bytes_ = 0;
};

// Counts words as lm-evaluation-harness does: Python's len(re.split(r"\s+", text)).
int64_t count_words(std::string_view text);

}  // namespace skald
