#include "engine/grammar/char_dfa.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "engine/grammar/utf8_ranges.h"

namespace skald::grammar {
namespace {

void add_arc(std::vector<CharDfa::Arc>& arcs, CharDfa::Arc arc) {
  // Surrogates stand in no text.
  if (!arcs.empty() && arcs.back().to == arc.to &&
      (arcs.back().last + 1 == arc.first ||
       (arcs.back().last + 1 == kFirstSurrogate && arc.first == kLastSurrogate + 1))) {
    arcs.back().last = arc.last;
  } else {
    arcs.push_back(arc);
  }
}

}  // namespace

std::optional<CharDfa> CharDfa::of_states(std::vector<State> states) {
  CharDfa result;
  result.states_ = std::move(states);
  result.trim();
  result.minimize();
  return result;
}

CharDfa CharDfa::any() {
  CharDfa result;
  result.states_.push_back({{{0, kLastCodePoint, 0}}, true});
  return result;
}

CharDfa CharDfa::of_texts(std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end());
  CharDfa result;
  result.states_.emplace_back();
  for (const std::string& text : texts) {
    uint32_t at = 0;
    for (size_t i = 0; i < text.size();) {
      char32_t c = 0;
      if (!decode_utf8(text, i, c)) c = 0xFFFD, ++i;
      auto& arcs = result.states_[at].arcs;
      // Sorted texts are sorted by code points, so a known letter is the last one.
      if (!arcs.empty() && arcs.back().first == c) {
        at = arcs.back().to;
        continue;
      }
      const auto next = static_cast<uint32_t>(result.states_.size());
      arcs.push_back({c, c, next});
      result.states_.emplace_back();
      at = next;
    }
    result.states_[at].ends = true;
  }
  if (texts.empty()) result.states_.clear();
  result.merge_tails();
  return result;
}

// Merges equal states of an automaton without loops, in which a state stands before those that it
// leads to.
void CharDfa::merge_tails() {
  const auto hash = [](const State& state) {
    size_t sum = state.ends;
    for (const Arc& arc : state.arcs) {
      sum = (sum ^ (size_t{arc.first} << 32 | arc.to)) * 0x9E3779B97F4A7C15u;
      sum ^= sum >> 29;
    }
    return sum;
  };
  std::unordered_map<State, uint32_t, decltype(hash)> known(states_.size(), hash);
  std::vector<uint32_t> numbers(states_.size());
  for (size_t i = states_.size(); i-- > 0;) {
    for (Arc& arc : states_[i].arcs) arc.to = numbers[arc.to];
    numbers[i] = known.try_emplace(states_[i], static_cast<uint32_t>(i)).first->second;
  }
  // The numbers of the states that are left.
  std::vector<State> kept;
  std::vector<uint32_t> places(states_.size());
  for (size_t i = 0; i < states_.size(); ++i) {
    if (numbers[i] != i) continue;
    places[i] = static_cast<uint32_t>(kept.size());
    kept.push_back(std::move(states_[i]));
  }
  for (State& state : kept) {
    for (Arc& arc : state.arcs) arc.to = places[arc.to];
  }
  states_ = std::move(kept);
}

std::optional<CharDfa> CharDfa::without() const {
  if (states_.empty()) return any();
  std::vector<State> states = states_;
  const auto sink = static_cast<uint32_t>(states.size());
  states.emplace_back();
  for (State& state : states) {
    state.ends = !state.ends;
    std::vector<Arc> arcs;
    char32_t next = 0;
    for (const Arc& arc : state.arcs) {
      if (arc.first > next) add_arc(arcs, {next, arc.first - 1, sink});
      add_arc(arcs, arc);
      next = arc.last + 1;
    }
    if (next <= kLastCodePoint) add_arc(arcs, {next, kLastCodePoint, sink});
    state.arcs = std::move(arcs);
  }
  return of_states(std::move(states));
}

std::optional<CharDfa> CharDfa::with(const CharDfa& other) const {
  if (empty() || other.empty()) return CharDfa();
  std::unordered_map<uint64_t, uint32_t> known;
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  std::vector<State> states;
  const auto state_of = [&](uint32_t a, uint32_t b) {
    const auto [found, fresh] =
        known.try_emplace(uint64_t{a} << 32 | b, static_cast<uint32_t>(pairs.size()));
    if (fresh) {
      pairs.emplace_back(a, b);
      states.emplace_back().ends = states_[a].ends && other.states_[b].ends;
    }
    return found->second;
  };
  state_of(0, 0);
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto [a, b] = pairs[i];
    const auto &x = states_[a].arcs, &y = other.states_[b].arcs;
    std::vector<Arc> arcs;
    for (size_t m = 0, n = 0; m < x.size() && n < y.size();) {
      const char32_t first = std::max(x[m].first, y[n].first);
      const char32_t last = std::min(x[m].last, y[n].last);
      if (first <= last) add_arc(arcs, {first, last, state_of(x[m].to, y[n].to)});
      if (x[m].last < y[n].last) {
        ++m;
      } else {
        ++n;
      }
    }
    states[i].arcs = std::move(arcs);
    if (states.size() > kMostDfaStates) return std::nullopt;
  }
  return of_states(std::move(states));
}

std::optional<CharDfa> CharDfa::with_length(uint64_t least, uint64_t most) const {
  if (least == 0 && most == UINT64_MAX) return *this;
  const bool bounded = most != UINT64_MAX;
  const uint64_t last = bounded ? most : least;  // the largest count that is told apart
  if (last > kMostDfaStates || empty()) {
    return empty() ? std::optional<CharDfa>(*this) : std::nullopt;
  }
  std::unordered_map<uint64_t, uint32_t> known;
  std::vector<std::pair<uint32_t, uint64_t>> places;
  std::vector<State> states;
  const auto state_of = [&](uint32_t state, uint64_t count) {
    const auto [found, fresh] =
        known.try_emplace(uint64_t{state} << 32 | count, static_cast<uint32_t>(places.size()));
    if (fresh) {
      places.emplace_back(state, count);
      states.emplace_back().ends = states_[state].ends && count >= least;
    }
    return found->second;
  };
  state_of(0, 0);
  for (size_t i = 0; i < places.size(); ++i) {
    const auto [state, count] = places[i];
    if (bounded && count == most) continue;
    const uint64_t next = std::min(count + 1, last);
    std::vector<Arc> arcs;
    for (const Arc& arc : states_[state].arcs) {
      add_arc(arcs, {arc.first, arc.last, state_of(arc.to, next)});
    }
    states[i].arcs = std::move(arcs);
    if (states.size() > kMostDfaStates) return std::nullopt;
  }
  CharDfa result;
  result.states_ = std::move(states);
  result.trim();
  return result;
}

// Drops states that lead to no end. All states can be reached.
void CharDfa::trim() {
  std::vector<std::vector<uint32_t>> from(states_.size());
  std::vector<uint32_t> todo;
  std::vector<bool> useful(states_.size());
  for (uint32_t i = 0; i < states_.size(); ++i) {
    for (const Arc& arc : states_[i].arcs) from[arc.to].push_back(i);
    if (states_[i].ends) {
      useful[i] = true;
      todo.push_back(i);
    }
  }
  while (!todo.empty()) {
    const uint32_t at = todo.back();
    todo.pop_back();
    for (uint32_t before : from[at]) {
      if (useful[before]) continue;
      useful[before] = true;
      todo.push_back(before);
    }
  }
  if (states_.empty() || !useful[0]) {
    states_.clear();
    return;
  }
  std::vector<uint32_t> numbers(states_.size());
  uint32_t count = 0;
  for (size_t i = 0; i < states_.size(); ++i) numbers[i] = useful[i] ? count++ : 0;
  std::vector<State> kept;
  kept.reserve(count);
  for (size_t i = 0; i < states_.size(); ++i) {
    if (!useful[i]) continue;
    State state{{}, states_[i].ends};
    for (const Arc& arc : states_[i].arcs) {
      if (useful[arc.to]) add_arc(state.arcs, {arc.first, arc.last, numbers[arc.to]});
    }
    kept.push_back(std::move(state));
  }
  states_ = std::move(kept);
}

// Moore's algorithm: groups of states that behave the same are split until nothing changes.
void CharDfa::minimize() {
  if (states_.size() < 2) return;
  std::vector<uint32_t> group(states_.size());
  for (size_t i = 0; i < states_.size(); ++i) group[i] = states_[i].ends;
  size_t groups = 0;
  constexpr int kMostRounds = 100;  // each costs a pass; what is left unmerged stays correct
  int round = 0;
  std::vector<uint32_t> previous;
  for (;; ++round) {
    std::map<std::pair<uint32_t, std::vector<Arc>>, uint32_t,
             decltype([](const auto& a, const auto& b) {
               if (a.first != b.first) return a.first < b.first;
               return std::lexicographical_compare(
                   a.second.begin(), a.second.end(), b.second.begin(), b.second.end(),
                   [](const Arc& x, const Arc& y) {
                     return std::tie(x.first, x.last, x.to) < std::tie(y.first, y.last, y.to);
                   });
             })>
        known;
    std::vector<uint32_t> next(states_.size());
    for (size_t i = 0; i < states_.size(); ++i) {
      std::vector<Arc> arcs;
      for (const Arc& arc : states_[i].arcs) add_arc(arcs, {arc.first, arc.last, group[arc.to]});
      next[i] = known.try_emplace({group[i], std::move(arcs)}, known.size()).first->second;
    }
    const bool stable = known.size() == groups;
    groups = known.size();
    group = std::move(next);
    if (stable) break;
    if (round >= kMostRounds || groups == states_.size()) return;
  }
  if (groups == states_.size()) return;
  // The begin's group comes first because state 0 was numbered first.
  std::vector<State> merged(groups);
  std::vector<bool> done(groups);
  for (size_t i = 0; i < states_.size(); ++i) {
    if (done[group[i]]) continue;
    done[group[i]] = true;
    State& state = merged[group[i]];
    state.ends = states_[i].ends;
    for (const Arc& arc : states_[i].arcs) {
      add_arc(state.arcs, {arc.first, arc.last, group[arc.to]});
    }
  }
  states_ = std::move(merged);
}

bool CharDfa::matches(std::string_view text) const {
  if (empty()) return false;
  uint32_t at = 0;
  for (size_t i = 0; i < text.size();) {
    char32_t c = 0;
    if (!decode_utf8(text, i, c)) return false;
    const auto& arcs = states_[at].arcs;
    const auto arc = std::lower_bound(arcs.begin(), arcs.end(), c,
                                      [](const Arc& a, char32_t value) { return a.last < value; });
    if (arc == arcs.end() || arc->first > c) return false;
    at = arc->to;
  }
  return states_[at].ends;
}

NodeId CharDfa::add_to(Rules& rules, const WriteChars& write) const {
  if (empty()) return rules.choice({});
  Graph graph;
  std::vector<NodeId> parts;
  std::map<std::vector<std::pair<char32_t, char32_t>>, uint32_t> known;
  for (const State& state : states_) graph.ends.push_back(state.ends);
  for (uint32_t from = 0; from < states_.size(); ++from) {
    std::map<uint32_t, std::vector<std::pair<char32_t, char32_t>>> by_target;
    for (const Arc& arc : states_[from].arcs) by_target[arc.to].emplace_back(arc.first, arc.last);
    for (const auto& [to, ranges] : by_target) {
      const auto [found, fresh] = known.try_emplace(ranges, static_cast<uint32_t>(parts.size()));
      if (fresh) {
        CharClass chars;
        for (const auto& [first, last] : ranges) chars.push_back({first, last});
        parts.push_back(write(rules, normalized(std::move(chars))));
      }
      graph.links.push_back({from, to, found->second});
    }
  }
  return rules.graph(std::move(parts), std::move(graph));
}

}  // namespace skald::grammar
