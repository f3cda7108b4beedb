// A schema in normal form: for each JSON type, the alternatives of which a value must match one.
//
// Conditions of members and items are not expanded but numbered (CondId): a condition is a set of
// schemas, each as it is or negated, that must all hold. So recursive schemas stay finite.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/files/json_fwd.h"
#include "app/schema/parts.h"

namespace skald {

using CondId = uint32_t;
inline constexpr CondId kAnything = 0, kNothing = 1;

inline constexpr uint64_t kNoLimit = UINT64_MAX;

// A string language of Languages (languages.h), or all strings outside of it.
struct Pattern {
  uint32_t language;
  bool matches;
  bool operator==(const Pattern&) const = default;
};

using Texts = std::shared_ptr<const std::vector<std::string>>;  // sorted

struct StringForm {
  uint64_t least = 0, most = kNoLimit;  // characters
  std::vector<Pattern> patterns;
  Texts values;                       // if set: one of these
  std::vector<std::string> excluded;  // none of these; sorted
  bool operator==(const StringForm&) const = default;
};

// Numbers that are multiples of a step, or are not.
struct Multiple {
  NumberBound step;
  bool matches;
  bool operator==(const Multiple&) const = default;
};

struct NumberForm {
  bool integer = false, fractional = false;  // has no fraction; has one
  std::optional<NumberBound> low, high;
  std::vector<Multiple> multiples;
  std::shared_ptr<const std::vector<NumberBound>> values;  // if set: one of these
  std::vector<NumberBound> excluded;
  bool operator==(const NumberForm&) const = default;
};

// The items from index `from` on of which at least `least` and at most `most` satisfy a condition.
struct Contains {
  CondId cond;
  uint64_t least = 1, most = kNoLimit;
  uint64_t from = 0;
  bool operator==(const Contains&) const = default;
};

struct ArrayForm {
  std::vector<CondId> prefix;
  CondId rest = kAnything;
  uint64_t least = 0, most = kNoLimit;
  bool unique = false;
  std::vector<Contains> contains;
  // What unevaluatedItems need not check: the first items, all items, those of conditions.
  uint64_t evaluated = 0;
  std::vector<CondId> evaluated_if;
  bool operator==(const ArrayForm&) const = default;

  CondId at(size_t i) const { return i < prefix.size() ? prefix[i] : rest; }
};

struct Member {
  std::string name;
  CondId cond = kAnything;  // kNothing: the member is forbidden
  bool required = false;
  // Most members that differ have the same name.
  bool operator==(const Member& other) const {
    return cond == other.cond && required == other.required && name == other.name;
  }
};

// Which names a rule is for: those that match `pattern` (if it is not -1), that are none of
// `names`, that match none of `outside`, and that satisfy `name`.
struct Names {
  int64_t pattern = -1;
  Texts names;
  std::vector<uint32_t> outside;
  CondId name = kAnything;
  bool operator==(const Names& other) const {
    const auto same = [](const Texts& a, const Texts& b) { return a == b || (a && b && *a == *b); };
    return pattern == other.pattern && same(names, other.names) && outside == other.outside &&
           name == other.name;
  }
};

struct MemberRule {
  Names names;
  CondId cond;
  bool operator==(const MemberRule&) const = default;
};

struct ObjectForm {
  std::vector<Member> members;    // in the order in which they are written
  std::vector<MemberRule> rules;  // for the names that `members` lacks
  std::vector<MemberRule> some;   // for each, at least one member exists
  CondId names = kAnything;       // for all names
  uint64_t least = 0, most = kNoLimit;
  // What unevaluatedProperties need not check.
  bool all_evaluated = false;
  std::vector<std::string> evaluated;  // names, sorted
  std::vector<uint32_t> evaluated_patterns;
  bool operator==(const ObjectForm&) const = default;
};

struct Union {
  bool null = false, yes = false, no = false;  // null, true, false
  std::vector<NumberForm> numbers;
  std::vector<StringForm> strings;
  std::vector<ArrayForm> arrays;
  std::vector<ObjectForm> objects;

  bool empty() const { return !null && !yes && !no && size() == 0; }
  size_t size() const { return numbers.size() + strings.size() + arrays.size() + objects.size(); }
};

Union any_value();
void add(Union& to, Union more);  // values of both

}  // namespace skald
