// The values for which a schema does not hold: those that break one of its keywords.
#include <algorithm>

#include "app/files/json.h"
#include "app/schema/expander.h"
#include "engine/base/error.h"

namespace skald {
namespace {

void add_object(Union& result, ObjectForm form) { result.objects.push_back(std::move(form)); }

}  // namespace

Union Expander::must_not(const SchemaPlace& place) {
  Union result;
  const auto target = [&](const char* keyword) {
    const Json& reference = *find(place, keyword);
    if (!reference.is_string())
      document_.refuse(place.path, concat(keyword, ": expected a string"));
    const bool dynamic = keyword == std::string_view("$dynamicRef");
    return cond_of(document_.target(reference.get<std::string>(), place, dynamic), false);
  };
  if (find(place, "$ref") && document_.ref_stands_alone(place.resource)) {
    return expand(target("$ref"));
  }
  check_keywords(place);
  for (const char* keyword : {"$ref", "$dynamicRef"}) {
    if (find(place, keyword)) add(result, expand(target(keyword)));
  }
  if (find(place, "type")) {
    const Union types = own_types(place);
    Union others = any_value();
    others.null = !types.null;
    if (types.yes) others.yes = others.no = false;
    if (!types.strings.empty()) others.strings.clear();
    if (!types.arrays.empty()) others.arrays.clear();
    if (!types.objects.empty()) others.objects.clear();
    if (!types.numbers.empty()) {
      others.numbers.clear();
      if (types.numbers[0].integer) others.numbers.push_back({.fractional = true});
    }
    add(result, std::move(others));
  }
  if (const Json* list = find(place, "enum"); list && list->is_array()) {
    add(result, not_values(*list, place));
  }
  if (const Json* value = find(place, "const")) {
    add(result, not_values(Json::array({*value}), place));
  }
  not_scalars(place, result);
  not_arrays(place, result);
  not_objects(place, result);
  not_applied(place, result);
  // A schema that does not hold evaluates no members and no items.
  for (ObjectForm& form : result.objects) {
    form.all_evaluated = false;
    form.evaluated.clear();
    form.evaluated_patterns.clear();
  }
  for (ArrayForm& form : result.arrays) {
    form.evaluated = 0;
    form.evaluated_if.clear();
  }
  return result;
}

Union Expander::not_values(const Json& list, const SchemaPlace& place) {
  const Union values = this->values(list, place);
  Union result = any_value();
  result.null = !values.null;
  result.yes = !values.yes;
  result.no = !values.no;
  for (const StringForm& form : values.strings) result.strings[0].excluded = *form.values;
  for (const NumberForm& form : values.numbers) result.numbers[0].excluded = *form.values;
  for (const ArrayForm& form : values.arrays) {
    Union other = any_value();
    other.arrays.clear();
    if (form.least > 0) other.arrays.push_back({.most = form.least - 1});
    other.arrays.push_back({.least = form.least + 1});
    for (size_t i = 0; i < form.prefix.size(); ++i) {
      ArrayForm one{.least = i + 1};
      one.prefix.assign(i, kAnything);
      one.prefix.push_back(inverse(form.prefix[i]));
      other.arrays.push_back(std::move(one));
    }
    result = both(result, other);
  }
  for (const ObjectForm& form : values.objects) {
    Union other = any_value();
    other.objects.clear();
    for (const Member& member : form.members) {
      ObjectForm lacks, differs;
      lacks.members.push_back({member.name, kNothing, false});
      differs.members.push_back({member.name, inverse(member.cond), true});
      add_object(other, std::move(lacks));
      add_object(other, std::move(differs));
    }
    ObjectForm more;
    more.some.push_back({form.rules[0].names, kAnything});
    add_object(other, std::move(more));
    result = both(result, other);
  }
  return result;
}

void Expander::not_scalars(const SchemaPlace& place, Union& result) {
  const auto number = [&](const char* keyword, const char* draft_4, bool exclusive, bool low) {
    auto limit = bound(place, keyword, exclusive);
    if (!limit) return;
    if (draft_4 && is_true(place, draft_4)) limit->exclusive = true;
    limit->exclusive = !limit->exclusive;
    NumberForm form;
    (low ? form.high : form.low) = limit;
    result.numbers.push_back(std::move(form));
  };
  number("minimum", "exclusiveMinimum", false, true);
  number("maximum", "exclusiveMaximum", false, false);
  number("exclusiveMinimum", nullptr, true, true);
  number("exclusiveMaximum", nullptr, true, false);
  if (const Json* step = find(place, "multipleOf"); step && step->is_number()) {
    if (const auto parsed = number_bound(*step, false)) {
      NumberForm form;
      form.multiples.push_back({*parsed, false});
      result.numbers.push_back(std::move(form));
    }
  }
  if (const uint64_t least = count(place, "minLength", 0)) {
    result.strings.push_back({.most = least - 1});
  }
  if (const uint64_t most = count(place, "maxLength", kNoLimit); most != kNoLimit) {
    result.strings.push_back({.least = most + 1});
  }
  if (const Json* pattern = find(place, "pattern"); pattern && pattern->is_string()) {
    const uint32_t language = languages_.of_pattern(
        pattern->get<std::string>(), concat(source_name_, ": ", place.path, "/pattern"));
    result.strings.push_back({.patterns = {{language, false}}});
  }
  // A format's expression may lack valid strings, so strings outside of it prove nothing.
}

void Expander::not_arrays(const SchemaPlace& place, Union& result) {
  auto& arrays = result.arrays;
  if (const uint64_t least = count(place, "minItems", 0)) arrays.push_back({.most = least - 1});
  if (const uint64_t most = count(place, "maxItems", kNoLimit); most != kNoLimit) {
    arrays.push_back({.least = most + 1});
  }
  ArrayForm form;
  own_arrays(place, form);
  for (size_t i = 0; i < form.prefix.size(); ++i) {
    ArrayForm one{.least = i + 1};
    one.prefix.assign(i, kAnything);
    one.prefix.push_back(inverse(form.prefix[i]));
    if (one.prefix.back() != kNothing) arrays.push_back(std::move(one));
  }
  if (form.rest != kAnything) {
    const uint64_t from = form.prefix.size();
    ArrayForm one{.least = from + 1};
    one.contains.push_back({inverse(form.rest), 1, kNoLimit, from});
    arrays.push_back(std::move(one));
  }
  for (const Contains& contains : form.contains) {
    if (contains.least > 0) {
      ArrayForm fewer;
      fewer.contains.push_back({contains.cond, 0, contains.least - 1, 0});
      arrays.push_back(std::move(fewer));
    }
    if (contains.most != kNoLimit) {
      ArrayForm more{.least = contains.most + 1};
      more.contains.push_back({contains.cond, contains.most + 1, kNoLimit, 0});
      arrays.push_back(std::move(more));
    }
  }
}

void Expander::not_objects(const SchemaPlace& place, Union& result) {
  if (const uint64_t least = count(place, "minProperties", 0)) {
    ObjectForm form;
    form.most = least - 1;
    add_object(result, std::move(form));
  }
  if (const uint64_t most = count(place, "maxProperties", kNoLimit); most != kNoLimit) {
    ObjectForm form;
    form.least = most + 1;
    add_object(result, std::move(form));
  }
  ObjectForm form;
  own_objects(place, form);
  for (const Member& member : form.members) {
    if (member.required) {
      ObjectForm lacks;
      lacks.members.push_back({member.name, kNothing, false});
      add_object(result, std::move(lacks));
    }
    if (member.cond != kAnything) {
      ObjectForm differs;
      differs.members.push_back({member.name, inverse(member.cond), true});
      add_object(result, std::move(differs));
    }
  }
  for (const MemberRule& rule : form.rules) {
    ObjectForm one;
    one.some.push_back({rule.names, inverse(rule.cond)});
    add_object(result, std::move(one));
  }
  if (form.names != kAnything) {
    ObjectForm one;
    Names names;
    names.name = inverse(form.names);
    one.some.push_back({std::move(names), kAnything});
    add_object(result, std::move(one));
  }
  for (const char* keyword : {"dependentRequired", "dependentSchemas", "dependencies"}) {
    const Json* list = find(place, keyword);
    if (!list || !list->is_object()) continue;
    for (const auto& [name, then] : list->items()) {
      ObjectForm present;
      present.members.push_back({name, kAnything, true});
      if (then.is_object() || then.is_boolean()) {
        Union with;
        with.objects.push_back(present);
        add(result, both(with, expand(part(place, then, concat(keyword, "/", name), false))));
        continue;
      }
      if (!then.is_array()) continue;
      for (const std::string& one : names(then, concat(place.path, "/", keyword))) {
        if (one == name) continue;
        ObjectForm lacks = present;
        lacks.members.push_back({one, kNothing, false});
        add_object(result, std::move(lacks));
      }
    }
  }
}

void Expander::not_applied(const SchemaPlace& place, Union& result) {
  const auto parts = [&](const char* keyword) {
    std::vector<CondId> conds;
    const Json* list = find(place, keyword);
    for (size_t i = 0; list && list->is_array() && i < list->size(); ++i) {
      conds.push_back(part(place, (*list)[i], concat(keyword, "/", i), false));
    }
    return conds;
  };
  for (CondId cond : parts("allOf")) add(result, expand(cond));
  const auto none = [&](const std::vector<CondId>& conds) {
    Union all = any_value();
    for (CondId cond : conds) all = both(all, expand(cond));
    return all;
  };
  try {
    if (const auto any = parts("anyOf"); !any.empty()) add(result, none(any));
    if (const auto one = parts("oneOf"); !one.empty()) {
      add(result, none(one));
      for (size_t i = 0; i < one.size(); ++i) {
        for (size_t j = i + 1; j < one.size(); ++j) {
          add(result, both(expand(inverse(one[i])), expand(inverse(one[j]))));
        }
      }
    }
    if (const Json* inner = find(place, "not")) {
      add(result, expand(part(place, *inner, "not", true)));
    }
    if (const Json* condition = find(place, "if")) {
      const Json *then = find(place, "then"), *otherwise = find(place, "else");
      if (then) {
        add(result, both(expand(part(place, *condition, "if", true)),
                         expand(part(place, *then, "then", false))));
      }
      if (otherwise) {
        add(result, both(expand(part(place, *condition, "if", false)),
                         expand(part(place, *otherwise, "else", false))));
      }
    }
  } catch (const TooComplex&) {
    // Fewer alternatives; what is left is right.
  }
}

}  // namespace skald
