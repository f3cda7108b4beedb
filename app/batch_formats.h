// The "response_format" of a batch's lines: lines that ask for the same share its masks. Any number
// of threads.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "app/constraint.h"

namespace skald {

class BatchFormats {
 public:
  // Borrows the tokenizer.
  BatchFormats(const Tokenizer& tokenizer, std::vector<int32_t> stop_ids)
      : tokenizer_(tokenizer), stop_ids_(std::move(stop_ids)) {}

  // For one text. Throws Error where `format`, the JSON of a response_format, cannot be done;
  // nullptr where it asks for nothing.
  std::unique_ptr<TokenFilter> filter(const std::string& format, TextStream::Begin begin);

 private:
  std::shared_ptr<grammar::Masks> masks(const std::string& format);

  const Tokenizer& tokenizer_;
  const std::vector<int32_t> stop_ids_;
  std::mutex mutex_;
  std::shared_ptr<const grammar::Vocabulary> vocabulary_;  // made when first asked for
  std::map<std::string, std::shared_ptr<grammar::Masks>> known_;
};

}  // namespace skald
