#include "engine/grammar/matcher.h"

#include <utility>

namespace skald::grammar {

Matcher::Matcher(std::shared_ptr<Masks> masks) : masks_(std::move(masks)) {
  set_ = masks_->stacks().start();
  masks_->hold(&set_);
}

Matcher::~Matcher() { masks_->release(&set_); }

Matcher::Matcher(const Matcher& other) : masks_(other.masks_), set_(other.set_) {
  masks_->hold(&set_);
}

Matcher& Matcher::operator=(const Matcher& other) {
  if (this == &other) return *this;
  masks_->release(&set_);
  masks_ = other.masks_;
  set_ = other.set_;
  masks_->hold(&set_);
  return *this;
}

std::span<const uint64_t> Matcher::mask() {
  masks_->tidy();
  return masks_->mask(set_);
}

bool Matcher::accept(int32_t token) {
  if (masks_->vocabulary().is_end(token)) return may_end();
  const std::string_view bytes = masks_->vocabulary().bytes(token);
  return !bytes.empty() && accept(bytes);
}

bool Matcher::accept(std::string_view bytes) {
  SetId set = set_;
  for (char c : bytes) set = masks_->stacks().step(set, static_cast<uint8_t>(c));
  if (set == kDead) return false;
  set_ = set;
  return true;
}

}  // namespace skald::grammar
