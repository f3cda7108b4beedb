#include "app/batch_formats.h"

#include "app/json_schema.h"

namespace skald {
namespace {

constexpr size_t kMostKnown = 64;  // with their caches; a batch seldom has more than a few

}  // namespace

std::unique_ptr<TokenFilter> BatchFormats::filter(const std::string& format,
                                                  TextStream::Begin begin) {
  auto found = masks(format);
  if (!found) return nullptr;
  return std::make_unique<Constraint>(std::move(found), tokenizer_, begin);
}

std::shared_ptr<grammar::Masks> BatchFormats::masks(const std::string& format) {
  const std::lock_guard lock(mutex_);
  const auto known = known_.find(format);
  if (known != known_.end()) return known->second;
  const std::string source = "response_format";
  const auto rules = response_format_rules(parse_user_json(format, source), source);
  std::shared_ptr<grammar::Masks> made;
  if (rules) {
    if (!vocabulary_) vocabulary_ = constraint_vocabulary(tokenizer_, stop_ids_);
    made = constraint_masks(rules->rules, vocabulary_);
  }
  if (known_.size() >= kMostKnown) known_.clear();
  known_.emplace(format, made);
  return made;
}

}  // namespace skald
