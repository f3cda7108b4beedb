// Compiles schemas of objects and arrays.
#include <algorithm>

#include "app/files/json.h"
#include "app/schema/compiler.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/grammar/matcher.h"

namespace skald {

using grammar::kUnbounded;
using grammar::NodeId;
using grammar::RegexMatch;

namespace {

bool is_false(const Json* schema) { return schema && schema->is_boolean() && !schema->get<bool>(); }

// True if the pattern matches anywhere in the text.
bool pattern_matches(const std::string& pattern, const std::string& source,
                     const std::string& text) {
  grammar::Rules rules;
  const grammar::Regex regex = parse_regex(pattern, source, RegexMatch::Anywhere);
  rules.root = rules.add(source);
  rules.define(rules.root,
               add_regex(rules, regex, [](grammar::Rules& r, const grammar::CharClass& chars) {
                 return r.one_of(chars);
               }));
  auto no_tokens = std::make_shared<grammar::Vocabulary>(std::span<const std::string_view>{},
                                                         std::span<const int32_t>{});
  grammar::Matcher matcher(std::make_shared<grammar::Masks>(
      std::make_shared<grammar::Automaton>(rules), std::move(no_tokens)));
  return matcher.accept(text) && matcher.may_end();
}

}  // namespace

// The members in their order, of which optional ones may be missing, then up to `most_more` of
// `more`. Each member but the first follows a comma. What may follow a member is a rule that all
// predecessors share, so that the grammar grows linearly with the members.
NodeId SchemaCompiler::join_members(std::vector<Member> members, NodeId more, uint32_t most_more) {
  auto& r = rules_;
  const auto with_comma = [&](NodeId node) { return r.sequence({parts_.comma(), node}); };
  NodeId after = most_more > 0 ? r.repeat(with_comma(more), 0, most_more) : r.empty();
  std::vector<NodeId> firsts;
  bool may_be_empty = true;
  if (most_more > 0) {
    const uint32_t others = most_more == kUnbounded ? most_more : most_more - 1;
    firsts.push_back(r.sequence({more, r.repeat(with_comma(more), 0, others)}));
  }
  for (auto member = members.rbegin(); member != members.rend(); ++member) {
    const auto rule = r.add(concat(source_, ": members"));
    r.define(rule, after);
    const NodeId first = r.sequence({member->node, r.call(rule)});
    if (member->required) {
      firsts.clear();
      may_be_empty = false;
    }
    firsts.push_back(first);
    const NodeId next = with_comma(member->node);
    after = r.sequence({member->required ? next : r.maybe(next), r.call(rule)});
  }
  std::vector<NodeId> parts{r.text("{"), parts_.space()};
  if (!firsts.empty()) {
    const NodeId content = r.sequence({r.choice(std::move(firsts)), parts_.space()});
    parts.push_back(may_be_empty ? r.maybe(content) : content);
  }
  parts.push_back(r.text("}"));
  return r.sequence(std::move(parts));
}

// The schema of a member that `properties` does not name.
Json SchemaCompiler::rule_for_member(const Json& schema, const std::string& name,
                                     const std::string& path) {
  if (const Json* patterns = find(schema, "patternProperties")) {
    for (const auto& [pattern, value] : patterns->items()) {
      if (pattern_matches(pattern, source_ + ": " + path + "/patternProperties", name))
        return value;
    }
  }
  return schema.contains("additionalProperties") ? schema["additionalProperties"] : Json(true);
}

std::vector<SchemaCompiler::Member> SchemaCompiler::named_members(const Json& schema,
                                                                  const std::string& path,
                                                                  std::vector<std::string>& names) {
  std::vector<Member> members;
  std::vector<std::string> required;
  if (const Json* list = find(schema, "required")) {
    // Draft 3 allowed a boolean here; it is refused.
    if (!list->is_array()) refuse(path + "/required", "expected an array of names");
    for (const Json& name : *list) {
      if (!name.is_string()) refuse(path + "/required", "expected an array of names");
      required.push_back(name.get<std::string>());
    }
  }
  const auto add = [&](const std::string& name, const Json& rule, const std::string& place) {
    const bool needed = std::find(required.begin(), required.end(), name) != required.end();
    names.push_back(name);
    members.push_back({parts_.member(parts_.literal(name), value(rule, place)), needed});
  };
  const Json* properties = find(schema, "properties");
  if (properties && !properties->is_object()) refuse(path + "/properties", "expected an object");
  if (properties) {
    for (const auto& [name, rule] : properties->items()) {
      Json whole = rule;
      if (const Json* patterns = find(schema, "patternProperties")) {
        const std::string place = path + "/patternProperties";
        if (!patterns->is_object()) refuse(place, "expected an object");
        for (const auto& [pattern, other] : patterns->items()) {
          if (pattern_matches(pattern, source_ + ": " + place, name)) {
            whole = document_.merged(whole, other, place);
          }
        }
      }
      add(name, whole, path + "/properties/" + name);
    }
  }
  for (const std::string& name : required) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    add(name, rule_for_member(schema, name, path), path + "/additionalProperties");
  }
  return members;
}

// A member that is not named; a Choice of nothing if the schema allows none.
NodeId SchemaCompiler::other_member(const Json& schema, std::vector<std::string> names,
                                    const std::string& path) {
  const Json* additional = find(schema, "additionalProperties");
  if (const Json* patterns = find(schema, "patternProperties"); patterns && !patterns->empty()) {
    const std::string place = path + "/patternProperties";
    const Json& rule = patterns->begin().value();
    for (const auto& [other, other_rule] : patterns->items()) {
      if (other_rule != rule) {
        refuse(place,
               "several patterns are supported only if all have the same schema, because a name "
               "may match two of them");
      }
    }
    std::vector<NodeId> keys;
    for (const auto& [one, unused] : patterns->items()) {
      // The named member could appear twice.
      for (const std::string& name : names) {
        if (pattern_matches(one, source_ + ": " + place, name)) {
          refuse(place, concat("the pattern '", printable(one, 60), "' matches the member '",
                               printable(name, 60),
                               "', which is also named; change the pattern so that it does not"));
        }
      }
      keys.push_back(
          parts_.string_by(parse_regex(one, source_ + ": " + place, RegexMatch::Anywhere)));
    }
    return parts_.member(rules_.choice(std::move(keys)), value(rule, place));
  }
  const bool says_nothing =
      !additional && !schema.contains("properties") && !schema.contains("required");
  const bool closed = is_false(additional) || is_false(find(schema, "unevaluatedProperties"));
  if (closed || (!additional && !says_nothing)) return nothing();
  NodeId key = names.empty() ? parts_.string() : parts_.string_except(names);
  if (const Json* rule = find(schema, "propertyNames")) {
    const std::string place = path + "/propertyNames";
    if (!names.empty()) refuse(place, "propertyNames is not supported beside named members");
    Json text = document_.resolved(*rule, place);
    if (text.is_object()) {
      text = document_.merged(text, Json{{"type", "string"}}, place);
      key = value(text, place);
    } else if (is_false(&text)) {
      return nothing();
    }
  }
  return parts_.member(
      key, additional ? value(*additional, path + "/additionalProperties") : parts_.any());
}

void SchemaCompiler::check_member_count(const Json& schema, const std::vector<Member>& members,
                                        bool open, uint32_t& most_more, const std::string& path) {
  const auto needed = static_cast<uint32_t>(
      std::count_if(members.begin(), members.end(), [](const Member& m) { return m.required; }));
  const uint32_t least = count(schema, "minProperties", 0, path);
  const uint32_t most = count(schema, "maxProperties", kUnbounded, path);
  const auto named = static_cast<uint32_t>(members.size());
  if (least > needed) {
    refuse(path + "/minProperties",
           concat("the number is supported only up to the number of required members, ", needed));
  }
  if (most == kUnbounded || (!open && most >= named)) return;
  if (needed != named || most < named) {
    refuse(path + "/maxProperties", "maxProperties is not supported beside optional members");
  }
  most_more = most - named;
}

NodeId SchemaCompiler::build_object(const Json& schema, const std::string& path) {
  for (const char* keyword : {"additionalProperties", "unevaluatedProperties"}) {
    const Json* rule = find(schema, keyword);
    if (!rule) continue;
    if (!rule->is_boolean() && !rule->is_object())
      refuse(path + "/" + keyword, "expected a schema");
    if (rule->is_object() && keyword[0] == 'u') {
      refuse(path + "/" + keyword, "expected true or false");
    }
  }
  std::vector<std::string> names;
  std::vector<Member> members = named_members(schema, path, names);
  const NodeId other = other_member(schema, names, path);
  const grammar::Node& node = rules_.node(other);
  const bool open = node.kind != grammar::Node::Kind::Choice || !node.parts.empty();
  uint32_t most_more = open ? kUnbounded : 0;
  check_member_count(schema, members, open, most_more, path);
  return join_members(std::move(members), other, most_more);
}

NodeId SchemaCompiler::build_array(const Json& schema, const std::string& path) {
  const Json* items = find(schema, "items");
  const Json* first = find(schema, "prefixItems");
  std::string rest_path = path + "/items";
  if (items && items->is_array()) {  // drafts before 2020-12
    first = items;
    items = find(schema, "additionalItems");
    rest_path = path + "/additionalItems";
  }
  if (const Json* unique = find(schema, "uniqueItems"); unique && *unique != Json(false)) {
    refuse(path + "/uniqueItems",
           "uniqueItems is not supported; leave it out, and check the output instead");
  }
  if (const Json* rule = find(schema, "unevaluatedItems"); rule && !rule->is_boolean()) {
    refuse(path + "/unevaluatedItems", "expected true or false");
  }
  if (first && !first->is_array()) refuse(path + "/prefixItems", "expected an array of schemas");
  const uint32_t least = count(schema, "minItems", 0, path);
  const uint32_t most = count(schema, "maxItems", kUnbounded, path);
  if (least > most) return nothing();
  const size_t prefix = first ? first->size() : 0;
  const bool rest = !is_false(items) && !is_false(find(schema, "unevaluatedItems")) &&
                    (items || !first || least > prefix);
  const auto rest_item = [&] { return items ? value(*items, rest_path) : parts_.any(); };
  if (prefix == 0) {
    if (!rest) return least > 0 ? nothing() : parts_.list("[", nothing(), 0, 0, "]");
    return parts_.list("[", rest_item(), least, most, "]");
  }
  auto& r = rules_;
  // Built from the last item to the first: an item, and what may follow it.
  NodeId after = r.empty();
  if (rest && most > prefix) {
    const auto used = static_cast<uint32_t>(prefix);
    after = r.repeat(r.sequence({parts_.comma(), rest_item()}), least > used ? least - used : 0,
                     most == kUnbounded ? most : most - used);
  } else if (least > prefix) {
    return nothing();
  }
  NodeId content = r.empty();
  for (size_t i = std::min<size_t>(prefix, most); i-- > 0;) {
    const NodeId item = value((*first)[i], concat(path, "/prefixItems/", i));
    content = r.sequence({item, i + 1 == prefix ? after : content});
    if (i > 0) content = r.sequence({parts_.comma(), content});
    if (i >= least) content = r.maybe(content);
  }
  return r.sequence({r.text("["), parts_.space(), content, parts_.space(), r.text("]")});
}

}  // namespace skald
