#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "engine/base/error.h"
#include "tokenizer/sentencepiece/sentencepiece_model.h"

// Format of the normalizer's rules: a 4-byte length, a trie of that many bytes, then the
// replacement texts, each ended by a zero byte. The trie is a double array of 32-bit units. Child c
// of unit i is at i ^ offset(i) ^ c, and exists if the label there is c. A unit with a leaf has its
// value (the offset of the replacement) at the place of child 0.
namespace skald {
namespace {

constexpr size_t kMaxUnits = size_t{1} << 20;
constexpr int kMaxRulesOnPath = 32;  // the library's array of matches has as many entries

bool has_leaf(uint32_t unit) { return unit >> 8 & 1; }
uint32_t value(uint32_t unit) { return unit & 0x7FFFFFFF; }
uint32_t label(uint32_t unit) { return unit & 0x800000FF; }
uint32_t offset(uint32_t unit) { return unit >> 10 << ((unit & 0x200) >> 6); }

// Visits every unit that some text could reach.
class TrieCheck {
 public:
  TrieCheck(std::vector<uint32_t> units, size_t texts_size)
      : units_(std::move(units)), texts_size_(texts_size), rules_(units_.size(), kNew) {}

  std::string fault() {
    if (!enter(0)) return fault_;
    while (!path_.empty()) {
      Step& step = path_.back();
      if (step.next_label > 255) {
        const uint32_t done = step.unit;
        rules_[done] = step.rules_below + (done != 0 && has_leaf(units_[done]) ? 1 : 0);
        path_.pop_back();
        if (rules_[done] > kMaxRulesOnPath) return "too many rules share a beginning";
        if (!path_.empty()) {
          path_.back().rules_below = std::max(path_.back().rules_below, rules_[done]);
        }
        continue;
      }
      const uint32_t c = step.next_label++;
      const uint32_t child = step.base ^ c;
      if (label(units_[child]) != c) continue;
      if (rules_[child] == kOpen) return "the trie has a loop";
      if (rules_[child] >= 0) {
        step.rules_below = std::max(step.rules_below, rules_[child]);
      } else if (!enter(child)) {
        return fault_;
      }
    }
    return "";
  }

 private:
  static constexpr int kNew = -1, kOpen = -2;
  struct Step {
    uint32_t unit, base, next_label;
    int rules_below;
  };

  bool enter(uint32_t unit) {
    const uint32_t base = unit ^ offset(units_[unit]);
    if ((base | 0xFF) >= units_.size()) {
      fault_ = concat("unit ", unit, " of the trie points outside it");
      return false;
    }
    if (has_leaf(units_[unit]) && value(units_[base]) >= texts_size_) {
      fault_ = concat("unit ", unit, " of the trie points outside the replacements");
      return false;
    }
    rules_[unit] = kOpen;
    path_.push_back({unit, base, 0, 0});
    return true;
  }

  std::vector<uint32_t> units_;
  size_t texts_size_;
  std::vector<int> rules_;  // most rules on a path down from a finished unit
  std::vector<Step> path_;
  std::string fault_;
};

}  // namespace

std::string charsmap_fault(std::string_view charsmap) {
  if (charsmap.empty()) return "";
  uint32_t trie_bytes = 0;
  if (charsmap.size() < sizeof(trie_bytes)) return "its length is missing";
  std::memcpy(&trie_bytes, charsmap.data(), sizeof(trie_bytes));
  charsmap.remove_prefix(sizeof(trie_bytes));
  if (trie_bytes > charsmap.size()) return "the trie is longer than the rules";
  if (trie_bytes == 0 || trie_bytes % 4 != 0 || trie_bytes / 4 > kMaxUnits) {
    return concat("a trie of ", trie_bytes, " bytes");
  }
  std::vector<uint32_t> units(trie_bytes / 4);
  std::memcpy(units.data(), charsmap.data(), trie_bytes);
  const std::string_view texts = charsmap.substr(trie_bytes);
  if (texts.empty() || texts.back() != '\0') return "the last replacement has no end";
  return TrieCheck(std::move(units), texts.size()).fault();
}

}  // namespace skald
