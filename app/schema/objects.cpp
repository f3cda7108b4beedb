// Objects as rules.
#include <algorithm>

#include "app/files/json.h"
#include "app/schema/compiler.h"
#include "app/schema/graph_maker.h"
#include "engine/base/error.h"

namespace skald {

using grammar::CharDfa;
using grammar::NodeId;

namespace {

constexpr size_t kMostClasses = 64;  // of names that the schema tells apart
constexpr size_t kMostSome = 5;      // conditions that some member must satisfy
constexpr size_t kMostFree = 12;     // members whose order is free

}  // namespace

// Names that `members` does not list and that all rules treat alike.
struct SchemaCompiler::Others {
  NodeId key;
  CondId cond;
  uint64_t some;  // bit s is set if these names count for ObjectForm::some[s]
};

class ObjectGraph {
 public:
  ObjectGraph(SchemaCompiler& compiler, const ObjectForm& form,
              const std::vector<SchemaCompiler::Others>& others, bool counted, bool free)
      : c_(compiler), form_(form), others_(others), counted_(counted), free_(free) {
    const bool bounded = form.most != kNoLimit;
    last_count_ = !counted ? 0 : bounded ? form.most : form.least;
    for (size_t i = 0; i < form.members.size(); ++i) {
      uint64_t some = 0;
      for (size_t s = 0; s < form.some.size(); ++s) {
        if (c_.expander_.covers(form.some[s].names, form.members[i].name)) some |= uint64_t{1} << s;
      }
      member_bits_.push_back(some);
    }
  }

  // nullopt if there would be too many states.
  std::optional<NodeId> make() {
    if (last_count_ > kMostGraphStates) return std::nullopt;
    graph_.number({Kind::Begin, 0, 0, 0});
    for (size_t i = 0; i < graph_.size(); ++i) {
      if (graph_.size() > kMostGraphStates) return std::nullopt;
      add_links(i, State(graph_.state(i)));
    }
    auto& r = c_.rules_;
    return r.sequence({r.text("{"), c_.parts_.space(), graph_.make(), r.text("}")});
  }

 private:
  // Begin: after {. Member: a member must follow. After: after a member. Done: before }.
  enum class Kind : uint8_t { Begin, Member, After, Done };
  struct State {
    Kind kind;
    uint64_t at;     // the next member; if the order is free, a bit for each member written
    uint64_t count;  // members written
    uint64_t some;   // a bit for each condition that some member satisfies
    auto operator<=>(const State&) const = default;
  };

  bool is_complete(const State& state) const {
    if (counted_ && state.count < form_.least) return false;
    if (state.some + 1 != uint64_t{1} << form_.some.size()) return false;
    for (size_t i = free_ ? 0 : state.at; i < form_.members.size(); ++i) {
      if (form_.members[i].required && !(free_ && (state.at >> i & 1))) return false;
    }
    return true;
  }
  bool may_grow(const State& state) const { return !counted_ || state.count < form_.most; }
  State after(const State& state, uint64_t at, uint64_t some) const {
    return {Kind::After, at, counted_ ? std::min(state.count + 1, last_count_) : 0,
            state.some | some};
  }

  void add_links(size_t from, const State& state) {
    const bool complete = is_complete(state);
    switch (state.kind) {
      case Kind::Begin:
        if (complete) graph_.end(from);
        if (may_grow(state)) graph_.link(from, empty_, {Kind::Member, 0, 0, 0});
        return;
      case Kind::Done:
        return graph_.end(from);
      case Kind::After:
        if (complete) graph_.link(from, space_, {Kind::Done, 0, 0, 0});
        if (may_grow(state)) {
          graph_.link(from, comma_, {Kind::Member, state.at, state.count, state.some});
        }
        return;
      case Kind::Member:
        break;
    }
    if (free_) {
      for (size_t i = 0; i < form_.members.size(); ++i) {
        if (!(state.at >> i & 1)) add_member(from, state, i, state.at | uint64_t{1} << i);
      }
    } else if (state.at < form_.members.size()) {
      const size_t i = state.at;
      add_member(from, state, i, i + 1);
      if (!form_.members[i].required) {
        graph_.link(from, empty_, {Kind::Member, i + 1, state.count, state.some});
      }
      return;
    }
    for (size_t i = 0; i < others_.size(); ++i) {
      add_variants(from, state, form_.members.size() + i, state.at, others_[i].cond,
                   others_[i].some);
    }
  }

  void add_member(size_t from, const State& state, size_t i, uint64_t at) {
    add_variants(from, state, i, at, form_.members[i].cond, member_bits_[i]);
  }

  // The member as it is, and so that it satisfies conditions that are still open.
  void add_variants(size_t from, const State& state, size_t i, uint64_t at, CondId cond,
                    uint64_t some) {
    const uint64_t open = some & ~state.some;
    for (uint64_t set = open;; set = (set - 1) & open) {
      CondId all = cond;
      for (size_t s = 0; s < form_.some.size(); ++s) {
        if (set >> s & 1) all = c_.expander_.both(all, form_.some[s].cond);
      }
      if (all != kNothing) graph_.link(from, node(i, all), after(state, at, set));
      if (set == 0) break;
    }
  }

  NodeId node(size_t i, CondId cond) {
    const auto [known, fresh] = nodes_.try_emplace({i, cond});
    if (fresh) {
      const size_t named = form_.members.size();
      const NodeId key =
          i < named ? c_.parts_.literal(form_.members[i].name) : others_[i - named].key;
      known->second = c_.parts_.member(key, c_.value(cond));
      if (counted_ || free_ || !form_.some.empty()) {  // used in many places
        const auto rule = c_.rules_.add(c_.source_ + ": a member");
        c_.rules_.define(rule, known->second);
        known->second = c_.rules_.call(rule);
      }
    }
    return known->second;
  }

  SchemaCompiler& c_;
  const ObjectForm& form_;
  const std::vector<SchemaCompiler::Others>& others_;
  const bool counted_, free_;
  uint64_t last_count_ = 0;
  std::vector<uint64_t> member_bits_;  // of each member: Others::some
  GraphMaker<State> graph_{c_.rules_};
  const NodeId empty_ = c_.rules_.empty(), space_ = c_.parts_.space(), comma_ = c_.parts_.comma();
  std::map<std::pair<size_t, CondId>, NodeId> nodes_;
};

std::optional<CharDfa> SchemaCompiler::name_dfa(CondId cond) {
  if (cond == kAnything) return CharDfa::any();
  // All strings but those that are none of the forms.
  std::optional<CharDfa> none = CharDfa::any();
  for (const StringForm& form : expander_.expand(cond).strings) {
    const auto one = string_dfa(form);
    const auto outside = one ? one->without() : std::nullopt;
    none = none && outside ? none->with(*outside) : std::nullopt;
  }
  return none ? none->without() : none;
}

std::optional<CharDfa> SchemaCompiler::names_dfa(const Names& names) {
  std::optional<CharDfa> all = name_dfa(names.name);
  const auto restrict_to = [&](const CharDfa* other) {
    all = all && other ? all->with(*other) : std::nullopt;
  };
  if (names.pattern >= 0) {
    restrict_to(expander_.languages().dfa(static_cast<uint32_t>(names.pattern)));
  }
  for (uint32_t language : names.outside) {
    const CharDfa* other = expander_.languages().dfa(language);
    const auto outside = other ? other->without() : std::nullopt;
    restrict_to(outside ? &*outside : nullptr);
  }
  return all;
}

std::vector<SchemaCompiler::Others> SchemaCompiler::other_members(const ObjectForm& form,
                                                                  const std::string& path) {
  std::vector<std::string> named;
  for (const Member& member : form.members) named.push_back(member.name);
  const auto simple = [](const MemberRule& rule) {
    return rule.names.pattern < 0 && rule.names.outside.empty() && rule.names.name == kAnything;
  };
  const uint64_t some = (uint64_t{1} << form.some.size()) - 1;
  if (form.names == kAnything && std::all_of(form.rules.begin(), form.rules.end(), simple) &&
      std::all_of(form.some.begin(), form.some.end(), simple)) {
    CondId cond = kAnything;
    for (const MemberRule& rule : form.rules) cond = expander_.both(cond, rule.cond);
    if (expander_.is_nothing(cond)) return {};
    return {{named.empty() ? parts_.string() : parts_.string_except(named), cond, some}};
  }
  const auto too_large = [&]() {
    fail(Exit::Usage, source_, ": ", path,
         ": the patterns of members' names are too large to be combined; simplify them");
  };
  struct Class {
    CharDfa names;
    CondId cond;
    uint64_t some;
  };
  auto all = name_dfa(form.names);
  const auto others = CharDfa::of_texts(named).without();
  all = all && others ? all->with(*others) : std::nullopt;
  if (!all) too_large();
  std::vector<Class> classes{{std::move(*all), kAnything, 0}};
  // Splits each class into the names that `names` has and the others.
  const auto split = [&](const Names& names, const auto& change) {
    const auto inside = names_dfa(names);
    const auto outside = inside ? inside->without() : std::nullopt;
    std::vector<Class> next;
    for (const Class& one : classes) {
      const auto with = outside ? one.names.with(*inside) : std::nullopt;
      const auto without = outside ? one.names.with(*outside) : std::nullopt;
      if (!with || !without || next.size() > kMostClasses) too_large();
      if (!without->empty()) next.push_back({*without, one.cond, one.some});
      if (!with->empty()) {
        next.push_back({*with, one.cond, one.some});
        change(next.back());
      }
    }
    classes = std::move(next);
  };
  for (const MemberRule& rule : form.rules) {
    split(rule.names, [&](Class& one) { one.cond = expander_.both(one.cond, rule.cond); });
  }
  for (size_t i = 0; i < form.some.size(); ++i) {
    split(form.some[i].names, [&](Class& one) { one.some |= uint64_t{1} << i; });
  }
  std::vector<Others> result;
  for (const Class& one : classes) {
    if (one.names.empty() || expander_.is_nothing(one.cond)) continue;
    result.push_back({parts_.string_by(one.names), one.cond, one.some});
  }
  return result;
}

NodeId SchemaCompiler::build_object(const ObjectForm& whole, const std::string& path) {
  ObjectForm form = whole;
  if (form.some.size() > kMostSome) {
    expander_.note(path, "too many conditions on members; some are ignored");
    form.some.resize(kMostSome);
  }
  // Names that only the rules know become members without a condition of their own.
  const auto know = [&](const std::vector<MemberRule>& rules) {
    for (const MemberRule& rule : rules) {
      if (!rule.names.names) continue;
      for (const std::string& name : *rule.names.names) {
        const bool known = std::any_of(form.members.begin(), form.members.end(),
                                       [&](const Member& m) { return m.name == name; });
        if (!known) form.members.push_back({name, expander_.cond_of_name(whole, name), false});
      }
    }
  };
  know(whole.rules);
  know(whole.some);
  const std::vector<Others> others = other_members(form, path);
  uint64_t required = 0;
  std::vector<Member> members;
  for (Member& member : form.members) {
    if (!expander_.is_name(form.names, member.name) || expander_.is_nothing(member.cond)) {
      if (member.required) return nothing();
      continue;
    }
    required += member.required;
    members.push_back(std::move(member));
  }
  form.members = std::move(members);
  const bool open = !others.empty();
  if (!open && form.least > form.members.size()) return nothing();
  bool counted =
      form.least > required || (form.most != kNoLimit && (open || form.most < form.members.size()));
  if (form.least <= required) form.least = 0;
  if (form.least > form.members.size() && form.least > 1 && open) {
    expander_.note(path, "minProperties counts a member twice if its name is repeated");
  }
  const bool free = options_.any_order && form.members.size() <= kMostFree;
  if (options_.any_order && !free) {
    expander_.note(path, concat("more than ", kMostFree, " members keep their order"));
  }
  for (;;) {
    if (const auto node = ObjectGraph(*this, form, others, counted, free).make()) return *node;
    if (!counted) {
      fail(Exit::Usage, source_, ": ", path, ": the object has too many members");
    }
    expander_.note(path, "minProperties or maxProperties is too large to be kept; ignoring it");
    counted = false;
  }
}

}  // namespace skald
