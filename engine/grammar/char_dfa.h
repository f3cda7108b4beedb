// Deterministic automata over characters: what regular expressions cannot say, such as two patterns
// at once, all texts but those of a pattern, or a pattern with a length.
//
// Every state of a CharDfa can be reached and leads to an end; an automaton without states has no
// text. Sizes are bounded: what would get larger than kMostDfaStates is nullopt.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/regex.h"
#include "engine/grammar/rules.h"

namespace skald::grammar {

inline constexpr size_t kMostDfaStates = 20'000;

class CharDfa {
 public:
  struct Arc {
    char32_t first, last;
    uint32_t to;
    bool operator==(const Arc&) const = default;
  };
  struct State {
    std::vector<Arc> arcs;  // sorted, without overlaps; other characters have no way to an end
    bool ends = false;
    bool operator==(const State&) const = default;
  };

  // Unlike add_regex(), understands ^ and $ anywhere, and Look at the top level of an alternative.
  // `most_work`: of the edges that are looked at on the way.
  static std::optional<CharDfa> of(const Regex& regex, size_t most_work = 4'000'000);
  static CharDfa of_texts(std::vector<std::string> texts);  // exactly these texts
  static CharDfa any();                                     // all texts
  // For automata that are made state by state; state 0 is the begin.
  static std::optional<CharDfa> of_states(std::vector<State> states);

  std::optional<CharDfa> without() const;                   // all texts that are not in this one
  std::optional<CharDfa> with(const CharDfa& other) const;  // texts of both
  std::optional<CharDfa> with_length(uint64_t least, uint64_t most) const;

  bool empty() const { return states_.empty(); }
  const std::vector<State>& states() const { return states_; }
  bool matches(std::string_view text) const;

  NodeId add_to(Rules& rules, const WriteChars& write) const;

 private:
  void trim();
  void minimize();
  bool merge_tails();
  void keep_groups(const std::vector<uint32_t>& group);
  struct Before {  // for each state, the states that lead to it, one list behind the other
    std::vector<uint32_t> ends, from;
  };
  Before before() const;
  std::vector<uint32_t> open() const;  // Graph::open

  std::vector<State> states_;
};

}  // namespace skald::grammar
