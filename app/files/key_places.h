// Finds where the keys of a list stand by their hash: a list of n keys takes about n comparisons
// of keys, not n².
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <utility>

namespace skald {

// `Equal` compares two keys.
template <class Equal = std::equal_to<>>
class KeyPlaces {
 public:
  bool empty() const { return places_.empty(); }
  // The place of `key`, and true if it is new: then it stands behind all others.
  std::pair<size_t, bool> add(const std::string& key) {
    const auto [found, added] = places_.try_emplace(key, places_.size());
    return {found->second, added};
  }

 private:
  std::unordered_map<std::string, size_t, std::hash<std::string>, Equal> places_;
};

}  // namespace skald
