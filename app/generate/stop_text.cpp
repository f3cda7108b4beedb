#include "app/generate/stop_text.h"

#include <utility>

#include "engine/base/error.h"

namespace skald {
namespace {

size_t key(size_t prefix, char byte) { return prefix << 8 | static_cast<unsigned char>(byte); }

}  // namespace

StopText::StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (size_t i = 0; i < stops_.size(); ++i) add(i);
  link();
}

void StopText::add(size_t stop) {
  if (stops_[stop].empty()) fail(Exit::Usage, "a stop string is empty, and would stop everything");
  size_t at = 0;
  for (const char byte : stops_[stop]) {
    const auto [child, is_new] = children_.try_emplace(key(at, byte), prefixes_.size());
    if (is_new) prefixes_.push_back({prefixes_[at].length + 1});
    at = child->second;
  }
  prefixes_[at].stop = stop;
}

// Breadth first, so that every prefix that is linked to is complete.
void StopText::link() {
  std::vector<std::vector<std::pair<char, size_t>>> children(prefixes_.size());
  for (const auto& [edge, child] : children_) {
    children[edge >> 8].emplace_back(static_cast<char>(edge & 0xff), child);
  }
  std::vector<size_t> queue{0};
  for (size_t i = 0; i < queue.size(); ++i) {
    for (const auto& [byte, child] : children[queue[i]]) {
      Prefix& prefix = prefixes_[child];
      if (queue[i] != 0) prefix.shorter = next(prefixes_[queue[i]].shorter, byte);
      if (prefix.stop == kNone) prefix.stop = prefixes_[prefix.shorter].stop;
      queue.push_back(child);
    }
  }
}

size_t StopText::longer(size_t prefix, char byte) const {
  const auto child = children_.find(key(prefix, byte));
  return child == children_.end() ? kNone : child->second;
}

size_t StopText::next(size_t prefix, char byte) const {
  while (true) {
    const size_t child = longer(prefix, byte);
    if (child != kNone) return child;
    if (prefix == 0) return 0;
    prefix = prefixes_[prefix].shorter;
  }
}

std::string StopText::feed(std::string_view piece) {
  if (found()) return "";
  if (stops_.empty()) return std::string(piece);
  for (const char byte : piece) {
    text_ += byte;
    at_ = next(at_, byte);
    found_ = prefixes_[at_].stop;
    if (found()) break;
  }
  const size_t safe = text_.size() - (found() ? stops_[found_].size() : prefixes_[at_].length);
  std::string out = text_.substr(returned_bytes_, safe - returned_bytes_);
  returned_bytes_ = safe;
  if (returned_bytes_ > text_.size() / 2) {  // rarely, so that each byte moves about once
    text_.erase(0, returned_bytes_);
    returned_bytes_ = 0;
  }
  return out;
}

std::string StopText::flush() {
  return found() ? "" : text_.substr(std::exchange(returned_bytes_, text_.size()));
}

void StopText::restart() {
  text_.clear();
  returned_bytes_ = at_ = 0;
}

}  // namespace skald
