#include "app/jobs/name_set.h"

#include <algorithm>
#include <utility>

namespace skald {
namespace {

constexpr NameHash kFree = {0, 0};
constexpr size_t kFewPlaces = 8;

}  // namespace

bool NameSet::insert(std::string_view name) {
  const NameHash hash = name_hash(name);
  return tables_[hash[1] % tables_.size()].insert(hash);
}

size_t NameSet::size() const {
  size_t size = 0;
  for (const Table& table : tables_) size += table.size();
  return size;
}

size_t NameSet::bytes() const {
  size_t bytes = 0;
  for (const Table& table : tables_) bytes += table.bytes();
  return bytes;
}

bool NameSet::Table::insert(const NameHash& hash) {
  if (10 * (size_ + 1) > 8 * places_.size()) grow();
  return put(hash);
}

bool NameSet::Table::put(const NameHash& hash) {
  for (size_t at = hash[0] % places_.size();; at = at + 1 < places_.size() ? at + 1 : 0) {
    if (places_[at] == hash) return false;
    if (places_[at] != kFree) continue;
    places_[at] = hash;
    ++size_;
    return true;
  }
}

void NameSet::Table::grow() {
  const std::vector<NameHash> old = std::exchange(
      places_, std::vector<NameHash>(std::max(kFewPlaces, places_.size() + places_.size() / 4)));
  size_ = 0;
  for (const NameHash& hash : old) {
    if (hash != kFree) put(hash);
  }
}

}  // namespace skald
