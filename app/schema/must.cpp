// The values for which a schema holds.
#include <algorithm>

#include "app/files/json.h"
#include "app/schema/expander.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

constexpr std::string_view kTypes[] = {"object",  "array",   "string", "number",
                                       "integer", "boolean", "null"};
constexpr size_t kMostSubsets = 4;  // choices of an anyOf of which all combinations are tried
constexpr size_t kMostExclusive = 200;

Union one_object(ObjectForm form) {
  Union result = any_value();
  result.objects = {std::move(form)};
  return result;
}

}  // namespace

Union any_value() {
  Union result{true, true, true, {}, {}, {}, {}};
  result.numbers.emplace_back();
  result.strings.emplace_back();
  result.arrays.emplace_back();
  result.objects.emplace_back();
  return result;
}

void add(Union& to, Union more) {
  const auto append = [](auto& list, auto& others) {
    for (auto& other : others) {
      if (std::find(list.begin(), list.end(), other) == list.end()) {
        list.push_back(std::move(other));
      }
    }
  };
  to.null |= more.null;
  to.yes |= more.yes;
  to.no |= more.no;
  append(to.numbers, more.numbers);
  append(to.strings, more.strings);
  append(to.arrays, more.arrays);
  append(to.objects, more.objects);
}

Union Expander::must(const SchemaPlace& place) {
  const auto target = [&](const char* keyword) {
    const Json& reference = *find(place, keyword);
    if (!reference.is_string())
      document_.refuse(place.path, concat(keyword, ": expected a string"));
    return cond_of(document_.target(reference.get<std::string>(), place,
                                    keyword == std::string_view("$dynamicRef")),
                   true);
  };
  const bool refers = find(place, "$ref");
  if (refers && document_.ref_stands_alone(place.resource)) return expand(target("$ref"));
  check_keywords(place);
  Union result = own(place);
  const auto attempt = [&](const char* keyword, const auto& apply) {
    if (!find(place, keyword)) return;
    try {
      apply();
    } catch (const TooComplex&) {
      note(concat(place.path, "/", keyword), "too many alternatives; this keyword is ignored");
    }
  };
  for (const char* keyword : {"$ref", "$dynamicRef"}) {
    attempt(keyword, [&] { result = both(result, expand(target(keyword))); });
  }
  attempt("allOf", [&] {
    const Json& all = *find(place, "allOf");
    if (!all.is_array()) document_.refuse(place.path + "/allOf", "expected an array of schemas");
    for (size_t i = 0; i < all.size(); ++i) {
      try {
        result = both(result, expand(part(place, all[i], concat("allOf/", i), true)));
      } catch (const TooComplex&) {
        note(concat(place.path, "/allOf/", i), "too many alternatives; this part is ignored");
      }
    }
  });
  attempt("anyOf", [&] { apply_choices(place, result); });
  attempt("oneOf", [&] { apply_one_of(place, result); });
  attempt("not",
          [&] { result = both(result, expand(part(place, *find(place, "not"), "not", false))); });
  attempt("if", [&] { apply_if(place, result); });
  apply_dependencies(place, result);
  apply_unevaluated(place, result);
  return result;
}

Union Expander::own_types(const SchemaPlace& place) {
  const Json* type = find(place, "type");
  if (!type) return any_value();
  const std::string path = place.path + "/type";
  Union result;
  const auto allow = [&](const Json& name) {
    if (!name.is_string()) {
      document_.refuse(path, "expected a type such as \"string\", or a list of types");
    }
    const auto text = name.get<std::string>();
    if (text == "null") result.null = true;
    if (text == "boolean") result.yes = result.no = true;
    if (text == "string") result.strings.resize(1);
    if (text == "array") result.arrays.resize(1);
    if (text == "object") result.objects.resize(1);
    if (text == "number") result.numbers.assign(1, {});
    if (text == "integer" && result.numbers.empty()) {
      result.numbers.push_back({.integer = true});
    }
    if (std::find(std::begin(kTypes), std::end(kTypes), text) == std::end(kTypes)) {
      const std::string_view meant = nearest(text, kTypes);
      document_.refuse(
          path, concat("unknown type '", printable(text, 60), "'",
                       meant.empty() ? std::string() : concat(", did you mean '", meant, "'?")));
    }
  };
  if (type->is_array()) {
    for (const Json& one : *type) allow(one);
  } else {
    allow(*type);
  }
  if (is_true(place, "nullable")) result.null = true;
  return result;
}

Union Expander::own(const SchemaPlace& place) {
  Union result = own_types(place);
  own_numbers(place, result);
  own_strings(place, result);
  for (ArrayForm& form : result.arrays) own_arrays(place, form);
  for (ObjectForm& form : result.objects) own_objects(place, form);
  const auto impossible = [](const auto& form) { return form.least > form.most; };
  std::erase_if(result.arrays, impossible);
  std::erase_if(result.objects, impossible);
  std::erase_if(result.strings, impossible);
  if (const Json* list = find(place, "enum")) {
    if (!list->is_array()) document_.refuse(place.path + "/enum", "expected an array of values");
    result = both(result, values(*list, place));
  }
  if (const Json* value = find(place, "const")) {
    result = both(result, values(Json::array({*value}), place));
  }
  return result;
}

void Expander::own_numbers(const SchemaPlace& place, Union& result) {
  auto low = bound(place, "minimum", false), high = bound(place, "maximum", false);
  if (is_true(place, "exclusiveMinimum") && low) low->exclusive = true;
  if (is_true(place, "exclusiveMaximum") && high) high->exclusive = true;
  NumberForm form;
  form.low = low;
  form.high = high;
  NumberForm more;
  more.low = bound(place, "exclusiveMinimum", true);
  more.high = bound(place, "exclusiveMaximum", true);
  if (const Json* step = find(place, "multipleOf")) {
    const auto parsed = step->is_number() ? number_bound(*step, false) : std::nullopt;
    if (!parsed || parsed->negative || (parsed->whole == "0" && parsed->fraction.empty())) {
      document_.refuse(place.path + "/multipleOf", "expected a number above 0");
    }
    form.multiples.push_back({*parsed, true});
  }
  for (const NumberForm& one : {form, more}) {
    if (one == NumberForm()) continue;
    std::vector<NumberForm> kept;
    for (const NumberForm& other : result.numbers) both(other, one, kept);
    result.numbers = std::move(kept);
  }
}

void Expander::own_strings(const SchemaPlace& place, Union& result) {
  StringForm form;
  form.least = count(place, "minLength", 0);
  form.most = count(place, "maxLength", kNoLimit);
  const Json* pattern = find(place, "pattern");
  const Json* format = find(place, "format");
  if (pattern) {
    const std::string path = place.path + "/pattern";
    if (!pattern->is_string()) document_.refuse(path, "expected a string");
    form.patterns.push_back(
        {languages_.of_pattern(pattern->get<std::string>(), concat(source_name_, ": ", path)),
         true});
  }
  if (format && format->is_string()) {
    const auto name = format->get<std::string>();
    if (const auto language = languages_.of_format(name)) {
      form.patterns.push_back({*language, true});
    } else if (name == "regex") {  // the one format of the standard that no expression describes
      note(place.path, "the format regex is not kept");
    }
  }
  for (StringForm& one : result.strings) one = form;
}

void Expander::own_arrays(const SchemaPlace& place, ArrayForm& form) {
  form.least = count(place, "minItems", 0);
  form.most = count(place, "maxItems", kNoLimit);
  form.unique = is_true(place, "uniqueItems");
  const Json* first = find(place, "prefixItems");
  const Json* items = find(place, "items");
  const char* rest = "items";
  if (items && items->is_array()) {  // before 2020-12
    first = items;
    items = find(place, "additionalItems");
    rest = "additionalItems";
  }
  if (first) {
    if (!first->is_array()) {
      document_.refuse(place.path + "/prefixItems", "expected an array of schemas");
    }
    for (size_t i = 0; i < first->size(); ++i) {
      form.prefix.push_back(part(place, (*first)[i], concat("prefixItems/", i), true));
      if (form.prefix.back() == kNothing) form.most = std::min<uint64_t>(form.most, i);
    }
  }
  if (items) form.rest = part(place, *items, rest, true);
  if (form.rest == kNothing) form.most = std::min<uint64_t>(form.most, form.prefix.size());
  form.evaluated = items ? kNoLimit : form.prefix.size();
  if (const Json* contains = find(place, "contains")) {
    Contains one{part(place, *contains, "contains", true), count(place, "minContains", 1),
                 count(place, "maxContains", kNoLimit), 0};
    if (!document_.ref_stands_alone(place.resource)) form.evaluated_if = {one.cond};
    if (one.least > 0 || one.most != kNoLimit) form.contains.push_back(one);
    form.least = std::max(form.least, one.least);
    if (one.least > one.most) form.least = kNoLimit, form.most = 0;
  }
}

void Expander::own_objects(const SchemaPlace& place, ObjectForm& form) {
  form.least = count(place, "minProperties", 0);
  form.most = count(place, "maxProperties", kNoLimit);
  const auto checked = [&](const char* keyword) {
    const Json* value = find(place, keyword);
    if (value && !value->is_object()) {
      document_.refuse(concat(place.path, "/", keyword), "expected an object");
    }
    return value;
  };
  MemberRule others{{}, kAnything};
  std::vector<std::string> named;
  if (const Json* patterns = checked("patternProperties")) {
    for (const auto& [pattern, schema] : patterns->items()) {
      const std::string path = place.path + "/patternProperties";
      const uint32_t language = languages_.of_pattern(pattern, concat(source_name_, ": ", path));
      const CondId cond = part(place, schema, "patternProperties/" + pattern, true);
      others.names.outside.push_back(language);
      form.evaluated_patterns.push_back(language);
      if (cond != kAnything) {
        form.rules.push_back({{.pattern = language}, cond});
      }
    }
  }
  if (const Json* properties = checked("properties")) {
    for (const auto& [name, schema] : properties->items()) {
      CondId cond = part(place, schema, "properties/" + name, true);
      named.push_back(name);
      form.members.push_back({name, both(cond, cond_of_name(form, name)), false});
    }
  }
  std::sort(named.begin(), named.end());
  form.evaluated = named;
  others.names.names = std::make_shared<const std::vector<std::string>>(std::move(named));
  if (const Json* additional = find(place, "additionalProperties")) {
    others.cond = part(place, *additional, "additionalProperties", true);
    form.all_evaluated = true;
    if (others.cond != kAnything) form.rules.push_back(others);
  }
  if (const Json* list = find(place, "required"); list && !list->is_boolean()) {  // draft 3
    for (const std::string& name : names(*list, place.path + "/required")) {
      const auto known = std::find_if(form.members.begin(), form.members.end(),
                                      [&](const Member& m) { return m.name == name; });
      if (known != form.members.end()) {
        known->required = true;
      } else {
        form.members.push_back({name, cond_of_name(form, name), true});
      }
    }
  }
  if (const Json* rule = find(place, "propertyNames")) {
    form.names = part(place, *rule, "propertyNames", true);
  }
  for (const Member& member : form.members) {
    if (member.required && member.cond == kNothing) form.least = kNoLimit, form.most = 0;
  }
}

Union Expander::values(const Json& list, const SchemaPlace& place) {
  Union result;
  auto texts = std::make_shared<std::vector<std::string>>();
  auto numbers = std::make_shared<std::vector<NumberBound>>();
  for (const Json& value : list) {
    if (value.is_null()) result.null = true;
    if (value.is_boolean()) (value.get<bool>() ? result.yes : result.no) = true;
    if (value.is_string()) texts->push_back(value.get<std::string>());
    if (value.is_number()) {
      const auto number = number_bound(value, false);
      if (!number) document_.refuse(place.path, "a number's exponent is out of bounds");
      numbers->push_back(*number);
    }
    if (value.is_array()) {
      ArrayForm form{.rest = kNothing, .least = value.size(), .most = value.size()};
      for (const Json& item : value)
        form.prefix.push_back(made(Json{{"const", item}}, place, true));
      result.arrays.push_back(std::move(form));
    }
    if (value.is_object()) {
      ObjectForm form;
      std::vector<std::string> names;
      for (const auto& [name, member] : value.items()) {
        names.push_back(name);
        form.members.push_back({name, made(Json{{"const", member}}, place, true), true});
      }
      std::sort(names.begin(), names.end());
      form.rules.push_back(
          {{.names = std::make_shared<const std::vector<std::string>>(std::move(names))},
           kNothing});
      result.objects.push_back(std::move(form));
    }
  }
  if (!texts->empty()) {
    std::sort(texts->begin(), texts->end());
    texts->erase(std::unique(texts->begin(), texts->end()), texts->end());
    result.strings.push_back({.values = std::move(texts)});
  }
  if (!numbers->empty()) {
    NumberForm form;
    form.values = std::move(numbers);
    result.numbers.push_back(std::move(form));
  }
  return result;
}

void Expander::apply_choices(const SchemaPlace& place, Union& result) {
  const Json& list = *find(place, "anyOf");
  if (!list.is_array() || list.empty()) {
    document_.refuse(place.path + "/anyOf", "expected an array of schemas");
  }
  std::vector<CondId> conds;
  for (size_t i = 0; i < list.size(); ++i) {
    conds.push_back(part(place, list[i], concat("anyOf/", i), true));
  }
  Union any;
  if (track_ && conds.size() <= kMostSubsets) {
    // Each choice that is valid says which members are evaluated.
    for (size_t set = 1; set < size_t{1} << conds.size(); ++set) {
      Union all = any_value();
      for (size_t i = 0; i < conds.size(); ++i) {
        if (set >> i & 1) all = both(all, expand(conds[i]));
      }
      add(any, std::move(all));
    }
  } else {
    for (CondId cond : conds) add(any, expand(cond));
  }
  result = both(result, any);
}

bool Expander::is_exclusive(const std::vector<CondId>& choices) {
  if (choices.size() > kMostExclusive) return false;
  for (size_t i = 0; i < choices.size(); ++i) {
    for (size_t j = i + 1; j < choices.size(); ++j) {
      if (!both(expand(choices[i]), expand(choices[j])).empty()) return false;
    }
  }
  return true;
}

void Expander::apply_one_of(const SchemaPlace& place, Union& result) {
  const Json& list = *find(place, "oneOf");
  const std::string path = place.path + "/oneOf";
  if (!list.is_array() || list.empty()) document_.refuse(path, "expected an array of schemas");
  std::vector<CondId> conds;
  conds.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    conds.push_back(part(place, list[i], concat("oneOf/", i), true));
  }
  // Choices that overlap within the rest of the schema.
  std::vector<Union> each;
  each.reserve(conds.size());
  for (CondId cond : conds) each.push_back(both(result, expand(cond)));
  const auto overlap = [&](size_t i, size_t j) { return !both(each[i], each[j]).empty(); };
  Union one;
  try {
    if (conds.size() > kMostExclusive) throw TooComplex();
    std::vector<std::vector<size_t>> others(conds.size());
    for (size_t i = 0; i < conds.size(); ++i) {
      for (size_t j = i + 1; j < conds.size(); ++j) {
        if (!overlap(i, j)) continue;
        others[i].push_back(j);
        others[j].push_back(i);
      }
    }
    for (size_t i = 0; i < conds.size(); ++i) {
      Union alone = each[i];
      for (size_t j : others[i]) alone = both(alone, expand(inverse(conds[j])));
      add(one, std::move(alone));
    }
  } catch (const TooComplex&) {
    note(path, "several choices may be valid at once, which oneOf forbids; reading it as anyOf");
    one = {};
    for (Union& choice : each) add(one, std::move(choice));
  }
  result = std::move(one);
}

void Expander::apply_if(const SchemaPlace& place, Union& result) {
  const Json &condition = *find(place, "if"), *then = find(place, "then"),
             *otherwise = find(place, "else");
  if (!then && !otherwise && !track_) return;
  Union yes = both(result, expand(part(place, condition, "if", true)));
  Union no = both(result, expand(part(place, condition, "if", false)));
  if (then) yes = both(yes, expand(part(place, *then, "then", true)));
  if (otherwise) no = both(no, expand(part(place, *otherwise, "else", true)));
  add(yes, std::move(no));
  result = std::move(yes);
}

void Expander::apply_dependencies(const SchemaPlace& place, Union& result) {
  for (const char* keyword : {"dependentRequired", "dependentSchemas", "dependencies"}) {
    const Json* list = find(place, keyword);
    if (!list) continue;
    const std::string path = concat(place.path, "/", keyword);
    if (!list->is_object()) document_.refuse(path, "expected an object");
    for (const auto& [name, then] : list->items()) {
      ObjectForm absent, present;
      absent.members.push_back({name, kNothing, false});
      present.members.push_back({name, kAnything, true});
      try {
        Union without = both(result, one_object(absent)), with;
        with.objects = result.objects;  // other types stand in `without`
        if (then.is_array() || then.is_string()) {
          const Json needed = then.is_string() ? Json::array({then}) : then;
          for (const std::string& one : names(needed, concat(path, "/", name))) {
            if (one != name) present.members.push_back({one, kAnything, true});
          }
          with = both(with, one_object(present));
        } else {
          with = both(both(with, one_object(present)),
                      expand(part(place, then, concat(keyword, "/", name), true)));
        }
        add(without, std::move(with));
        result = std::move(without);
      } catch (const TooComplex&) {
        note(concat(path, "/", name), "too many alternatives; this part is ignored");
      }
    }
  }
}

void Expander::apply_unevaluated(const SchemaPlace& place, Union& result) {
  if (const Json* rule = find(place, "unevaluatedProperties")) {
    const CondId cond = part(place, *rule, "unevaluatedProperties", true);
    std::vector<ObjectForm> forms;
    for (const ObjectForm& form : result.objects) {
      ObjectForm limit;
      if (!form.all_evaluated && cond != kAnything) {
        limit.rules.push_back(
            {{.names = std::make_shared<const std::vector<std::string>>(form.evaluated),
              .outside = form.evaluated_patterns},
             cond});
      }
      limit.all_evaluated = true;
      both(form, limit, forms);
    }
    result.objects = std::move(forms);
  }
  if (const Json* rule = find(place, "unevaluatedItems")) {
    const CondId cond = part(place, *rule, "unevaluatedItems", true);
    std::vector<ArrayForm> forms;
    for (const ArrayForm& form : result.arrays) {
      ArrayForm limit;
      if (form.evaluated != kNoLimit && cond != kAnything) {
        limit.prefix.assign(form.evaluated, kAnything);
        std::vector<CondId> allowed = form.evaluated_if;
        allowed.push_back(cond);
        limit.rest = either(allowed);
      }
      limit.evaluated = kNoLimit;
      both(form, limit, forms);
    }
    result.arrays = std::move(forms);
  }
}

}  // namespace skald
