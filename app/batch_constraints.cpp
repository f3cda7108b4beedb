#include "app/batch_constraints.h"

#include <algorithm>
#include <optional>

#include "app/json_schema.h"
#include "engine/error.h"

namespace skald {
namespace {

class ConstraintFilter final : public TokenFilter {
 public:
  ConstraintFilter(std::shared_ptr<SharedMasks> masks, const Tokenizer& tokenizer,
                   TextStream::Begin begin)
      : masks_(std::move(masks)) {
    const std::lock_guard lock(masks_->mutex);
    constraint_.emplace(masks_->masks, tokenizer, begin);
  }

  ~ConstraintFilter() override {
    const std::lock_guard lock(masks_->mutex);
    constraint_.reset();
  }

  // A copy: other texts ask for theirs before all are picked.
  std::span<const uint64_t> allowed() override {
    const std::lock_guard lock(masks_->mutex);
    const std::span<const uint64_t> mask = constraint_->mask();
    mask_.assign(mask.begin(), mask.end());
    return mask_;
  }

  void accept(int32_t token) override {
    const std::lock_guard lock(masks_->mutex);
    constraint_->accept(token);
  }

  bool finished() override {
    const std::lock_guard lock(masks_->mutex);
    return constraint_->finished();
  }

 private:
  std::shared_ptr<SharedMasks> masks_;
  std::optional<Constraint> constraint_;
  std::vector<uint64_t> mask_;
};

}  // namespace

std::unique_ptr<TokenFilter> BatchConstraints::filter(const std::string& response_format,
                                                      TextStream::Begin begin) {
  return std::make_unique<ConstraintFilter>(masks(response_format), tokenizer_, begin);
}

std::shared_ptr<SharedMasks> BatchConstraints::masks(const std::string& response_format) {
  constexpr size_t kMostKnown = 64;
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(known_.begin(), known_.end(), [&](const auto& entry) {
    return entry.first == response_format;
  });
  if (found != known_.end()) {
    known_.splice(known_.begin(), known_, found);
    return known_.front().second;
  }
  const auto rules = response_format_rules(Json::parse(response_format), "response_format");
  check(rules.has_value(), "a response_format that asks for more than text");
  if (!vocabulary_) vocabulary_ = constraint_vocabulary(tokenizer_, stop_ids_);
  auto shared = std::make_shared<SharedMasks>();
  shared->masks = constraint_masks(rules->rules, vocabulary_);
  known_.emplace_front(response_format, shared);
  if (known_.size() > kMostKnown) known_.pop_back();
  return shared;
}

}  // namespace skald
