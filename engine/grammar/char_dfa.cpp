#include "engine/grammar/char_dfa.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "engine/grammar/plain_chars.h"
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

uint64_t hash_of(uint64_t seed, const std::vector<CharDfa::Arc>& arcs) {
  uint64_t sum = seed;
  for (const CharDfa::Arc& arc : arcs) {
    for (const uint64_t part : {uint64_t{arc.first} << 32 | arc.last, uint64_t{arc.to}}) {
      sum = (sum ^ part) * 0x9E3779B97F4A7C15u;
      sum ^= sum >> 29;
    }
  }
  return sum;
}

struct HashState {
  size_t operator()(const CharDfa::State& state) const { return hash_of(state.ends, state.arcs); }
};

// A state's arcs, with its targets replaced by their groups.
void arcs_by_group(const CharDfa::State& state, const std::vector<uint32_t>& group,
                   std::vector<CharDfa::Arc>& arcs) {
  arcs.clear();
  for (const CharDfa::Arc& arc : state.arcs) add_arc(arcs, {arc.first, arc.last, group[arc.to]});
}

bool takes_all_plain(const CharDfa::State& state) {
  auto arc = state.arcs.begin();
  for (const CharRange& range : kPlainChars) {
    for (char32_t c = range.first; c <= range.last; c = arc->last + 1) {
      while (arc != state.arcs.end() && arc->last < c) ++arc;
      if (arc == state.arcs.end() || arc->first > c) return false;
    }
  }
  return true;
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

// Merges states that are equal once the states behind them are merged. Returns whether that may
// have left some: states in a loop are compared only where each leads to itself.
bool CharDfa::merge_tails() {
  enum class Place : uint8_t { Unseen, Open, Closed };
  constexpr uint32_t kItself = UINT32_MAX;
  std::unordered_map<State, uint32_t, HashState> known(states_.size());
  std::vector<Place> place(states_.size(), Place::Unseen);
  std::vector<uint32_t> group(states_.size());
  std::vector<std::pair<uint32_t, size_t>> path;  // a state and the arc to go on with
  size_t loops = 0;                               // states that lead to themselves
  bool more = false;
  State key;
  const auto close = [&](uint32_t at) {
    place[at] = Place::Closed;
    key.ends = states_[at].ends;
    arcs_by_group(states_[at], group, key.arcs);
    const bool loop =
        std::any_of(key.arcs.begin(), key.arcs.end(), [&](const Arc& arc) { return arc.to == at; });
    State same = key;
    for (Arc& arc : same.arcs) {
      if (arc.to == at) arc.to = kItself;
    }
    group[at] = known.try_emplace(std::move(same), at).first->second;
    if (!loop || group[at] != at) return;
    ++loops;
    known.try_emplace(key, at);  // a state that is not in the loop but leads as it does
  };
  const auto open = [&](uint32_t at) {
    place[at] = Place::Open;
    group[at] = at;
    path.emplace_back(at, 0);
  };
  if (!states_.empty()) open(0);
  while (!path.empty()) {
    auto& [at, next] = path.back();
    if (next == states_[at].arcs.size()) {
      close(at);
      path.pop_back();
      continue;
    }
    const uint32_t to = states_[at].arcs[next++].to;
    if (place[to] == Place::Unseen) {
      open(to);
    } else if (place[to] == Place::Open && to != at) {
      more = true;
    }
  }
  keep_groups(group);
  return more || loops > 1;
}

// Keeps one state of each group, which group[i] names for state i.
void CharDfa::keep_groups(const std::vector<uint32_t>& group) {
  constexpr uint32_t kNone = UINT32_MAX;
  if (group.empty()) return;
  const uint32_t groups = *std::max_element(group.begin(), group.end()) + 1;
  std::vector<uint32_t> number(groups, kNone), numbers(states_.size()), firsts;
  for (uint32_t i = 0; i < states_.size(); ++i) {
    uint32_t& n = number[group[i]];
    if (n == kNone) {
      n = static_cast<uint32_t>(firsts.size());
      firsts.push_back(i);
    }
    numbers[i] = n;
  }
  std::vector<State> kept;
  kept.reserve(firsts.size());
  for (const uint32_t first : firsts) {
    State& state = kept.emplace_back();
    state.ends = states_[first].ends;
    arcs_by_group(states_[first], numbers, state.arcs);
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
  std::vector<Arc> arcs;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto [a, b] = pairs[i];
    const auto &x = states_[a].arcs, &y = other.states_[b].arcs;
    arcs.clear();
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
    states[i].arcs.assign(arcs.begin(), arcs.end());
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
  // States of the same count follow each other, so only the next count's numbers are kept.
  constexpr uint32_t kNone = UINT32_MAX;
  std::vector<uint32_t> known(states_.size(), kNone);
  uint64_t known_count = 0;
  std::vector<std::pair<uint32_t, uint64_t>> places;
  std::vector<State> states;
  const auto state_of = [&](uint32_t state, uint64_t count) {
    if (count != known_count) std::fill(known.begin(), known.end(), kNone);
    known_count = count;
    if (known[state] == kNone) {
      known[state] = static_cast<uint32_t>(places.size());
      places.emplace_back(state, count);
      states.emplace_back().ends = states_[state].ends && count >= least;
    }
    return known[state];
  };
  state_of(0, 0);
  std::vector<Arc> arcs;
  for (size_t i = 0; i < places.size(); ++i) {
    const auto [state, count] = places[i];
    if (bounded && count == most) continue;
    const uint64_t next = std::min(count + 1, last);
    arcs.clear();
    for (const Arc& arc : states_[state].arcs) {
      add_arc(arcs, {arc.first, arc.last, state_of(arc.to, next)});
    }
    states[i].arcs.assign(arcs.begin(), arcs.end());
    if (states.size() > kMostDfaStates) return std::nullopt;
  }
  CharDfa result;
  result.states_ = std::move(states);
  result.trim();
  return result;
}

CharDfa::Before CharDfa::before() const {
  Before before;
  before.ends.resize(states_.size() + 1);
  for (const State& state : states_) {
    for (const Arc& arc : state.arcs) ++before.ends[arc.to + 1];
  }
  for (size_t i = 0; i < states_.size(); ++i) before.ends[i + 1] += before.ends[i];
  before.from.resize(before.ends.back());
  std::vector<uint32_t> next(before.ends.begin(), before.ends.end() - 1);
  for (uint32_t i = 0; i < states_.size(); ++i) {
    for (const Arc& arc : states_[i].arcs) before.from[next[arc.to]++] = i;
  }
  return before;
}

// A state that does not take every plain character has 0, and each other state one more than the
// least of those it leads to.
std::vector<uint32_t> CharDfa::open() const {
  std::vector<uint32_t> open(states_.size(), kUnbounded), reached;
  for (uint32_t i = 0; i < states_.size(); ++i) {
    if (takes_all_plain(states_[i])) continue;
    open[i] = 0;
    reached.push_back(i);
  }
  if (reached.size() == states_.size()) return {};
  const Before before = this->before();
  for (size_t i = 0; i < reached.size(); ++i) {
    const uint32_t at = reached[i];
    for (uint32_t n = before.ends[at]; n < before.ends[at + 1]; ++n) {
      const uint32_t from = before.from[n];
      if (open[from] != kUnbounded) continue;
      open[from] = open[at] + 1;
      reached.push_back(from);
    }
  }
  return open;
}

// Drops states that lead to no end. All states can be reached.
void CharDfa::trim() {
  const auto [ends, from] = before();
  std::vector<uint32_t> unvisited;
  std::vector<bool> useful(states_.size());
  for (uint32_t i = 0; i < states_.size(); ++i) {
    if (!states_[i].ends) continue;
    useful[i] = true;
    unvisited.push_back(i);
  }
  while (!unvisited.empty()) {
    const uint32_t at = unvisited.back();
    unvisited.pop_back();
    for (uint32_t i = ends[at]; i < ends[at + 1]; ++i) {
      if (useful[from[i]]) continue;
      useful[from[i]] = true;
      unvisited.push_back(from[i]);
    }
  }
  if (states_.empty() || !useful[0]) {
    states_.clear();
    return;
  }
  std::vector<uint32_t> numbers(states_.size());
  uint32_t count = 0;
  for (size_t i = 0; i < states_.size(); ++i) numbers[i] = useful[i] ? count++ : 0;
  if (count == states_.size()) return;
  std::vector<Arc> arcs;
  for (size_t i = 0; i < states_.size(); ++i) {
    if (!useful[i]) continue;
    arcs.clear();
    for (const Arc& arc : states_[i].arcs) {
      if (useful[arc.to]) add_arc(arcs, {arc.first, arc.last, numbers[arc.to]});
    }
    states_[i].arcs.assign(arcs.begin(), arcs.end());
    if (numbers[i] != i) states_[numbers[i]] = std::move(states_[i]);
  }
  states_.resize(count);
}

// Moore's algorithm: groups of states are split until all states of a group lead to the same
// groups. After the first round only states that lead to a state of a new group are looked at; the
// others keep their group, as does the largest part if all are looked at.
void CharDfa::minimize() {
  if (states_.size() < 2 || !merge_tails()) return;
  size_t work = 100 * states_.size();  // states to look at; unmerged states are correct too
  const Before before = this->before();
  std::vector<uint32_t> group(states_.size()), unsettled(states_.size());
  std::vector<size_t> sizes(2);  // of the groups
  for (uint32_t i = 0; i < states_.size(); ++i) {
    group[i] = states_[i].ends;
    ++sizes[group[i]];
    unsettled[i] = i;
  }
  std::vector<std::pair<uint32_t, uint32_t>> moved;  // states and their new groups
  State state;
  while (!unsettled.empty()) {
    if (work < unsettled.size()) return;
    work -= unsettled.size();
    std::sort(unsettled.begin(), unsettled.end(), [&](uint32_t a, uint32_t b) {
      return std::pair(group[a], a) < std::pair(group[b], b);
    });
    moved.clear();
    for (size_t begin = 0, end = 0; begin < unsettled.size(); begin = end) {
      const uint32_t old = group[unsettled[begin]];
      std::unordered_map<State, std::vector<uint32_t>, HashState> parts;  // by where they lead
      for (; end < unsettled.size() && group[unsettled[end]] == old; ++end) {
        arcs_by_group(states_[unsettled[end]], group, state.arcs);
        parts[state].push_back(unsettled[end]);
      }
      auto stays = parts.end();
      if (end - begin == sizes[old]) {
        stays = std::max_element(parts.begin(), parts.end(), [](const auto& a, const auto& b) {
          return a.second.size() < b.second.size();
        });
      }
      for (auto part = parts.begin(); part != parts.end(); ++part) {
        if (part == stays) continue;
        for (const uint32_t i : part->second) {
          moved.emplace_back(i, static_cast<uint32_t>(sizes.size()));
        }
        sizes[old] -= part->second.size();
        sizes.push_back(part->second.size());
      }
    }
    unsettled.clear();
    for (const auto& [i, to] : moved) {
      group[i] = to;
      unsettled.insert(unsettled.end(), before.from.begin() + before.ends[i],
                       before.from.begin() + before.ends[i + 1]);
    }
    std::sort(unsettled.begin(), unsettled.end());
    unsettled.erase(std::unique(unsettled.begin(), unsettled.end()), unsettled.end());
  }
  keep_groups(group);
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
  graph.open = open();
  std::vector<Arc> arcs;
  std::vector<std::pair<char32_t, char32_t>> ranges;
  for (uint32_t from = 0; from < states_.size(); ++from) {
    arcs.assign(states_[from].arcs.begin(), states_[from].arcs.end());
    std::sort(arcs.begin(), arcs.end(), [](const Arc& a, const Arc& b) {
      return a.to != b.to ? a.to < b.to : a.first < b.first;
    });
    for (size_t begin = 0, end = 0; begin < arcs.size(); begin = end) {
      const uint32_t to = arcs[begin].to;
      ranges.clear();
      for (; end < arcs.size() && arcs[end].to == to; ++end) {
        ranges.emplace_back(arcs[end].first, arcs[end].last);
      }
      auto found = known.find(ranges);
      if (found == known.end()) {
        CharClass chars;
        for (const auto& [first, last] : ranges) chars.push_back({first, last});
        found = known.emplace(ranges, static_cast<uint32_t>(parts.size())).first;
        parts.push_back(write(rules, normalized(std::move(chars))));
      }
      graph.links.push_back({from, to, found->second});
    }
  }
  return rules.graph(parts, std::move(graph));
}

}  // namespace skald::grammar
