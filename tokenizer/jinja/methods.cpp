#include "tokenizer/jinja/methods.h"

#include <algorithm>
#include <array>

#include "tokenizer/jinja/operators.h"
#include "tokenizer/jinja/print.h"
#include "tokenizer/jinja/unicode.h"

namespace skald::jinja {
namespace {

struct Method {
  std::string_view name;
  Function function;
};

const std::string& bytes_of(const Value& self) { return self.as_text()->bytes; }

Value texts(Context& context, const Value& self, const std::vector<std::string_view>& parts) {
  context.check_items(parts.size());
  std::vector<Value> items;
  items.reserve(parts.size());
  for (std::string_view part : parts) items.push_back(context.like(self, std::string(part)));
  return context.list(std::move(items));
}

// A method without arguments that maps a string to a string.
template <std::string (*change)(std::string_view)>
Value changed_self(Context& context, const Value& self, const Arguments& arguments) {
  const Bound none(context, "a method of texts", {}, arguments);
  context.spend_bytes(4 * bytes_of(self).size());
  return context.like(self, change(bytes_of(self)));
}

template <std::string_view (*part)(std::string_view, const std::string*)>
Value stripped(Context& context, const Value& self, const Arguments& arguments) {
  const Bound bound(context, "strip", {"chars"}, arguments);
  return context.like(self, std::string(part(bytes_of(self), bound.optional_string(0))));
}

Value split_by(Context& context, const Value& self, const Arguments& arguments, bool from_right) {
  const Bound bound(context, from_right ? "rsplit" : "split", {"sep", "maxsplit"}, arguments);
  const std::string* separator = bound.optional_string(0);
  if (separator && separator->empty()) context.fail("split() by an empty string");
  context.spend_bytes(4 * bytes_of(self).size());
  const int64_t most = bound.integer(1, -1);
  return texts(context, self,
               from_right ? split_from_right(bytes_of(self), separator, most)
                          : split(bytes_of(self), separator, most));
}

Value split_method(Context& context, const Value& self, const Arguments& arguments) {
  return split_by(context, self, arguments, false);
}

Value rsplit_method(Context& context, const Value& self, const Arguments& arguments) {
  return split_by(context, self, arguments, true);
}

Value splitlines(Context& context, const Value& self, const Arguments& arguments) {
  const Bound bound(context, "splitlines", {"keepends"}, arguments);
  context.spend_bytes(4 * bytes_of(self).size());
  return texts(context, self, split_lines(bytes_of(self), bound.flag(0, false)));
}

Value partition(Context& context, const Value& self, const Arguments& arguments, bool from_right) {
  const Bound bound(context, "partition", {"sep"}, arguments);
  const std::string& separator = bound.string(0);
  if (separator.empty()) context.fail("partition() by an empty string");
  const std::string_view all = bytes_of(self);
  const size_t at = from_right ? all.rfind(separator) : all.find(separator);
  std::array<std::string_view, 3> parts = {all, "", ""};
  if (at == std::string_view::npos) {
    if (from_right) std::swap(parts[0], parts[2]);
  } else {
    parts = {all.substr(0, at), separator, all.substr(at + separator.size())};
  }
  std::vector<Value> items;
  items.reserve(parts.size());
  for (std::string_view part : parts) items.push_back(context.like(self, std::string(part)));
  return context.list(std::move(items), SequenceKind::Tuple);
}

Value partition_method(Context& context, const Value& self, const Arguments& arguments) {
  return partition(context, self, arguments, false);
}

Value rpartition_method(Context& context, const Value& self, const Arguments& arguments) {
  return partition(context, self, arguments, true);
}

// The part of self at characters [start, end).
struct Range {
  size_t begin, end;   // bytes
  bool empty = false;  // start is past the end: not even "" is found
};

Range range_of(Context& context, const std::string& all, const Bound& bound, size_t first) {
  const int64_t size = static_cast<int64_t>(characters(all));
  const auto at = [&](size_t i, int64_t otherwise) {
    int64_t n = bound.has(i) && !bound.need(i).is_none() ? bound.integer(i, 0) : otherwise;
    return n < 0 ? std::max<int64_t>(std::max(n, -size - 1) + size, 0) : n;
  };
  context.spend_bytes(4 * all.size());
  const int64_t start = at(first, 0), end = std::min(at(first + 1, size), size);
  if (start > end) return {0, 0, true};
  return {byte_of(all, static_cast<size_t>(start)), byte_of(all, static_cast<size_t>(end))};
}

template <bool at_end>
Value starts_or_ends(Context& context, const Value& self, const Arguments& arguments) {
  const char* name = at_end ? "endswith" : "startswith";
  const Bound bound(context, name, {at_end ? "suffix" : "prefix", "start", "end"}, arguments);
  const Range range = range_of(context, bytes_of(self), bound, 1);
  const std::string_view part =
      std::string_view(bytes_of(self)).substr(range.begin, range.end - range.begin);
  const auto matches = [&](const std::string& wanted) {
    return !range.empty && (at_end ? part.ends_with(wanted) : part.starts_with(wanted));
  };
  const Sequence* several = bound.need(0).as_sequence();
  if (!several || several->kind != SequenceKind::Tuple) return matches(bound.string(0));
  for (const Value& one : several->items) {
    if (!one.as_text()) context.fail(name, "() needs strings, found a ", one.type_name());
    if (matches(one.as_text()->bytes)) return true;
  }
  return false;
}

int64_t find_in(Context& context, const Value& self, const Arguments& arguments, bool last) {
  const Bound bound(context, last ? "rfind" : "find", {"sub", "start", "end"}, arguments);
  const Range range = range_of(context, bytes_of(self), bound, 1);
  if (range.empty) return -1;
  const std::string_view part = std::string_view(bytes_of(self)).substr(0, range.end);
  const size_t at = last ? part.substr(range.begin).rfind(bound.string(0))
                         : part.find(bound.string(0), range.begin);
  if (at == std::string_view::npos) return -1;
  return static_cast<int64_t>(characters(part.substr(0, last ? range.begin + at : at)));
}

template <bool last, bool must>
Value find_method(Context& context, const Value& self, const Arguments& arguments) {
  const int64_t at = find_in(context, self, arguments, last);
  if (must && at < 0) context.fail("index(): the string was not found");
  return at;
}

Value count_text(Context& context, const Value& self, const Arguments& arguments) {
  const Bound bound(context, "count", {"sub", "start", "end"}, arguments);
  const Range range = range_of(context, bytes_of(self), bound, 1);
  if (range.empty) return int64_t{0};
  std::string_view part =
      std::string_view(bytes_of(self)).substr(range.begin, range.end - range.begin);
  const std::string& wanted = bound.string(0);
  if (wanted.empty()) return static_cast<int64_t>(characters(part) + 1);
  int64_t count = 0;
  for (size_t at; (at = part.find(wanted)) != std::string_view::npos; ++count) {
    part.remove_prefix(at + wanted.size());
  }
  return count;
}

Value replace_method(Context& context, const Value& self, const Arguments& arguments) {
  const Bound bound(context, "replace", {"old", "new", "count"}, arguments);
  return context.like(self, replace_text(context, bytes_of(self), bound.string(0), bound.string(1),
                                         bound.integer(2, -1)));
}

Value join_method(Context& context, const Value& self, const Arguments& arguments) {
  const Bound bound(context, "join", {"iterable"}, arguments);
  const Value all = to_sequence(context, bound.need(0));
  std::string out;
  bool first = true;
  for (const Value& item : all.as_sequence()->items) {
    const Text* text = item.as_text();
    if (!text) context.fail("join() needs strings, found a ", item.type_name());
    if (!first) out += bytes_of(self);
    first = false;
    out += text->bytes;
    context.check_text(out.size());
  }
  return context.like(self, std::move(out));
}

template <bool at_end>
Value remove_part(Context& context, const Value& self, const Arguments& arguments) {
  const Bound bound(context, at_end ? "removesuffix" : "removeprefix", {"part"}, arguments);
  std::string_view all = bytes_of(self);
  const std::string& part = bound.string(0);
  if (at_end && all.ends_with(part)) all.remove_suffix(part.size());
  if (!at_end && all.starts_with(part)) all.remove_prefix(part.size());
  return context.like(self, std::string(all));
}

enum class Side { Left, Center, Right };

template <Side side>
Value justify(Context& context, const Value& self, const Arguments& arguments) {
  const Bound bound(context, "ljust", {"width", "fillchar"}, arguments);
  const std::string fill = bound.has(1) ? bound.string(1) : " ";
  if (characters(fill) != 1) context.fail("the fill character must be a single character");
  const int64_t missing =
      std::max<int64_t>(bound.integer(0, 0) - static_cast<int64_t>(characters(bytes_of(self))), 0);
  const int64_t width = bound.integer(0, 0);
  int64_t before = side == Side::Left ? 0 : missing;
  // The same as in Python: an odd space goes left if the width is odd.
  if (side == Side::Center) before = missing / 2 + (missing & width & 1);
  context.check_text(static_cast<size_t>(missing));
  std::string out;
  for (int64_t i = 0; i < before; ++i) out += fill;
  out += bytes_of(self);
  for (int64_t i = before; i < missing; ++i) out += fill;
  return context.like(self, std::move(out));
}

Value zfill(Context& context, const Value& self, const Arguments& arguments) {
  const Bound bound(context, "zfill", {"width"}, arguments);
  const std::string& all = bytes_of(self);
  const int64_t missing =
      std::max<int64_t>(bound.integer(0, 0) - static_cast<int64_t>(characters(all)), 0);
  context.check_text(static_cast<size_t>(missing));
  std::string out = all;
  const bool sign = all.starts_with('-') || all.starts_with('+');
  out.insert(sign ? 1 : 0, static_cast<size_t>(missing), '0');
  return context.like(self, std::move(out));
}

Value format_method(Context& context, const Value& self, const Arguments& arguments) {
  return context.like(self, brace_format(context, bytes_of(self), arguments));
}

template <CharacterClass what>
Value is_class(Context& context, const Value& self, const Arguments& arguments) {
  const Bound none(context, "a method of texts", {}, arguments);
  context.spend_bytes(4 * bytes_of(self).size());
  return all_are(bytes_of(self), what);
}

template <bool (*test)(std::string_view)>
Value has_case(Context& context, const Value& self, const Arguments& arguments) {
  const Bound none(context, "a method of texts", {}, arguments);
  context.spend_bytes(4 * bytes_of(self).size());
  return test(bytes_of(self));
}

constexpr Method kTextMethods[] = {
    {"capitalize", changed_self<capitalize>},
    {"casefold", changed_self<lower>},
    {"center", justify<Side::Center>},
    {"count", count_text},
    {"endswith", starts_or_ends<true>},
    {"find", find_method<false, false>},
    {"format", format_method},
    {"index", find_method<false, true>},
    {"isalnum", is_class<CharacterClass::Alnum>},
    {"isalpha", is_class<CharacterClass::Alpha>},
    {"isdecimal", is_class<CharacterClass::Digit>},
    {"isdigit", is_class<CharacterClass::Digit>},
    {"islower", has_case<is_lower>},
    {"isnumeric", is_class<CharacterClass::Digit>},
    {"isspace", is_class<CharacterClass::Space>},
    {"isupper", has_case<is_upper>},
    {"join", join_method},
    {"ljust", justify<Side::Left>},
    {"lower", changed_self<lower>},
    {"lstrip", stripped<strip_left>},
    {"partition", partition_method},
    {"removeprefix", remove_part<false>},
    {"removesuffix", remove_part<true>},
    {"replace", replace_method},
    {"rfind", find_method<true, false>},
    {"rindex", find_method<true, true>},
    {"rjust", justify<Side::Right>},
    {"rpartition", rpartition_method},
    {"rsplit", rsplit_method},
    {"rstrip", stripped<strip_right>},
    {"split", split_method},
    {"splitlines", splitlines},
    {"startswith", starts_or_ends<false>},
    {"strip", stripped<strip>},
    {"swapcase", changed_self<swap_case>},
    {"title", changed_self<title>},
    {"upper", changed_self<upper>},
    {"zfill", zfill},
};

Value dict_get(Context& context, const Value& self, const Arguments& arguments) {
  const Bound bound(context, "get", {"key", "default"}, arguments);
  const Value* found = self.as_dict()->find(bound.need(0));
  return found ? *found : bound.or_else(1, None{});
}

enum class Part { Keys, Values, Items };

template <Part part>
Value dict_view(Context& context, const Value& self, const Arguments& arguments) {
  const Bound none(context, "a method of dicts", {}, arguments);
  const auto& entries = self.as_dict()->entries();
  context.check_items(entries.size());
  std::vector<Value> items;
  items.reserve(entries.size());
  for (const Dict::Entry& entry : entries) {
    if (part == Part::Items) {
      items.push_back(context.pair(entry.key, entry.value));
    } else {
      items.push_back(part == Part::Keys ? entry.key : entry.value);
    }
  }
  return context.list(std::move(items), SequenceKind::View);
}

Value itself(Context& context, const Value& self, const Arguments& arguments) {
  const Bound none(context, "copy", {}, arguments);
  return self;
}

constexpr Method kDictMethods[] = {
    {"copy", itself},
    {"get", dict_get},
    {"items", dict_view<Part::Items>},
    {"keys", dict_view<Part::Keys>},
    {"values", dict_view<Part::Values>},
};
constexpr std::string_view kDictChanges[] = {"clear", "pop", "popitem", "setdefault", "update"};

Value list_count(Context& context, const Value& self, const Arguments& arguments) {
  const Bound bound(context, "count", {"value"}, arguments);
  const auto& items = self.as_sequence()->items;
  return static_cast<int64_t>(std::count_if(items.begin(), items.end(), [&](const Value& item) {
    return equal(context, item, bound.need(0));
  }));
}

Value list_index(Context& context, const Value& self, const Arguments& arguments) {
  const Bound bound(context, "index", {"value"}, arguments);
  const auto& items = self.as_sequence()->items;
  const auto found = std::find_if(items.begin(), items.end(), [&](const Value& item) {
    return equal(context, item, bound.need(0));
  });
  if (found == items.end()) context.fail("index(): the value is not in the list");
  return static_cast<int64_t>(found - items.begin());
}

constexpr Method kListMethods[] = {{"copy", itself}, {"count", list_count}, {"index", list_index}};
constexpr std::string_view kListChanges[] = {"append", "clear",  "extend",  "insert",
                                             "pop",    "remove", "reverse", "sort"};

template <size_t n>
const Method* in_table(const Method (&table)[n], std::string_view name) {
  const auto found =
      std::find_if(table, table + n, [&](const Method& method) { return method.name == name; });
  return found == table + n ? nullptr : found;
}

template <size_t n>
bool changes(const std::string_view (&names)[n], std::string_view name) {
  return std::find(names, names + n, name) != names + n;
}

}  // namespace

std::optional<Value> find_method(Context& context, const Value& object, std::string_view name) {
  const Method* method = nullptr;
  bool change = false;
  if (object.as_text()) {
    method = in_table(kTextMethods, name);
  } else if (object.as_dict()) {
    method = in_table(kDictMethods, name);
    change = changes(kDictChanges, name);
  } else if (const Sequence* list = object.as_sequence();
             list && (list->kind == SequenceKind::List || list->kind == SequenceKind::Tuple)) {
    method = in_table(kListMethods, name);
    change = list->kind == SequenceKind::List && changes(kListChanges, name);
  }
  if (change) {
    return Value::undefined(concat("'", name, "' would change a ", object.type_name(),
                                   ", which a chat template must not"));
  }
  if (!method) return std::nullopt;
  context.spend(1);
  return Value(std::shared_ptr<Object>(
      std::make_shared<FunctionObject>(method->name, method->function, object)));
}

}  // namespace skald::jinja
