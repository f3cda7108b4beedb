#include "engine/grammar/matcher.h"

#include <utility>

namespace skald::grammar {

using Lock = std::lock_guard<std::mutex>;

Matcher::Matcher(std::shared_ptr<Masks> masks) : masks_(std::move(masks)) {
  const Lock lock(masks_->mutex());
  set_ = masks_->stacks().start();
  masks_->add_root(&set_);
}

Matcher::~Matcher() {
  const Lock lock(masks_->mutex());
  masks_->remove_root(&set_);
}

Matcher::Matcher(const Matcher& other) : masks_(other.masks_) {
  const Lock lock(masks_->mutex());
  set_ = other.set_;
  masks_->add_root(&set_);
}

std::span<const uint64_t> Matcher::mask() {
  const Lock lock(masks_->mutex());
  masks_->tidy();
  const std::span<const uint64_t> mask = masks_->mask(set_);
  mask_.assign(mask.begin(), mask.end());
  return mask_;
}

bool Matcher::accept(int32_t token) {
  const Vocabulary& vocabulary = masks_->vocabulary();
  if (vocabulary.is_end(token)) return may_end();
  const std::string_view bytes = vocabulary.bytes(token);
  if (vocabulary.named().empty()) return !bytes.empty() && accept(bytes);
  if (token < 0 || static_cast<size_t>(token) >= vocabulary.size()) return false;
  const Lock lock(masks_->mutex());
  SetId set = bytes.empty() ? kDead : after(bytes);
  for (size_t i = 0; i < vocabulary.named().size(); ++i) {
    if (!has_token(vocabulary.named()[i], token)) continue;
    set = masks_->stacks().both(set, after(token_reference_bytes(i)));
  }
  if (set == kDead) return false;
  set_ = set;
  return true;
}

SetId Matcher::after(std::string_view bytes) {
  SetId set = set_;
  for (char c : bytes) set = masks_->stacks().step(set, static_cast<uint8_t>(c));
  return set;
}

bool Matcher::accept(std::string_view bytes) {
  const Lock lock(masks_->mutex());
  const SetId set = after(bytes);
  if (set == kDead) return false;
  set_ = set;
  return true;
}

std::string Matcher::forced_text(size_t most) const {
  const Lock lock(masks_->mutex());
  return masks_->forced_text(set_, most);
}

bool Matcher::may_end() const {
  const Lock lock(masks_->mutex());
  return masks_->stacks().may_end(set_);
}

bool Matcher::finished() const {
  const Lock lock(masks_->mutex());
  return masks_->stacks().finished(set_);
}

}  // namespace skald::grammar
