#include "engine/grammar/masks.h"

#include <algorithm>
#include <unordered_set>

#include "engine/base/error.h"

namespace skald::grammar {
namespace {

// With more escapes than this, walking the whole trie is cheaper than caching them.
constexpr size_t kManyEscapes = 4096;
// Where fewer nodes lie below one, they are visited as quickly as all are looked at together.
constexpr uint32_t kFewNodes = 8;

}  // namespace

Masks::Masks(std::shared_ptr<const Automaton> automaton,
             std::shared_ptr<const Vocabulary> vocabulary, MaskLimits limits)
    : vocabulary_(std::move(vocabulary)), stacks_(std::move(automaton)), limits_(limits) {}

void Masks::add_escapes(const Trie& trie, uint32_t node, SetId set, std::vector<Escape>& escapes) {
  if (!stacks_.leaves_hole(set) || trie.nodes[node].end == node + 1) return;
  for (const Item& item : stacks_.items(set)) {
    if (item.state == kEnded && item.below != kBottom) escapes.push_back({item.below, node, &trie});
  }
}

void Masks::walk(const Trie& trie, uint32_t begin, uint32_t end, uint32_t depth, SetId set,
                 TokenMask& mask, std::vector<Escape>& escapes) {
  const std::array<uint8_t, 256>& byte_class = stacks_.automaton().byte_class();
  path_.resize(vocabulary_->longest_token() + 1);
  path_[depth] = set;
  for (uint32_t n = begin; n < end;) {
    const TrieNode& node = trie.nodes[n];
    const SetId next = stacks_.step_class(path_[node.depth - 1], byte_class[node.byte]);
    if (next == kDead) {
      n = node.end;
      continue;
    }
    path_[node.depth] = next;
    for (uint32_t t = node.first_token; t < trie.nodes[n + 1].first_token; ++t) {
      add_token(mask, trie.tokens[t]);
    }
    add_escapes(trie, n, next, escapes);
    n = stacks_.only_ended(next) ? node.end : n + 1;
  }
}

TokenMask Masks::empty_mask() {
  if (spare_.empty()) return TokenMask(vocabulary_->words());
  TokenMask mask = std::move(spare_.back());
  spare_.pop_back();
  std::fill(mask.begin(), mask.end(), 0);
  return mask;
}

template <class Visit>
bool Masks::each_step(SetId set, ByteRange range, int more, const Visit& visit) {
  const std::array<uint8_t, 256>& byte_class = stacks_.automaton().byte_class();
  SetId to = kDead;
  for (int byte = range.first; byte <= range.last; ++byte) {
    if (byte > range.first && byte_class[byte] == byte_class[byte - 1]) continue;
    const SetId before = to;
    to = stacks_.step_class(set, byte_class[byte]);
    if (byte > range.first && to == before) continue;
    const bool goes_on =
        more > 0 && to != kDead ? each_step(to, {0x80, 0xBF}, more - 1, visit) : visit(to);
    if (!goes_on) return false;
  }
  return true;
}

template <class Visit>
bool Masks::each_of_lead(SetId set, uint8_t lead, const Visit& visit) {
  if (lead < 0x80) return each_step(set, {lead, lead}, 0, visit);
  const SetId after = stacks_.step(set, lead);
  switch (lead) {
    case 0xE0:
      return each_step(after, {0xA0, 0xBF}, 1, visit);
    case 0xE2: {  // E2 80 A8 and A9 are line breaks and therefore not plain
      const SetId e280 = stacks_.step(after, 0x80);
      return each_step(e280, {0x80, 0xA7}, 0, visit) && each_step(e280, {0xAA, 0xBF}, 0, visit) &&
             each_step(after, {0x81, 0xBF}, 1, visit);
    }
    case 0xED:
      return each_step(after, {0x80, 0x9F}, 1, visit);
    case 0xF0:
      return each_step(after, {0x90, 0xBF}, 2, visit);
    case 0xF4:
      return each_step(after, {0x80, 0x8F}, 2, visit);
    default:
      return each_step(after, {0x80, 0xBF}, utf8_length(lead) - 2, visit);
  }
}

template <class Visit>
bool Masks::each_plain(SetId set, const Visit& visit) {
  const std::array<uint8_t, 256>& byte_class = stacks_.automaton().byte_class();
  // Bytes of one run are followed by the same bytes.
  constexpr ByteRange kRuns[] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x7E}, {0xC2, 0xDF},
                                 {0xE0, 0xE0}, {0xE1, 0xE1}, {0xE2, 0xE2}, {0xE3, 0xEC},
                                 {0xED, 0xED}, {0xEE, 0xEF}, {0xF0, 0xF0}, {0xF1, 0xF3},
                                 {0xF4, 0xF4}};
  for (const ByteRange& run : kRuns) {
    for (int lead = run.first; lead <= run.last; ++lead) {
      if (lead > run.first && byte_class[lead] == byte_class[lead - 1]) continue;
      if (!each_of_lead(set, static_cast<uint8_t>(lead), visit)) return false;
    }
  }
  return true;
}

Masks::Usual& Masks::usual(SetId set) {
  if (set < usual_at_.size() && usual_at_[set]) return *usual_at_[set];
  Usual result;  // kept when it is complete: a step may throw
  result.set = set;
  result.open = stacks_.open(set);
  if (!read_plain_facts(set, result)) try_ascii(set, result);
  if (set >= usual_at_.size()) usual_at_.resize(std::max(stacks_.sets(), size_t{set} + 1));
  return *(usual_at_[set] = &usual_.emplace_back(result));
}

// Where the automaton knows it, no character needs to be tried.
bool Masks::read_plain_facts(SetId set, Usual& usual) {
  const Automaton& automaton = stacks_.automaton();
  std::vector<Item> next;
  PlainSet common = PlainSet().complement(), taken;
  for (const Item& item : stacks_.items(set)) {
    if (item.state == kEnded) continue;
    State to = kNoState;
    if (const PlainChars* chars = automaton.plain_chars(item.state, to)) {
      next.push_back({to, item.below});
      common.keep(chars->usual);
      taken.add(chars->taken);
    } else if (automaton.takes_plain(item.state)) {
      return false;
    }
  }
  if (next.empty()) return false;
  usual.next = stacks_.make(next);
  usual.known = PlainSet().complement();
  usual.others = stacks_.leaves_hole(usual.next) ? usual.known : common.complement();
  usual.taken = taken;
  usual.ascii = usual.others.complement().ascii();
  return true;
}

void Masks::try_ascii(SetId set, Usual& usual) {
  const auto next_of = [&](int member) {
    return stacks_.step(set, static_cast<uint8_t>(member + 0x20));
  };
  const auto is_plain_member = [](int member) {
    return is_plain(static_cast<char32_t>(member + 0x20));
  };
  // The set to which most lead, by a vote in which each voter for another set takes one back.
  int votes = 0;
  for (int member = 0; member < PlainSet::kAscii; ++member) {
    const SetId next = next_of(member);
    if (!is_plain_member(member) || next == kDead) continue;
    if (votes == 0) usual.next = next;
    votes += next == usual.next ? 1 : -1;
  }
  const bool leaves = usual.next != kDead && stacks_.leaves_hole(usual.next);
  for (int member = 0; member < PlainSet::kAscii; ++member) {
    if (next_of(member) != kDead) usual.taken.add(member);
    if (leaves || usual.next == kDead || next_of(member) != usual.next) {
      usual.others.add(member);
    } else if (is_plain_member(member)) {
      ++usual.ascii;
    }
    usual.known.add(member);
  }
  for (int lead = 0xC2; lead <= 0xF4; ++lead) {
    const auto byte = static_cast<uint8_t>(lead);
    if (stacks_.step(set, byte) != kDead) usual.taken.add(PlainSet::group(byte));
  }
}

void Masks::find_groups(const PlainSet& chars, Usual& usual) {
  if (usual.known.holds(chars)) return;
  const bool leaves = usual.next == kDead || stacks_.leaves_hole(usual.next);
  PlainSet found;
  for (int lead = 0xC2; lead <= 0xF4; ++lead) {
    const int group = PlainSet::group(static_cast<uint8_t>(lead));
    if (!chars.has(group) || usual.known.has(group)) continue;
    found.add(group);
    const auto same = [&](SetId to) { return to == usual.next; };
    if (leaves || !each_of_lead(usual.set, static_cast<uint8_t>(lead), same))
      usual.others.add(group);
  }
  usual.known.add(found);
}

Masks::Usual& Masks::after(Usual& usual) {
  if (!usual.after) {
    usual.after = &this->usual(stacks_.alike(usual.next, vocabulary_->longest_token()));
  }
  return *usual.after;
}

Masks::Usual* Masks::usual_step(Usual& from, uint8_t lead) {
  const int member = PlainSet::group(lead);
  if (!from.known.has(member)) {
    PlainSet chars;
    chars.add(member);
    find_groups(chars, from);
  }
  return from.others.has(member) ? nullptr : &after(from);
}

bool Masks::all_below(uint32_t node, Usual& first) {
  const Trie& trie = vocabulary_->plain_trie();
  const PlainSet& chars = trie.below[node];
  Usual* step = &first;
  for (int height = trie.nodes[node].height; height > 0;) {
    if (step->others.meets(chars)) return false;
    find_groups(chars, *step);
    if (step->others.meets(chars)) return false;
    join_run(*step);
    if (step->behind == step) return true;
    height -= step->run;
    step = step->behind;
  }
  return true;
}

// Each time that a run is followed, it grows by the run behind it, if that has the same characters.
void Masks::join_run(Usual& usual) {
  constexpr int kLongest = 64;
  if (!usual.behind) {
    usual.behind = &after(usual);
    usual.run = 1;
    return;
  }
  const Usual& next = *usual.behind;
  const PlainSet all = PlainSet().complement();
  if (!next.behind || &next == &usual || usual.run + next.run > kLongest ||
      next.others != usual.others || usual.known != all || next.known != all) {
    return;
  }
  usual.run = static_cast<uint8_t>(usual.run + next.run);
  usual.behind = next.behind;
}

void Masks::walk_plain(SetId set, TokenMask& mask, std::vector<Escape>& escapes) {
  const Trie& trie = vocabulary_->plain_trie();
  // Where most characters may come, most tokens are set at once, and others removed.
  const bool most = 2 * usual(set).ascii > PlainSet::kAscii;
  if (most) mask = vocabulary_->plain(vocabulary_->longest_plain());
  const auto change = [&](bool add, uint32_t from, uint32_t to) {  // the tokens of these nodes
    if (add == most) return;
    for (uint32_t t = trie.nodes[from].first_token; t < trie.nodes[to].first_token; ++t) {
      (add ? add_token : remove_token)(mask, trie.tokens[t]);
    }
  };
  plain_path_.resize(vocabulary_->longest_token() + 1);
  plain_path_[0] = {.set = set, .usual = &usual(set)};
  for (uint32_t n = 0; n < trie.size();) {
    const TrieNode& node = trie.nodes[n];
    const uint32_t first = n + 1;  // the first node below
    Place& from = plain_path_[node.depth - 1];
    Place& here = plain_path_[node.depth];
    Usual* next = from.missing > 0 ? from.usual : nullptr;
    int left = from.missing - 1;
    if (from.missing == 0) {
      if (!from.usual) from.usual = &usual(from.set);
      if (from.usual->open > node.height) {
        change(true, n, node.end);
        n = node.end;
        continue;
      }
      left = utf8_length(node.byte) - 1;
      next = usual_step(*from.usual, node.byte);
      if (next && left > 0 && all_below(n, *next)) {
        change(true, n, node.end);
        n = node.end;
        continue;
      }
    }
    if (!next) {
      const SetId to = stacks_.step(from.set, node.byte);
      if (to == kDead) {
        change(false, n, node.end);
        n = node.end;
        continue;
      }
      here = {.set = to, .missing = static_cast<uint8_t>(left)};
      add_escapes(trie, n, to, escapes);
      if (left == 0 && node.end - n >= kFewNodes) next = &usual(to);
    }
    if (next) here = {.set = next->set, .missing = static_cast<uint8_t>(left), .usual = next};
    change(true, n, first);
    n = first;
    if (left > 0 || first == node.end) continue;
    if (next ? !next->taken.meets(trie.below[first - 1]) : stacks_.only_ended(here.set)) {
      change(false, first, node.end);
      n = node.end;
    } else if (next && (next->open >= node.height || all_below(first - 1, *next))) {
      change(true, first, node.end);
      n = node.end;
    }
  }
}

bool Masks::plain_step(SetId set, SetId& next) {
  bool known = false;
  return each_plain(set, [&](SetId to) {
    if (known && to != next) return false;
    next = to;
    known = true;
    return true;
  });
}

bool Masks::stays(const Item& item) {
  const SetId alone = stacks_.alone(item);
  if (const auto known = stays_.find(alone); known != stays_.end()) return known->second;
  const bool stays = each_plain(alone, [&](SetId to) {
    const std::span<const Item> items = stacks_.items(to);
    return std::binary_search(items.begin(), items.end(), item);
  });
  return stays_[alone] = stays;
}

bool Masks::stays_open(SetId set) {
  for (size_t i = 0; i < stacks_.items(set).size(); ++i) {
    const Item item = stacks_.items(set)[i];  // a copy: items move when sets are made
    if (item.state != kEnded && stays(item)) return true;
  }
  return false;
}

bool Masks::is_open(SetId set) {
  if (const auto known = open_.find(set); known != open_.end()) return known->second;
  // Sets that are looked at, their items, and the steps from them.
  constexpr size_t kMost = 128, kMostItems = 3000, kMostSteps = 2000;
  std::vector<SetId> reached{set};
  std::unordered_set<SetId> seen{set};
  size_t items = 0, steps = 0;
  bool open = true;
  const auto visit = [&](SetId to) {
    if (to == kDead || ++steps > kMostSteps) return false;
    if (stacks_.open(to) >= vocabulary_->longest_plain() || stays_open(to)) return true;
    if (stacks_.leaves_hole(to)) return false;
    if (const auto known = open_.find(to); known != open_.end()) return known->second;
    if (!seen.insert(to).second) return true;
    reached.push_back(to);
    items += stacks_.items(to).size();
    return reached.size() <= kMost && items <= kMostItems;
  };
  for (size_t i = 0; open && i < reached.size(); ++i) open = each_plain(SetId(reached[i]), visit);
  for (const SetId one : reached) open_[one] = open;
  return open;
}

int Masks::plain_ahead(SetId set) {
  const int longest = vocabulary_->longest_plain();
  for (int n = 0; n < longest; ++n) {
    SetId next = kDead;
    if (!plain_step(set, next)) return -1;
    if (next == kDead) return n;
    if (stacks_.leaves_hole(next)) return -1;
    next = stacks_.alike(next, vocabulary_->longest_token());
    if (next == set) return longest;
    set = next;
  }
  return longest;
}

const Masks::Local& Masks::local(SetId set) {
  const auto known = locals_.find(set);
  if (known != locals_.end()) return known->second;
  Local local;
  local.mask = empty_mask();
  const int longest = vocabulary_->longest_plain();
  const bool all = stacks_.open(set) >= longest;
  if (const int plain = all ? longest : plain_ahead(set); plain > 0) {
    local.mask = vocabulary_->plain(plain);
  } else if (longest > 0 && (stays_open(set) || (stacks_.open(set) == 0 && is_open(set)))) {
    local.mask = vocabulary_->plain(longest);
  } else if (longest > 0) {
    walk_plain(set, local.mask, local.escapes);
  }
  const Trie& others = vocabulary_->other_trie();
  walk(others, 0, static_cast<uint32_t>(others.size()), 0, set, local.mask, local.escapes);
  if (local.escapes.size() > kManyEscapes) local = {.cached = false};
  const Local& kept = locals_.emplace(set, std::move(local)).first->second;
  order_.push_back({set, true});
  return kept;
}

std::span<const uint64_t> Masks::mask(SetId set) {
  const auto known = masks_.find(set);
  if (known != masks_.end()) return known->second;

  std::vector<SetId> below;
  std::vector<Escape> escapes;
  std::set<Ahead> seen;
  std::vector<Ahead> unvisited;
  const auto go_on = [&](std::span<const Escape> at) {
    for (const Escape& escape : at) {
      const Ahead ahead{below[escape.hole - hole(0)], escape.trie, escape.node};
      if (seen.insert(ahead).second) unvisited.push_back(ahead);
    }
  };
  const SetId over = stacks_.over_holes(set, vocabulary_->longest_token(), below);
  const Local* place = &local(over == kDead ? set : over);
  if (!place->cached) place = &local(set);  // without holes there are no escapes
  TokenMask mask = empty_mask();
  std::copy(place->mask.begin(), place->mask.end(), mask.begin());
  go_on(place->escapes);
  while (!unvisited.empty()) {
    const Ahead ahead = unvisited.back();
    unvisited.pop_back();
    const TrieNode& node = ahead.trie->nodes[ahead.node];
    const SetId on = stacks_.over_holes(ahead.set, vocabulary_->longest_token(), below);
    escapes.clear();
    walk(*ahead.trie, ahead.node + 1, node.end, node.depth, on == kDead ? ahead.set : on, mask,
         escapes);
    go_on(escapes);
  }
  if (stacks_.may_end(set)) {
    for (int32_t id : vocabulary_->ends()) add_token(mask, id);
  }
  const TokenMask& kept = masks_.emplace(set, std::move(mask)).first->second;
  order_.push_back({set, false});
  return kept;
}

std::string Masks::forced_text(SetId set, size_t most) {
  std::string text;
  while (text.size() < most && !stacks_.may_end(set)) {
    SetId only = kDead;
    int byte = -1;
    for (int b = 0; b < 256; ++b) {
      const SetId next = stacks_.step(set, static_cast<uint8_t>(b));
      if (next == kDead) continue;
      if (byte >= 0) return text;
      byte = b;
      only = next;
    }
    if (byte < 0) break;
    text += static_cast<char>(byte);
    set = only;
  }
  return text;
}

void Masks::tidy() {
  const size_t mask_bytes = 8 * vocabulary_->words() + 64;
  while (order_.size() * mask_bytes > limits_.mask_bytes) {
    forget(order_.front());
    order_.pop_front();
  }
  const size_t usual_bytes = usual_.size() * sizeof(Usual) + 8 * usual_at_.size();
  if (stacks_.bytes() + usual_bytes <= limits_.stack_bytes) return;
  const std::vector<SetId*> roots(roots_.begin(), roots_.end());
  stacks_.collect(roots);
  for (const Made& made : order_) forget(made);
  order_.clear();
  locals_.clear();
  masks_.clear();
  usual_.clear();
  usual_at_.clear();
  open_.clear();
  stays_.clear();
}

void Masks::forget(const Made& made) {
  const auto keep_memory = [&](TokenMask& mask) {
    if (!mask.empty()) spare_.push_back(std::move(mask));
  };
  if (made.local) {
    const auto found = locals_.find(made.set);
    keep_memory(found->second.mask);
    locals_.erase(found);
  } else {
    const auto found = masks_.find(made.set);
    keep_memory(found->second);
    masks_.erase(found);
  }
}

size_t Masks::bytes() const {
  size_t bytes = stacks_.bytes() + usual_.size() * sizeof(Usual) + 8 * usual_at_.size();
  for (const TokenMask& mask : spare_) bytes += 8 * mask.size();
  for (const auto& [set, local] : locals_) {
    bytes += 8 * local.mask.size() + sizeof(Escape) * local.escapes.size();
  }
  for (const auto& [set, mask] : masks_) bytes += 8 * mask.size();
  return bytes;
}

}  // namespace skald::grammar
