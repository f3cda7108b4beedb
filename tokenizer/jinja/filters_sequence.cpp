// Filters on lists and dicts.
#include <algorithm>
#include <unordered_set>

#include "tokenizer/jinja/filters.h"
#include "tokenizer/jinja/operators.h"
#include "tokenizer/jinja/print.h"
#include "tokenizer/jinja/unicode.h"

namespace skald::jinja {
namespace {

Value length_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound none(context, "length", {}, arguments);
  return length(context, input);
}

Value first(Context& context, const Value& input, const Arguments& arguments) {
  const Bound none(context, "first", {}, arguments);
  const Value all = to_sequence(context, input);
  const auto& items = all.as_sequence()->items;
  return items.empty() ? Value::undefined("the first of an empty sequence") : items.front();
}

Value last(Context& context, const Value& input, const Arguments& arguments) {
  const Bound none(context, "last", {}, arguments);
  const Sequence* sequence = input.as_sequence();
  if (sequence && sequence->kind == SequenceKind::Iterator) {
    context.fail("last: a generator has no last element; make a list of it");
  }
  const Value all = to_sequence(context, input);
  const auto& items = all.as_sequence()->items;
  return items.empty() ? Value::undefined("the last of an empty sequence") : items.back();
}

Value join(Context& context, const Value& input, const Arguments& arguments) {
  const Bound bound(context, "join", {"d", "attribute"}, arguments);
  const std::string separator = bound.has(0) ? to_text(context, bound.need(0)) : "";
  const bool attribute = bound.has(1) && !bound.need(1).is_none();
  const Value all = to_sequence(context, input);
  std::string out;
  bool begins = true;
  for (const Value& item : all.as_sequence()->items) {
    if (!begins) out += separator;
    begins = false;
    out += to_text(context, attribute ? attribute_path(context, item, bound.need(1)) : item);
    context.spend_bytes(separator.size());
    context.check_text(out.size());
  }
  return context.text(std::move(out));
}

Value list(Context& context, const Value& input, const Arguments& arguments) {
  const Bound none(context, "list", {}, arguments);
  const Value all = to_sequence(context, input);
  if (all.as_sequence()->kind == SequenceKind::List) return all;
  context.check_items(all.as_sequence()->items.size());
  return context.list(all.as_sequence()->items);
}

Value default_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound bound(context, "default", {"default_value", "boolean"}, arguments);
  if (!input.is_undefined() && (!bound.flag(1, false) || input.truthy())) return input;
  return bound.has(0) ? bound.need(0) : context.text("");
}

Value items(Context& context, const Value& input, const Arguments& arguments) {
  const Bound none(context, "items", {}, arguments);
  if (input.is_undefined()) return context.list({}, SequenceKind::Iterator);
  const Dict* dict = input.as_dict();
  if (!dict) context.fail("items: a ", input.type_name(), " is not a dict");
  context.check_items(dict->size());
  std::vector<Value> pairs;
  for (const Dict::Entry& entry : dict->entries()) {
    pairs.push_back(context.pair(entry.key, entry.value));
  }
  return context.list(std::move(pairs), SequenceKind::Iterator);
}

Value reverse(Context& context, const Value& input, const Arguments& arguments) {
  const Bound none(context, "reverse", {}, arguments);
  if (const Text* text = input.as_text()) {
    context.spend_bytes(4 * text->bytes.size());
    const auto all = split_characters(text->bytes);
    std::string out;
    for (auto c = all.rbegin(); c != all.rend(); ++c) out += *c;
    return context.like(input, std::move(out));
  }
  const Sequence* given = input.as_sequence();
  const bool iterator = given && given->kind == SequenceKind::Iterator;
  const Value all = to_sequence(context, input);
  const auto& items = all.as_sequence()->items;
  context.check_items(items.size());
  return context.list({items.rbegin(), items.rend()},
                      iterator ? SequenceKind::List : SequenceKind::Iterator);
}

struct Keyed {
  Value key;
  Value item;
};

// Stable also in reverse, as Python's sorted().
Value sorted(Context& context, std::vector<Keyed> all, bool reverse) {
  if (reverse) std::reverse(all.begin(), all.end());
  std::stable_sort(all.begin(), all.end(),
                   [&](const Keyed& a, const Keyed& b) { return less(context, a.key, b.key); });
  if (reverse) std::reverse(all.begin(), all.end());
  std::vector<Value> items;
  items.reserve(all.size());
  for (Keyed& one : all) items.push_back(std::move(one.item));
  return context.list(std::move(items));
}

std::vector<Keyed> keyed(Context& context, const Value& input, const SortKey& key) {
  const Value all = to_sequence(context, input);
  context.check_items(4 * all.as_sequence()->items.size());
  std::vector<Keyed> pairs;
  for (const Value& item : all.as_sequence()->items) pairs.push_back({key(item), item});
  return pairs;
}

const Value* attribute_of(const Bound& bound, size_t i) {
  return bound.has(i) && !bound.need(i).is_none() ? &bound.need(i) : nullptr;
}

Value sort(Context& context, const Value& input, const Arguments& arguments) {
  const Bound bound(context, "sort", {"reverse", "case_sensitive", "attribute"}, arguments);
  const SortKey key(context, attribute_of(bound, 2), bound.flag(1, false), true);
  return sorted(context, keyed(context, input, key), bound.flag(0, false));
}

Value dictsort(Context& context, const Value& input, const Arguments& arguments) {
  const Bound bound(context, "dictsort", {"case_sensitive", "by", "reverse"}, arguments);
  const Dict* dict = input.as_dict();
  if (!dict) context.fail("dictsort: a ", input.type_name(), " is not a dict");
  const std::string by = bound.has(1) ? bound.string(1) : "key";
  if (by != "key" && by != "value") context.fail("dictsort: 'by' must be 'key' or 'value'");
  const SortKey key(context, nullptr, bound.flag(0, false));
  context.check_items(4 * dict->size());
  std::vector<Keyed> pairs;
  for (const Dict::Entry& entry : dict->entries()) {
    pairs.push_back(
        {key(by == "key" ? entry.key : entry.value), context.pair(entry.key, entry.value)});
  }
  return sorted(context, std::move(pairs), bound.flag(2, false));
}

Value unique(Context& context, const Value& input, const Arguments& arguments) {
  const Bound bound(context, "unique", {"case_sensitive", "attribute"}, arguments);
  const SortKey key(context, attribute_of(bound, 1), bound.flag(0, false));
  Dict seen;
  std::vector<Value> kept;
  for (Keyed& one : keyed(context, input, key)) {
    context.spend(1);
    if (seen.find(one.key)) continue;
    if (!seen.set(one.key, None{})) {
      context.fail("unique: a ", one.key.type_name(), " cannot be a key");
    }
    kept.push_back(std::move(one.item));
  }
  return context.list(std::move(kept), SequenceKind::Iterator);
}

template <bool largest>
Value extreme(Context& context, const Value& input, const Arguments& arguments) {
  const Bound bound(context, largest ? "max" : "min", {"case_sensitive", "attribute"}, arguments);
  const SortKey key(context, attribute_of(bound, 1), bound.flag(0, false));
  const std::vector<Keyed> all = keyed(context, input, key);
  if (all.empty()) return Value::undefined("the least or largest of an empty sequence");
  const Keyed* best = &all.front();
  for (const Keyed& one : all) {
    const bool better =
        largest ? less(context, best->key, one.key) : less(context, one.key, best->key);
    if (better) best = &one;
  }
  return best->item;
}

Value sum(Context& context, const Value& input, const Arguments& arguments) {
  const Bound bound(context, "sum", {"attribute", "start"}, arguments);
  const Value* attribute = attribute_of(bound, 0);
  Value total = bound.or_else(1, int64_t{0});
  if (total.as_text()) context.fail("sum: cannot add strings; use join");
  const Value all = to_sequence(context, input);
  for (const Value& item : all.as_sequence()->items) {
    const Value one = attribute ? attribute_path(context, item, *attribute) : item;
    context.spend(1);
    total = binary(context, BinaryOp::Add, total, one);
  }
  return total;
}

Value batch(Context& context, const Value& input, const Arguments& arguments) {
  const Bound bound(context, "batch", {"linecount", "fill_with"}, arguments);
  const int64_t size = bound.integer(0, 0);
  if (size < 1) context.fail("batch: the line length must be at least 1, found ", size);
  const Value all = to_sequence(context, input);
  std::vector<Value> lines, line;
  const auto flush = [&] { lines.push_back(context.list(std::exchange(line, {}))); };
  for (const Value& item : all.as_sequence()->items) {
    if (static_cast<int64_t>(line.size()) == size) flush();
    line.push_back(item);
  }
  if (!line.empty()) {
    if (bound.has(1) && !bound.need(1).is_none()) {
      context.check_items(static_cast<size_t>(size));
      line.resize(static_cast<size_t>(size), bound.need(1));
    }
    flush();
  }
  return context.list(std::move(lines), SequenceKind::Iterator);
}

Value slices(Context& context, const Value& input, const Arguments& arguments) {
  const Bound bound(context, "slice", {"slices", "fill_with"}, arguments);
  const int64_t count = bound.integer(0, 0);
  if (count < 1) context.fail("slice: the number of parts must be at least 1, found ", count);
  context.check_items(static_cast<size_t>(count));
  context.spend(static_cast<uint64_t>(count));
  const Value all = to_sequence(context, input);
  const auto& items = all.as_sequence()->items;
  const size_t parts = static_cast<size_t>(count);
  const size_t each = items.size() / parts, more = items.size() % parts;
  std::vector<Value> lines;
  size_t at = 0;
  for (size_t i = 0; i < parts; ++i) {
    const size_t size = each + (i < more ? 1 : 0);
    std::vector<Value> line(items.begin() + static_cast<std::ptrdiff_t>(at),
                            items.begin() + static_cast<std::ptrdiff_t>(at + size));
    at += size;
    if (bound.has(1) && !bound.need(1).is_none() && i >= more) line.push_back(bound.need(1));
    lines.push_back(context.list(std::move(line)));
  }
  return context.list(std::move(lines), SequenceKind::Iterator);
}

constexpr NamedFilter kSequenceFilters[] = {
    {"batch", batch},
    {"count", length_filter},
    {"d", default_filter},
    {"default", default_filter},
    {"dictsort", dictsort},
    {"first", first},
    {"items", items},
    {"join", join},
    {"last", last},
    {"length", length_filter},
    {"list", list},
    {"max", extreme<true>},
    {"min", extreme<false>},
    {"reverse", reverse},
    {"slice", slices},
    {"sort", sort},
    {"sum", sum},
    {"unique", unique},
};

}  // namespace

std::span<const NamedFilter> sequence_filters() { return kSequenceFilters; }

}  // namespace skald::jinja
