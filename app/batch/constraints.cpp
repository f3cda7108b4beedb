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
  return answer_constraint(masks(response_format), tokenizer_, begin, prompt, forces);
}

std::shared_ptr<grammar::Masks> BatchConstraints::masks(const std::string& response_format) {
  constexpr size_t kMostKnown = 64;
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(known_.begin(), known_.end(), [&](const auto& entry) {
    return entry.first == response_format;
  });
  if (found != known_.end()) {
    known_.splice(known_.begin(), known_, found);
    return known_.front().second;
  }
  const auto rules = response_format_rules(parse_json(response_format), "response_format");
  check(rules.has_value(), "a response_format that asks for more than text");
  // Each is said once, however many lines have the schema.
  for (const std::string& note : rules->notes) {
    if (said_.size() < kMostKnown && said_.insert(note).second) {
      std::fprintf(stderr, "skald: %s\n", note.c_str());
    }
  }
  if (!vocabulary_) vocabulary_ = constraint_vocabulary(tokenizer_, stop_ids_);
  known_.emplace_front(response_format, constraint_masks(rules->rules, vocabulary_));
  if (known_.size() > kMostKnown) known_.pop_back();
  return known_.front().second;
}

}  // namespace skald
