#include "engine/grammar/stacks.h"

#include <algorithm>
#include <functional>

#include "engine/base/error.h"

namespace skald::grammar {
namespace {

constexpr size_t kMostItems = size_t{1} << 14;  // limit of one set
constexpr size_t kMostSets = size_t{1} << 21;
constexpr uint32_t kMostNesting = 10'000;
constexpr size_t kMostStepBytes = size_t{48} << 20;

uint64_t mix(uint64_t x) {
  x *= 0x9E3779B97F4A7C15u;
  return x ^ x >> 29;
}

uint64_t hash_of(const Item& item) { return mix(uint64_t{item.state} << 32 | item.below); }

uint64_t hash_of(std::span<const Item> items) {
  uint64_t hash = items.size();
  for (const Item& item : items) hash = mix(hash ^ hash_of(item));
  return hash;
}

}  // namespace

Stacks::Stacks(std::shared_ptr<const Automaton> automaton)
    : automaton_(std::move(automaton)), callers_(automaton_->rules()) {
  class_byte_.resize(static_cast<size_t>(automaton_->byte_classes()));
  for (int byte = 255; byte >= 0; --byte) {
    class_byte_[automaton_->byte_class()[byte]] = static_cast<uint8_t>(byte);
  }
  sets_.resize(kBottom + 1);  // dead, holes, bottom
  table_.resize(1024, kDead);
  visits_.resize(64);
}

SetId Stacks::start() {
  const Item begin{automaton_->begin(), kBottom};
  return make({&begin, 1});
}

bool Stacks::first_visit(const Item& item) {
  if (2 * ++visit_count_ > visits_.size()) {
    std::vector<Visit> old(visits_.size() * 2);
    std::swap(old, visits_);
    visit_count_ = 1;
    for (const Visit& visit : old) {
      if (visit.round == round_) first_visit(visit.item);
    }
  }
  const size_t mask = visits_.size() - 1;
  for (size_t at = hash_of(item) & mask;; at = (at + 1) & mask) {
    if (visits_[at].round != round_) {
      visits_[at] = {item, round_};
      return true;
    }
    if (visits_[at].item == item) return false;
  }
}

SetId Stacks::make(std::span<const Item> items) {
  ++round_;
  visit_count_ = 0;
  made_.clear();
  todo_.assign(items.begin(), items.end());
  while (!todo_.empty()) {
    const Item item = todo_.back();
    todo_.pop_back();
    if (!first_visit(item)) continue;
    bool stays = item.state == kEnded;
    if (!stays) {
      automaton_->each_edge(item.state, [&](const Edge& edge) {
        if (edge.kind == Edge::Kind::Empty) {
          todo_.push_back({edge.target, item.below});
        } else {
          stays = true;
        }
      });
      if (automaton_->is_end(item.state)) {
        if (is_leaf(item.below)) {
          todo_.push_back({kEnded, item.below});
        } else {
          const std::span<const Item> below = this->items(item.below);
          todo_.insert(todo_.end(), below.begin(), below.end());
        }
      }
    }
    if (stays) made_.push_back(item);
    if (made_.size() > kMostItems) {
      fail(Exit::Failed, "the grammar is too ambiguous: its text can be read in more than ",
           kMostItems, " ways at one place; simplify the grammar");
    }
  }
  std::sort(made_.begin(), made_.end());
  return intern(made_);
}

SetId Stacks::intern(std::span<const Item> sorted) {
  if (sorted.empty()) return kDead;
  const size_t mask = table_.size() - 1;
  size_t at = hash_of(sorted) & mask;
  for (; table_[at] != kDead; at = (at + 1) & mask) {
    const std::span<const Item> known = items(table_[at]);
    if (std::equal(known.begin(), known.end(), sorted.begin(), sorted.end())) return table_[at];
  }
  const SetId id = add_set(sorted);
  table_[at] = id;
  if (2 * sets_.size() > table_.size()) grow_table();
  return id;
}

SetId Stacks::add_set(std::span<const Item> sorted) {
  Set set;
  set.begin = static_cast<uint32_t>(items_.size());
  set.count = static_cast<uint32_t>(sorted.size());
  set.only_ended = true;
  for (const Item& item : sorted) {
    set.depth = std::max(set.depth, sets_[item.below].depth + 1);
    set.open = std::max(set.open, automaton_->open(item.state));
    if (item.state != kEnded) {
      set.only_ended = false;
    } else if (item.below == kBottom) {
      set.ends_bottom = true;
    } else {
      set.ends_hole = true;
    }
  }
  if (set.depth > kMostNesting) {
    fail(Exit::Failed, "the text nests more than ", kMostNesting, " rules of its grammar");
  }
  if (sets_.size() >= kMostSets || items_.size() + sorted.size() >= kNone) {
    fail(Exit::Failed,
         "the grammar is too ambiguous: one token can be read in too many ways; simplify the "
         "grammar");
  }
  items_.insert(items_.end(), sorted.begin(), sorted.end());
  sets_.push_back(set);
  return static_cast<SetId>(sets_.size() - 1);
}

void Stacks::grow_table() {
  std::fill(table_.begin(), table_.end(), kDead);
  while (2 * sets_.size() > table_.size()) table_.resize(2 * table_.size(), kDead);
  const size_t mask = table_.size() - 1;
  for (SetId id = kBottom + 1; id < sets_.size(); ++id) {
    size_t at = hash_of(items(id)) & mask;
    while (table_[at] != kDead) at = (at + 1) & mask;
    table_[at] = id;
  }
}

void Stacks::add_caller(uint32_t rule, const Item& item) {
  if (callers_[rule].empty()) {
    called_.emplace_back(automaton_->order(rule), rule);
    std::push_heap(called_.begin(), called_.end(), std::greater());
  }
  callers_[rule].push_back(item);
}

// Finds the bytes that the items of a set can take, by their own edges and by those of called
// rules. All callers of a rule at this place share one set below the rule's items.
void Stacks::find_edges(SetId set) {
  // Left over if an Error was thrown
  for (const auto& [order, rule] : called_) callers_[rule].clear();
  called_.clear();
  const std::span<const Item> own = items(set);
  from_.assign(own.begin(), own.end());
  found_.clear();
  const auto take = [&](const Edge& edge, SetId below) {
    if (edge.kind == Edge::Kind::Byte) {
      found_.push_back({edge.first, edge.last, edge.target, below});
    } else if (edge.kind == Edge::Kind::Call) {
      add_caller(edge.rule, {edge.target, below});
    }
  };
  for (const Item& item : from_) {
    if (item.state == kEnded) continue;
    automaton_->each_edge(item.state, [&](const Edge& edge) { take(edge, item.below); });
  }
  while (!called_.empty()) {
    const uint32_t rule = called_.front().second;
    SetId below = make(callers_[rule]);
    // A call at the end of a rule over a leaf continues with the leaf itself.
    if (const std::span<const Item> item = items(below); item.size() == 1 && only_ended(below)) {
      below = item[0].below;
    }
    std::pop_heap(called_.begin(), called_.end(), std::greater());
    called_.pop_back();
    callers_[rule].clear();
    for (const Edge& edge : automaton_->start(rule)) take(edge, below);
  }
  OutEdge* const kept = edges_.add(found_.size());
  std::copy(found_.begin(), found_.end(), kept);
  sets_[set].edges = {kept, found_.size()};
  sets_[set].has_edges = true;
}

void Stacks::forget_steps() {
  for (Set& set : sets_) {
    set.row = nullptr;
    set.has_edges = false;
  }
  rows_.clear();
  edges_.clear();
}

SetId Stacks::compute_step(SetId set, uint8_t byte_class) {
  if (4 * rows_.size() + sizeof(OutEdge) * edges_.size() > kMostStepBytes) {
    forget_steps();
  }
  if (!sets_[set].has_edges) find_edges(set);
  if (!sets_[set].row) {
    sets_[set].row = rows_.add(class_byte_.size());
    std::fill_n(sets_[set].row, class_byte_.size(), kNone);
  }
  const uint8_t byte = class_byte_[byte_class];
  from_.clear();
  for (const OutEdge& edge : sets_[set].edges) {
    if (edge.first <= byte && byte <= edge.last) from_.push_back({edge.target, edge.below});
  }
  const SetId next = make(from_);
  sets_[set].row[byte_class] = next;
  return next;
}

SetId Stacks::over_holes(SetId set, uint32_t bytes, std::vector<SetId>& below) {
  below.clear();
  from_.clear();
  for (const Item& item : items(set)) {
    const State state =
        item.state == kEnded ? kEnded : automaton_->representative(item.state, bytes);
    if (item.below == kBottom) {
      from_.push_back({state, kBottom});
      continue;
    }
    const auto known = std::find(below.begin(), below.end(), item.below);
    const auto index = known - below.begin();
    if (known == below.end()) below.push_back(item.below);
    if (index >= kHoles) return kDead;
    from_.push_back({state, hole(static_cast<int>(index))});
  }
  std::sort(from_.begin(), from_.end());
  from_.erase(std::unique(from_.begin(), from_.end()), from_.end());
  return intern(from_);
}

SetId Stacks::alike(SetId set, uint32_t bytes) {
  const auto is_copy = [](const Item& item) {
    return item.state >= kCopies && item.state != kEnded;
  };
  const std::span<const Item> own = items(set);
  if (std::none_of(own.begin(), own.end(), is_copy)) return set;
  from_.assign(own.begin(), own.end());
  for (Item& item : from_) {
    if (is_copy(item)) item.state = automaton_->representative(item.state, bytes);
  }
  std::sort(from_.begin(), from_.end());
  from_.erase(std::unique(from_.begin(), from_.end()), from_.end());
  return intern(from_);
}

SetId Stacks::both(SetId a, SetId b) {
  if (a == kDead || a == b) return b;
  if (b == kDead) return a;
  std::vector<Item> all(items(a).begin(), items(a).end());
  all.insert(all.end(), items(b).begin(), items(b).end());
  return make(all);
}

void Stacks::collect(std::span<SetId* const> roots) {
  std::vector<bool> live(sets_.size());
  for (const SetId* root : roots) live[*root] = true;
  // A set has a higher number than all sets below it.
  for (SetId id = static_cast<SetId>(sets_.size()) - 1; id > kBottom; --id) {
    if (!live[id]) continue;
    for (const Item& item : items(id)) live[item.below] = true;
  }
  std::vector<SetId> moved(sets_.size());
  std::vector<Set> sets(sets_.begin(), sets_.begin() + kBottom + 1);
  std::vector<Item> kept;
  for (SetId id = 0; id < sets_.size(); ++id) {
    if (id <= kBottom) {
      moved[id] = id;
      continue;
    }
    if (!live[id]) continue;
    moved[id] = static_cast<SetId>(sets.size());
    Set set = sets_[id];
    set.begin = static_cast<uint32_t>(kept.size());
    for (const Item& item : items(id)) kept.push_back({item.state, moved[item.below]});
    sets.push_back(set);
  }
  sets_ = std::move(sets);
  items_ = std::move(kept);
  forget_steps();
  // The numbers keep their order, so items are still sorted.
  table_.assign(1024, kDead);
  grow_table();
  for (SetId* root : roots) *root = moved[*root];
}

size_t Stacks::bytes() const {
  return sets_.size() * sizeof(Set) + items_.size() * sizeof(Item) + 4 * rows_.size() +
         edges_.size() * sizeof(OutEdge) + 4 * table_.size();
}

}  // namespace skald::grammar
