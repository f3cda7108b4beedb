#include "app/batch/constraints.h"

#include <algorithm>
#include <cstdio>

#include "app/files/json.h"
#include "app/schema/json_schema.h"
#include "engine/base/error.h"

namespace skald {
std::unique_ptr<TokenFilter> BatchConstraints::filter(const std::string& response_format,
                                                      TextStream::Begin begin,
                                                      std::span<const int32_t> prompt,
                                                      bool forces) {
  const auto make = [&] {
    auto rules = response_format_rules(parse_json(response_format), "response_format");
    check(rules.has_value(), "a response_format that asks for more than text");
    return *std::move(rules);
  };
  return answer_constraint(masks(response_format, make), tokenizer_, begin, prompt, forces);
}

std::unique_ptr<TokenFilter> BatchConstraints::filter(const std::string& key,
                                                      const std::function<SchemaRules()>& make,
                                                      TextStream::Begin begin, bool forces) {
  return std::make_unique<Constraint>(masks(key, make), tokenizer_, begin, forces);
}

std::shared_ptr<grammar::Masks> BatchConstraints::masks(const std::string& key,
                                                        const std::function<SchemaRules()>& make) {
  constexpr size_t kMostKnown = 64, kMostVocabularies = 4;
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(masks_.begin(), masks_.end(),
                                  [&](const auto& entry) { return entry.first == key; });
  if (found != masks_.end()) {
    masks_.splice(masks_.begin(), masks_, found);
    return masks_.front().second;
  }
  const SchemaRules rules = make();
  // Each is said once, however many lines have the schema.
  for (const std::string& note : rules.notes) {
    if (printed_notes_.size() < kMostKnown && printed_notes_.insert(note).second) {
      std::fprintf(stderr, "skald: %s\n", note.c_str());
    }
  }
  const std::span<const grammar::TokenReference> named = rules.rules.tokens();
  const auto same = std::find_if(vocabularies_.begin(), vocabularies_.end(), [&](const Named& one) {
    return std::equal(one.tokens.begin(), one.tokens.end(), named.begin(), named.end());
  });
  if (same != vocabularies_.end()) {
    vocabularies_.splice(vocabularies_.begin(), vocabularies_, same);
  } else {
    vocabularies_.push_front(
        {{named.begin(), named.end()}, constraint_vocabulary(tokenizer_, stop_ids_, named)});
    if (vocabularies_.size() > kMostVocabularies) vocabularies_.pop_back();
  }
  masks_.emplace_front(key, constraint_masks(rules.rules, vocabularies_.front().vocabulary));
  if (masks_.size() > kMostKnown) masks_.pop_back();
  return masks_.front().second;
}

}  // namespace skald
