// The grammars of a batch's response_formats: each is compiled once, and the texts that are written
// by it share what is found out about its tokens, whatever line they belong to. Any thread may ask.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "app/generate/constraint.h"
#include "engine/schedule/generation.h"
#include "tokenizer/text/tokenizer.h"

namespace skald {

class BatchConstraints {
 public:
  BatchConstraints(const Tokenizer& tokenizer, std::vector<int32_t> stop_ids)
      : tokenizer_(tokenizer), stop_ids_(std::move(stop_ids)) {}

  // For a text that is to be written by a response_format, as JSON. Throws Error(Exit::Usage) for a
  // schema that cannot be followed.
  std::unique_ptr<TokenFilter> filter(const std::string& response_format, TextStream::Begin begin);

 private:
  std::shared_ptr<grammar::Masks> masks(const std::string& response_format);

  const Tokenizer& tokenizer_;
  const std::vector<int32_t> stop_ids_;
  std::mutex mutex_;
  std::shared_ptr<const grammar::Vocabulary> vocabulary_;  // once one is needed
  // The last ones used, first.
  std::list<std::pair<std::string, std::shared_ptr<grammar::Masks>>> known_;
};

}  // namespace skald
