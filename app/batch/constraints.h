// The grammars of a batch's response_formats. Each grammar is compiled once; all samples that
// follow it share its token masks, whatever line they belong to. Any thread may call.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "app/generate/constraint.h"
#include "app/schema/json_schema.h"
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
  // The filter of one sample by a grammar for the whole answer, which `make` makes where none is
  // known by `key`.
  std::unique_ptr<TokenFilter> filter(const std::string& key,
                                      const std::function<SchemaRules()>& make,
                                      TextStream::Begin begin, bool forces);

 private:
  std::shared_ptr<grammar::Masks> masks(const std::string& key,
                                        const std::function<SchemaRules()>& make);

  const Tokenizer& tokenizer_;
  const std::vector<int32_t> stop_ids_;
  std::mutex mutex_;
  // Made when they are needed, with the control tokens that grammars name; the last used first.
  struct Named {
    std::vector<grammar::TokenReference> tokens;
    std::shared_ptr<const grammar::Vocabulary> vocabulary;
  };
  std::list<Named> vocabularies_;
  // The last used ones first.
  std::list<std::pair<std::string, std::shared_ptr<grammar::Masks>>> masks_;
  std::set<std::string> printed_notes_;  // notes on schemas
};

}  // namespace skald
