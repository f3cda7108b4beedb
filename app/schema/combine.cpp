// Values that belong to two forms at once.
#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "app/schema/expander.h"

namespace skald {
namespace {

constexpr size_t kMostForms = 300;  // alternatives of one type
constexpr size_t kMostPairs = 20'000;
constexpr size_t kMostWork = 2'000'000;  // members and forms that are combined in all
constexpr size_t kFewMembers = 12;       // up to here, a search is as quick as a table

int compare_digits(const NumberBound& a, const NumberBound& b) {
  if (a.whole.size() != b.whole.size()) return a.whole.size() < b.whole.size() ? -1 : 1;
  if (const int order = a.whole.compare(b.whole)) return order;
  return a.fraction.compare(b.fraction);  // no trailing zeros, so a prefix is less
}

int compare(const NumberBound& a, const NumberBound& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  return a.negative ? -compare_digits(a, b) : compare_digits(a, b);
}

bool same_value(const NumberBound& a, const NumberBound& b) { return compare(a, b) == 0; }

bool is_multiple(const NumberBound& value, const NumberBound& step) {
  if (value.fraction.size() > step.fraction.size()) return false;
  std::string divisor = step.whole + step.fraction;
  divisor.erase(0, std::min(divisor.find_first_not_of('0'), divisor.size() - 1));
  if (divisor.size() > 18) return false;
  const uint64_t by = std::stoull(divisor);
  uint64_t rest = 0;
  for (char c : value.whole + value.fraction)
    rest = (rest * 10 + static_cast<uint64_t>(c - '0')) % by;
  for (size_t i = value.fraction.size(); i < step.fraction.size(); ++i) rest = rest * 10 % by;
  return rest == 0;
}

// Replaces `bound` by `other` if `other` is the sharper one.
void sharpen(std::optional<NumberBound>& bound, const std::optional<NumberBound>& other, int sign) {
  if (!other) return;
  const int order = bound ? sign * compare(*other, *bound) : 1;
  if (order > 0 || (order == 0 && other->exclusive)) bound = other;
}

template <class T>
void join(std::vector<T>& to, const std::vector<T>& from) {
  for (const T& one : from) {
    if (std::find(to.begin(), to.end(), one) == to.end()) to.push_back(one);
  }
}

// Finds members by name.
class Index {
 public:
  explicit Index(const std::vector<Member>& members) : members_(members) {
    if (members.size() <= kFewMembers) return;
    for (const Member& member : members) by_name_.emplace(member.name, &member);
  }
  const Member* find(const std::string& name) const {
    if (members_.size() > kFewMembers) {
      const auto found = by_name_.find(name);
      return found == by_name_.end() ? nullptr : found->second;
    }
    for (const Member& member : members_) {
      if (member.name == name) return &member;
    }
    return nullptr;
  }

 private:
  const std::vector<Member>& members_;
  std::unordered_map<std::string_view, const Member*> by_name_;
};

}  // namespace

bool Expander::holds(const NumberForm& form, const NumberBound& value) const {
  const auto beyond = [&](const std::optional<NumberBound>& bound, int sign) {
    if (!bound) return false;
    const int order = sign * compare(value, *bound);
    return order < 0 || (order == 0 && bound->exclusive);
  };
  if (beyond(form.low, 1) || beyond(form.high, -1)) return false;
  if (form.integer && !value.fraction.empty()) return false;
  if (form.fractional && value.fraction.empty()) return false;
  const auto same = [&](const NumberBound& other) { return same_value(value, other); };
  if (std::any_of(form.excluded.begin(), form.excluded.end(), same)) return false;
  if (form.values && std::none_of(form.values->begin(), form.values->end(), same)) return false;
  return std::all_of(form.multiples.begin(), form.multiples.end(),
                     [&](const Multiple& m) { return is_multiple(value, m.step) == m.matches; });
}

bool Expander::holds(const StringForm& form, const std::string& text) {
  const auto length = static_cast<uint64_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
  if (length < form.least || length > form.most) return false;
  if (form.values && !std::binary_search(form.values->begin(), form.values->end(), text)) {
    return false;
  }
  if (std::binary_search(form.excluded.begin(), form.excluded.end(), text)) return false;
  return std::all_of(form.patterns.begin(), form.patterns.end(), [&](const Pattern& pattern) {
    return languages_.matches(pattern.language, text) == pattern.matches;
  });
}

bool Expander::is_name(CondId cond, const std::string& name) {
  if (cond == kAnything) return true;
  const std::vector<StringForm>& forms = expand(cond).strings;
  return std::any_of(forms.begin(), forms.end(),
                     [&](const StringForm& form) { return holds(form, name); });
}

bool Expander::covers(const Names& names, const std::string& name) {
  if (names.pattern >= 0 && !languages_.matches(static_cast<uint32_t>(names.pattern), name)) {
    return false;
  }
  if (names.names && std::binary_search(names.names->begin(), names.names->end(), name)) {
    return false;
  }
  for (uint32_t language : names.outside) {
    if (languages_.matches(language, name)) return false;
  }
  return is_name(names.name, name);
}

CondId Expander::cond_of_name(const ObjectForm& form, const std::string& name) {
  CondId cond = kAnything;
  for (const MemberRule& rule : form.rules) {
    if (rule.cond != kAnything && covers(rule.names, name)) cond = both(cond, rule.cond);
  }
  return cond;
}

Union Expander::both(const Union& a, const Union& b) {
  Union result;
  result.null = a.null && b.null;
  result.yes = a.yes && b.yes;
  result.no = a.no && b.no;
  const auto combine = [&](const auto& x, const auto& y, auto& out) {
    if (x.size() * y.size() > kMostPairs) throw TooComplex();
    for (const auto& one : x) {
      for (const auto& other : y) {
        if (++work_ > kMostWork) throw TooComplex();
        both(one, other, out);
      }
    }
    if (out.size() > kMostForms && out.size() > std::max(x.size(), y.size())) throw TooComplex();
  };
  combine(a.numbers, b.numbers, result.numbers);
  combine(a.strings, b.strings, result.strings);
  combine(a.arrays, b.arrays, result.arrays);
  combine(a.objects, b.objects, result.objects);
  return result;
}

bool Expander::both(const NumberForm& a, const NumberForm& b, std::vector<NumberForm>& out) {
  NumberForm form = a;
  form.integer |= b.integer;
  form.fractional |= b.fractional;
  if (form.integer && form.fractional) return false;
  sharpen(form.low, b.low, 1);
  sharpen(form.high, b.high, -1);
  if (form.low && form.high) {
    const int order = compare(*form.low, *form.high);
    if (order > 0 || (order == 0 && (form.low->exclusive || form.high->exclusive))) return false;
  }
  join(form.multiples, b.multiples);
  join(form.excluded, b.excluded);
  const auto values = a.values ? a.values : b.values;
  if (values) {
    auto kept = std::make_shared<std::vector<NumberBound>>();
    form.values = a.values && b.values ? b.values : nullptr;
    for (const NumberBound& value : *values) {
      if (holds(form, value)) kept->push_back(value);
    }
    if (kept->empty()) return false;
    form = {};
    form.values = std::move(kept);
  }
  if (std::find(out.begin(), out.end(), form) == out.end()) out.push_back(std::move(form));
  return true;
}

bool Expander::both(const StringForm& a, const StringForm& b, std::vector<StringForm>& out) {
  static const StringForm kAny;
  StringForm form = a == kAny ? b : a;
  if (!(a == kAny) && !(b == kAny)) {
    form.least = std::max(a.least, b.least);
    form.most = std::min(a.most, b.most);
    if (form.least > form.most) return false;
    join(form.patterns, b.patterns);
    for (const Pattern& pattern : form.patterns) {
      const Pattern inverse{pattern.language, !pattern.matches};
      if (std::find(form.patterns.begin(), form.patterns.end(), inverse) != form.patterns.end()) {
        return false;
      }
    }
    join(form.excluded, b.excluded);
    std::sort(form.excluded.begin(), form.excluded.end());
    if (const Texts values = a.values ? a.values : b.values) {
      auto kept = std::make_shared<std::vector<std::string>>();
      form.values = a.values && b.values ? b.values : nullptr;
      for (const std::string& value : *values) {
        if (holds(form, value)) kept->push_back(value);
      }
      if (kept->empty()) return false;
      form = {};
      form.values = std::move(kept);
    }
    if (form.patterns.size() > 1) {
      std::optional<grammar::CharDfa> all = grammar::CharDfa::any();
      for (const Pattern& pattern : form.patterns) {
        const grammar::CharDfa* one = languages_.dfa(pattern.language);
        const auto inverse = one && !pattern.matches ? one->without() : std::nullopt;
        if (!pattern.matches) one = inverse ? &*inverse : nullptr;
        all = all && one ? all->with(*one) : std::nullopt;
      }
      if (all && all->empty()) return false;
    }
  }
  if (std::find(out.begin(), out.end(), form) == out.end()) out.push_back(std::move(form));
  return true;
}

bool Expander::both(const ArrayForm& a, const ArrayForm& b, std::vector<ArrayForm>& out) {
  ArrayForm form;
  form.least = std::max(a.least, b.least);
  form.most = std::min(a.most, b.most);
  const size_t prefix = std::max(a.prefix.size(), b.prefix.size());
  for (size_t i = 0; i < prefix; ++i) {
    form.prefix.push_back(both(a.at(i), b.at(i)));
    if (i < form.most && is_nothing(form.prefix.back())) form.most = i;
  }
  form.rest = both(a.rest, b.rest);
  if (prefix < form.most && is_nothing(form.rest)) {
    form.rest = kNothing;
    form.most = prefix;
  }
  if (form.least > form.most) return false;
  form.unique = a.unique || b.unique;
  form.contains = a.contains;
  join(form.contains, b.contains);
  for (const Contains& x : form.contains) {
    for (const Contains& y : form.contains) {
      if (x.cond == y.cond && x.from == y.from && x.least > y.most) return false;
    }
  }
  form.evaluated = std::max(a.evaluated, b.evaluated);
  form.evaluated_if = a.evaluated_if;
  join(form.evaluated_if, b.evaluated_if);
  if (std::find(out.begin(), out.end(), form) == out.end()) out.push_back(std::move(form));
  return true;
}

bool Expander::both(const ObjectForm& a, const ObjectForm& b, std::vector<ObjectForm>& out) {
  const Index in_a(a.members), in_b(b.members);
  work_ += a.members.size() + b.members.size();
  ObjectForm form;
  form.least = std::max(a.least, b.least);
  form.most = std::min(a.most, b.most);
  if (form.least > form.most) return false;
  form.members.reserve(a.members.size() + b.members.size());
  // Members that both name decide most often that nothing is left.
  for (const Member& x : a.members) {
    const Member* y = in_b.find(x.name);
    if (!y) continue;
    const bool required = x.required || y->required;
    if (required && is_nothing(both(x.cond, y->cond))) return false;
  }
  uint64_t required = 0;
  const auto take = [&](const std::string& name, CondId cond, bool needed) {
    if (is_nothing(cond)) cond = kNothing;
    if (needed && cond == kNothing) return false;
    required += needed;
    form.members.push_back({name, cond, needed});
    return true;
  };
  for (const Member& x : a.members) {
    const Member* y = in_b.find(x.name);
    const CondId other = y ? y->cond : cond_of_name(b, x.name);
    if (!take(x.name, both(x.cond, other), x.required || (y && y->required))) return false;
  }
  for (const Member& y : b.members) {
    if (in_a.find(y.name)) continue;
    if (!take(y.name, both(y.cond, cond_of_name(a, y.name)), y.required)) return false;
  }
  if (required > form.most) return false;
  form.rules = a.rules;
  join(form.rules, b.rules);
  form.some = a.some;
  join(form.some, b.some);
  form.names = both(a.names, b.names);
  form.all_evaluated = a.all_evaluated || b.all_evaluated;
  std::set_union(a.evaluated.begin(), a.evaluated.end(), b.evaluated.begin(), b.evaluated.end(),
                 std::back_inserter(form.evaluated));
  form.evaluated_patterns = a.evaluated_patterns;
  join(form.evaluated_patterns, b.evaluated_patterns);
  if (std::find(out.begin(), out.end(), form) == out.end()) out.push_back(std::move(form));
  return true;
}

}  // namespace skald
