// Expressions as automata: first one whose states may have several ways on, then, by sets of its
// states, one with a single way.
//
// ^ and $ are links that are open only where no character stands before, and after which none may
// follow. So a state has two bits while a set grows along links: whether a character was read, and
// whether the text must end here.
#include <algorithm>
#include <map>

#include "engine/grammar/char_dfa.h"

namespace skald::grammar {
namespace {

constexpr size_t kMostNfaStates = 60'000;

// An automaton whose states may have several ways on.
class Nfa {
 public:
  struct Edge {
    char32_t first, last;
    uint32_t to;
  };
  struct Link {
    uint32_t to;
    enum class Needs : uint8_t { Nothing, Begin, End } needs = Needs::Nothing;
  };
  struct Node {
    std::vector<Edge> edges;
    std::vector<Link> links;
  };

  // `at_begin`: whether the expression begins where the text begins; nullopt: it depends on the
  // text.
  static std::optional<CharDfa> dfa_of(const Regex& regex, std::optional<bool> at_begin,
                                       size_t most_work);

 private:
  Nfa(std::optional<bool> at_begin, size_t most_work)
      : at_begin_(at_begin), most_work_(most_work) {}

  bool too_large() const { return nodes_.size() > kMostNfaStates; }
  uint32_t add() {
    nodes_.emplace_back();
    return static_cast<uint32_t>(nodes_.size() - 1);
  }

  void link(uint32_t from, uint32_t to) { nodes_[from].links.push_back({to}); }

  // Adds an expression after `from`; returns the state after it. Returns `from` if it has become
  // too large.
  uint32_t build(const Regex& regex, uint32_t from) {
    if (too_large() || failed_) return from;
    switch (regex.kind) {
      case Regex::Kind::Class: {
        const uint32_t to = add();
        for (const CharRange& r : regex.chars) nodes_[from].edges.push_back({r.first, r.last, to});
        return to;
      }
      case Regex::Kind::Sequence: {
        uint32_t at = from;
        for (size_t i = 0; i < regex.parts.size(); ++i) {
          if (regex.parts[i].kind == Regex::Kind::Look) return build_look(regex, i, at);
          at = build(regex.parts[i], at);
        }
        return at;
      }
      case Regex::Kind::Choice: {
        const uint32_t to = add();
        for (const Regex& part : regex.parts) link(build(part, from), to);
        return to;
      }
      case Regex::Kind::Repeat: {
        uint32_t at = from;
        for (uint32_t i = 0; i < regex.least && !too_large(); ++i) at = build(regex.parts[0], at);
        if (regex.most == kUnbounded) {
          const uint32_t loop = add();
          link(at, loop);
          link(build(regex.parts[0], loop), loop);
          return loop;
        }
        const uint32_t to = add();
        for (uint32_t i = regex.least; i < regex.most && !too_large(); ++i) {
          link(at, to);
          at = build(regex.parts[0], at);
        }
        link(at, to);
        return to;
      }
      case Regex::Kind::Look: {
        Regex alone{.kind = Regex::Kind::Sequence};
        alone.parts.push_back(regex);
        return build_look(alone, 0, from);
      }
      case Regex::Kind::Begin: {
        if (!at_begin_) failed_ = true;
        const uint32_t to = add();
        if (at_begin_.value_or(false)) nodes_[from].links.push_back({to, Link::Needs::Begin});
        return to;
      }
      case Regex::Kind::End: {
        const uint32_t to = add();
        nodes_[from].links.push_back({to, Link::Needs::End});
        return to;
      }
    }
    return from;
  }

  std::optional<std::vector<CharDfa::State>> determined(uint32_t begin, uint32_t end) const {
    if (too_large() || failed_) return std::nullopt;
    std::map<std::vector<uint32_t>, uint32_t> known;
    std::vector<const std::vector<uint32_t>*> sets;
    std::vector<CharDfa::State> states;
    const auto state_of = [&](std::vector<uint32_t> set, uint32_t bits) {
      close(set, bits, end);
      const auto [found, fresh] =
          known.try_emplace(std::move(set), static_cast<uint32_t>(states.size()));
      if (fresh) {
        sets.push_back(&found->first);
        states.emplace_back().ends =
            std::binary_search(found->first.begin(), found->first.end(), end);
      }
      return found->second;
    };
    state_of({begin}, 0);
    size_t work = 0;
    std::vector<Edge> edges, open;  // open: those that take the characters at hand
    std::vector<char32_t> cuts;
    std::vector<uint32_t> to;
    std::vector<std::pair<std::vector<uint32_t>, uint32_t>> targets;  // of one set
    for (size_t i = 0; i < sets.size(); ++i) {
      edges.clear();
      open.clear();
      cuts.clear();
      targets.clear();
      for (uint32_t n : *sets[i]) {
        edges.insert(edges.end(), nodes_[n].edges.begin(), nodes_[n].edges.end());
      }
      for (const Edge& e : edges) {
        cuts.push_back(e.first);
        cuts.push_back(e.last + 1);
      }
      std::sort(cuts.begin(), cuts.end());
      cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
      std::stable_sort(edges.begin(), edges.end(),
                       [](const Edge& a, const Edge& b) { return a.first < b.first; });
      work += edges.size();
      auto next = edges.begin();
      for (size_t c = 0; c + 1 < cuts.size(); ++c) {
        std::erase_if(open, [&](const Edge& e) { return e.last < cuts[c]; });
        for (; next != edges.end() && next->first == cuts[c]; ++next) open.push_back(*next);
        work += 1 + open.size();
        if (open.empty()) continue;
        to.clear();
        for (const Edge& e : open) to.push_back(e.to);
        auto target = std::find_if(targets.begin(), targets.end(),
                                   [&](const auto& known) { return known.first == to; });
        if (target == targets.end()) {
          targets.emplace_back(to, state_of(to, kAfterBegin));
          target = targets.end() - 1;
        }
        states[i].arcs.push_back({cuts[c], cuts[c + 1] - 1, target->second});
        if (states.size() > kMostDfaStates || work > most_work_) return std::nullopt;
      }
    }
    return states;
  }

  // Adds the states of a CharDfa after `from`.
  uint32_t build(const CharDfa& dfa, uint32_t from) {
    const uint32_t end = add();
    std::vector<uint32_t> numbers;
    numbers.reserve(dfa.states().size());
    for (size_t i = 0; i < dfa.states().size(); ++i) numbers.push_back(add());
    if (!numbers.empty()) link(from, numbers[0]);
    for (size_t i = 0; i < numbers.size(); ++i) {
      for (const CharDfa::Arc& arc : dfa.states()[i].arcs) {
        nodes_[numbers[i]].edges.push_back({arc.first, arc.last, numbers[arc.to]});
      }
      if (dfa.states()[i].ends) link(numbers[i], end);
    }
    return end;
  }

  // A Look restricts the whole rest of the text.
  uint32_t build_look(const Regex& sequence, size_t at, uint32_t from) {
    const Regex& look = sequence.parts[at];
    Regex before{.kind = Regex::Kind::Sequence}, rest{.kind = Regex::Kind::Sequence};
    const auto here = sequence.parts.begin() + static_cast<ptrdiff_t>(at);
    before.parts.assign(sequence.parts.begin(), here);
    rest.parts.assign(here + 1, sequence.parts.end());
    const RegexLength length = length_of(before);
    const std::optional<bool> at_begin = length.most == 0   ? at_begin_
                                         : length.least > 0 ? std::optional(false)
                                                            : std::nullopt;
    const auto after = dfa_of(rest, at_begin, most_work_);
    auto seen = dfa_of(look.parts[0], at_begin, most_work_);
    if (seen && look.least == 0) seen = seen->without();
    const auto both = after && seen ? after->with(*seen) : std::nullopt;
    if (!both) {
      failed_ = true;
      return from;
    }
    return build(*both, from);
  }

  static constexpr uint32_t kAfterBegin = 1, kAtEnd = 2;

  // Adds the states that are reached without a character.
  void close(std::vector<uint32_t>& set, uint32_t bits, uint32_t end) const {
    if (seen_.size() < nodes_.size() * 4) seen_.resize(nodes_.size() * 4);
    std::vector<uint32_t> all;  // state * 4 + bits
    const auto reach = [&](uint32_t state, uint32_t with) {
      const uint32_t place = state << 2 | with;
      if (seen_[place]) return;
      seen_[place] = true;
      all.push_back(place);
    };
    for (uint32_t state : set) reach(state, bits);
    for (size_t i = 0; i < all.size(); ++i) {
      const uint32_t state = all[i] >> 2, here = all[i] & 3;
      for (const Link& link : nodes_[state].links) {
        if (link.needs == Link::Needs::Begin && (here & kAfterBegin)) continue;
        reach(link.to, link.needs == Link::Needs::End ? here | kAtEnd : here);
      }
    }
    // States that only lead on say nothing more than where they lead to.
    set.clear();
    for (uint32_t place : all) {
      seen_[place] = false;
      const uint32_t state = place >> 2;
      const bool reads = !nodes_[state].edges.empty() && !(place & kAtEnd);
      if (reads || state == end) set.push_back(state);
    }
    std::sort(set.begin(), set.end());
    set.erase(std::unique(set.begin(), set.end()), set.end());
  }

  std::optional<bool> at_begin_;
  size_t most_work_;
  std::vector<Node> nodes_;
  mutable std::vector<bool> seen_;
  bool failed_ = false;
};

std::optional<CharDfa> Nfa::dfa_of(const Regex& regex, std::optional<bool> at_begin,
                                   size_t most_work) {
  Nfa nfa(at_begin, most_work);
  const uint32_t begin = nfa.add();
  const uint32_t last = nfa.build(regex, begin), end = nfa.add();
  nfa.link(last, end);
  auto states = nfa.determined(begin, end);
  return states ? CharDfa::of_states(std::move(*states)) : std::nullopt;
}

}  // namespace

std::optional<CharDfa> CharDfa::of(const Regex& regex, size_t most_work) {
  return Nfa::dfa_of(regex, true, most_work);
}

}  // namespace skald::grammar
