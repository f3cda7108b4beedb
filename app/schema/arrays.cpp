// Arrays as rules.
#include <algorithm>

#include "app/files/json.h"
#include "app/schema/compiler.h"
#include "app/schema/graph_maker.h"
#include "engine/base/error.h"

namespace skald {

using grammar::NodeId;

namespace {

constexpr size_t kFewValues = 63;         // values whose use is remembered in the bits of a state
constexpr size_t kMostValueSets = 1'100;  // of values: each is a state
constexpr size_t kMostCounted = 4;        // conditions of contains
constexpr uint64_t kLongestCounted = 4'000;

// True if at most `most` of `values` values can be chosen in few ways, regardless of their order.
bool few_subsets(size_t values, uint64_t most) {
  size_t sum = 0, ways = 1;
  for (size_t k = 0; k <= values && k <= most; ++k) {
    sum += ways;
    if (sum > kMostValueSets) return false;
    ways = ways * (values - k) / (k + 1);
  }
  return true;
}

}  // namespace

// An array whose items are counted, or remembered.
class ArrayGraph {
 public:
  ArrayGraph(SchemaCompiler& compiler, const ArrayForm& form) : c_(compiler), form_(form) {}

  // nullopt if there would be too many states.
  std::optional<NodeId> make() {
    places_ =
        std::max<uint64_t>(form_.prefix.size(), form_.most == kNoLimit ? form_.least : form_.most);
    for (const Contains& contains : form_.contains) {
      places_ = std::max(places_, contains.from);
      if (contains.least > kLongestCounted) return std::nullopt;
      if (contains.most != kNoLimit && contains.most > kLongestCounted) return std::nullopt;
    }
    if (places_ > kLongestCounted || form_.contains.size() > kMostCounted) return std::nullopt;
    graph_.number({0, false, std::vector<uint64_t>(form_.contains.size()), 0});
    for (size_t i = 0; i < graph_.size(); ++i) {
      if (graph_.size() > kMostGraphStates || !add_links(i, State(graph_.state(i)))) {
        return std::nullopt;
      }
    }
    auto& r = c_.rules_;
    return r.sequence({r.text("["), c_.parts_.space(), graph_.make(), r.text("]")});
  }

 private:
  // The items so far, whether an item must follow because of a comma, the items that satisfy each
  // condition, and a bit for each value already used.
  struct State {
    uint64_t items;
    bool comma;
    std::vector<uint64_t> counts;
    uint64_t used;
    auto operator<=>(const State&) const = default;
  };

  bool add_links(size_t from, const State& state) {
    if (state.items == kNoLimit) {
      graph_.end(from);
      return true;
    }
    const bool complete = [&] {
      if (state.items < form_.least) return false;
      for (size_t j = 0; j < state.counts.size(); ++j) {
        if (state.counts[j] < form_.contains[j].least) return false;
      }
      return true;
    }();
    if (state.items == 0 && !state.comma && complete) graph_.end(from);
    if (state.items > 0 && !state.comma) {
      if (complete) {
        // The space before the bracket, and nothing after it.
        graph_.link(from, space_, State{kNoLimit, false, {}, 0});
      }
      if (state.items < form_.most) {
        State next = state;
        next.comma = true;
        graph_.link(from, comma_, next);
      }
      return true;
    }
    if (state.items >= form_.most) return true;
    State next = state;
    next.comma = false;
    next.items = std::min(state.items + 1, std::max<uint64_t>(places_, 1));
    return add_items(from, state, form_.at(state.items), 0, next);
  }

  // Decides for contains[j] and the following ones whether the item satisfies them.
  bool add_items(size_t from, const State& state, CondId cond, size_t j, const State& next) {
    if (cond == kNothing) return true;
    if (j == form_.contains.size()) return add_item(from, cond, next);
    const Contains& contains = form_.contains[j];
    if (state.items < contains.from) return add_items(from, state, cond, j + 1, next);
    const bool limited = contains.most != kNoLimit;
    const uint64_t count = next.counts[j];
    if (limited ? count < contains.most : count < contains.least) {
      State more = next;
      ++more.counts[j];
      if (!add_items(from, state, c_.expander_.both(cond, contains.cond), j + 1, more))
        return false;
    }
    if (limited) cond = c_.expander_.both(cond, c_.expander_.inverse(contains.cond));
    return add_items(from, state, cond, j + 1, next);
  }

  bool add_item(size_t from, CondId cond, const State& next) {
    if (!form_.unique) {
      const auto [known, fresh] = nodes_.try_emplace(cond);
      if (fresh) known->second = c_.value(cond);
      graph_.link(from, known->second, next);
      return true;
    }
    const auto values = c_.few_values(cond);
    if (!values || !few_subsets(values->size(), form_.most)) return false;
    for (const auto& [text, value] : *values) {
      const auto [known, fresh] = values_.try_emplace(text, values_.size(), NodeId{});
      if (fresh) known->second.second = c_.build(value, "#");
      if (known->second.first >= kFewValues) return false;
      const uint64_t bit = uint64_t{1} << known->second.first;
      if (next.used & bit) continue;
      State to = next;
      to.used |= bit;
      graph_.link(from, known->second.second, to);
    }
    return true;
  }

  SchemaCompiler& c_;
  const ArrayForm& form_;
  GraphMaker<State> graph_{c_.rules_};
  uint64_t places_ = 0;
  const NodeId space_ = c_.parts_.space(), comma_ = c_.parts_.comma();
  std::map<CondId, NodeId> nodes_;
  std::map<std::string, std::pair<size_t, NodeId>> values_;
};

std::optional<std::map<std::string, Union>> SchemaCompiler::few_values(CondId cond) {
  std::map<std::string, Union> result;
  if (cond == kAnything) return std::nullopt;
  const Union& all = expander_.expand(cond);
  if (!all.arrays.empty() || !all.objects.empty()) return std::nullopt;
  if (all.null) result["null"].null = true;
  if (all.yes) result["true"].yes = true;
  if (all.no) result["false"].no = true;
  for (const StringForm& form : all.strings) {
    if (!form.values || form.values->size() > kFewValues) return std::nullopt;
    for (const std::string& text : *form.values) {
      result["\"" + text].strings = {
          {.values = std::make_shared<const std::vector<std::string>>(1, text)}};
    }
  }
  for (const NumberForm& form : all.numbers) {
    std::vector<NumberBound> values;
    if (form.values) {
      values = *form.values;
    } else if (form.integer && form.low && form.high && form.low->whole.size() < 4 &&
               form.high->whole.size() < 4) {
      for (int n = -999; n <= 999; ++n) {
        if (const auto value = number_bound(n, false); expander_.holds(form, *value)) {
          values.push_back(*value);
        }
      }
    } else {
      return std::nullopt;
    }
    if (values.size() > kFewValues) return std::nullopt;
    for (NumberBound& value : values) {
      NumberForm one;
      const std::string text = concat(value.negative ? "-" : "", value.whole, ".", value.fraction);
      one.values = std::make_shared<const std::vector<NumberBound>>(1, std::move(value));
      result[text].numbers = {std::move(one)};
    }
  }
  return result;
}

NodeId SchemaCompiler::build_array(const ArrayForm& form, const std::string& path) {
  const bool unique = form.unique && form.most > 1;
  if (!unique && form.contains.empty()) return build_list(form);
  ArrayForm counted = form;
  counted.unique = unique;
  if (const auto node = ArrayGraph(*this, counted).make()) return *node;
  if (unique) {
    expander_.note(path, "uniqueItems is kept only for items of few values; ignoring it");
    counted.unique = false;
    return build_array(counted, path);
  }
  expander_.note(path, "contains is too large to be kept; ignoring it");
  return build_list(form);
}

NodeId SchemaCompiler::build_list(const ArrayForm& form) {
  auto& r = rules_;
  const size_t prefix = form.prefix.size();
  const bool rest = form.rest != kNothing && form.most > prefix;
  if (form.least > form.most || (form.least > prefix && !rest)) return nothing();
  if (prefix == 0) {
    if (!rest) return parts_.list("[", nothing(), 0, 0, "]");
    return parts_.list("[", value(form.rest), to_count(form.least), to_count(form.most), "]");
  }
  // Built from the last item to the first: an item, and what may follow it.
  NodeId after = r.empty();
  if (rest) {
    const uint64_t least = form.least > prefix ? form.least - prefix : 0;
    after = r.repeat(r.sequence({parts_.comma(), value(form.rest)}), to_count(least),
                     to_count(form.most == kNoLimit ? form.most : form.most - prefix));
  }
  NodeId content = r.empty();
  for (size_t i = static_cast<size_t>(std::min<uint64_t>(prefix, form.most)); i-- > 0;) {
    content = r.sequence({value(form.prefix[i]), i + 1 == prefix ? after : content});
    if (i > 0) content = r.sequence({parts_.comma(), content});
    if (i >= form.least) content = r.maybe(content);
  }
  return r.sequence({r.text("["), parts_.space(), content, parts_.space(), r.text("]")});
}

}  // namespace skald
