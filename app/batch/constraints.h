// The grammars of a batch's response_formats. Each grammar is compiled once; all samples that
// follow it share its token masks, whatever line they belong to. Any thread may call.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <set>
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

  // The filter of one sample: answer_constraint(). response_format: as JSON. Throws
  // Error(Exit::Usage) for a schema that is not supported.
  std::unique_ptr<TokenFilter> filter(const std::string& response_format, TextStream::Begin begin,
                                      std::span<const int32_t> prompt, bool forces);

 private:
  std::shared_ptr<grammar::Masks> masks(const std::string& response_format);

  const Tokenizer& tokenizer_;
  const std::vector<int32_t> stop_ids_;
  std::mutex mutex_;
  std::shared_ptr<const grammar::Vocabulary> vocabulary_;  // made when it is needed
  // The last used ones first.
  std::list<std::pair<std::string, std::shared_ptr<grammar::Masks>>> known_;
  std::set<std::string> said_;  // notes on schemas
};

}  // namespace skald
