// Random grammars over few characters: small, recursive and ambiguous.
#pragma once

#include "tests/engine/grammar/grammar_tools.h"

namespace skald::test {

class RandomGrammar {
 public:
  RandomGrammar(uint64_t seed, size_t rules) : random_(seed) {
    for (size_t i = 0; i < rules; ++i) rules_.add("rule " + std::to_string(i));
    for (size_t i = 0; i < rules; ++i) {
      // The first choice is not recursive, so that every rule can end.
      rules_.define(static_cast<grammar::RuleId>(i), rules_.choice({leaf(), node(3), node(2)}));
    }
  }
  const Rules& rules() const { return rules_; }

 private:
  grammar::NodeId leaf() {
    static const char* const kTexts[] = {"a", "b", "ab", "ba", "", "é", "aé", "日", "bb"};
    if (below(random_, 3) > 0) return rules_.text(kTexts[below(random_, std::size(kTexts))]);
    grammar::CharClass chars;
    if (below(random_, 2)) chars.push_back({'a', 'b'});
    if (below(random_, 2)) chars.push_back({0xE0, 0xEF});
    if (below(random_, 2)) chars.push_back({0x65E0, 0x6600});
    if (chars.empty()) chars.push_back({'b', 'b'});
    return rules_.one_of(chars);
  }

  grammar::NodeId node(int depth) {
    if (depth == 0) return leaf();
    switch (below(random_, 6)) {
      case 0:
      case 1: {
        std::vector<grammar::NodeId> parts;
        for (size_t i = 0; i < 1 + below(random_, 3); ++i) parts.push_back(node(depth - 1));
        return rules_.sequence(parts);
      }
      case 2:
        return rules_.choice({node(depth - 1), node(depth - 1)});
      case 3: {
        const auto least = static_cast<uint32_t>(below(random_, 3));
        const uint32_t most = below(random_, 2) ? grammar::kUnbounded
                                                : least + static_cast<uint32_t>(below(random_, 20));
        return rules_.repeat(node(depth - 1), least, most);
      }
      case 4:
        return rules_.call(static_cast<grammar::RuleId>(below(random_, rules_.size())));
      default:
        return leaf();
    }
  }

  Random random_;
  Rules rules_;
};

}  // namespace skald::test
