// The table of filters, and the filters that call others by name.
#include "tokenizer/jinja/filters.h"

#include <algorithm>

#include "tokenizer/jinja/operators.h"
#include "tokenizer/jinja/unicode.h"

namespace skald::jinja {
namespace {

// The arguments after the first n, for the filter or test that the first arguments name.
Arguments rest_of(const Arguments& arguments, size_t n) {
  const auto begin = arguments.positional.begin() + static_cast<std::ptrdiff_t>(n);
  return {{begin, arguments.positional.end()}, arguments.named};
}

const std::string& name_in(Context& context, const Arguments& arguments, size_t i) {
  const Text* name = arguments.positional[i].as_text();
  if (!name) context.fail("the name of a filter or test must be a string");
  return name->bytes;
}

Value map(Context& context, const Value& input, const Arguments& arguments) {
  std::vector<Value> results;
  // A false input, such as none or 0, gives an empty result.
  if (!input.truthy()) return context.list({}, SequenceKind::Iterator);
  const Value all = to_sequence(context, input);
  const auto& items = all.as_sequence()->items;
  if (arguments.positional.empty()) {
    const Bound bound(context, "map", {"attribute", "default"}, arguments);
    for (const Value& item : items) {
      Value part = attribute_path(context, item, bound.need(0));
      if (part.is_undefined() && bound.has(1) && !bound.need(1).is_none()) part = bound.need(1);
      results.push_back(std::move(part));
    }
  } else {
    const std::string& name = name_in(context, arguments, 0);
    const Arguments rest = rest_of(arguments, 1);
    for (const Value& item : items) results.push_back(apply_filter(context, name, item, rest));
  }
  return context.list(std::move(results), SequenceKind::Iterator);
}

template <bool by_attribute, bool wanted>
Value select(Context& context, const Value& input, const Arguments& arguments) {
  const size_t test = by_attribute ? 1 : 0;  // index of the test's name
  if (arguments.positional.size() < test) context.fail("selectattr needs an attribute");
  std::vector<Value> kept;
  if (!input.truthy()) return context.list({}, SequenceKind::Iterator);
  const Value all = to_sequence(context, input);
  const bool named = arguments.positional.size() > test;
  const Arguments rest = named ? rest_of(arguments, test + 1) : Arguments{};
  for (const Value& item : all.as_sequence()->items) {
    const Value part = by_attribute ? attribute_path(context, item, arguments.positional[0]) : item;
    const bool holds =
        named ? apply_test(context, name_in(context, arguments, test), part, rest) : part.truthy();
    context.spend(1);
    if (holds == wanted) kept.push_back(item);
  }
  return context.list(std::move(kept), SequenceKind::Iterator);
}

Value attribute(Context& context, const Value& input, const Arguments& arguments) {
  const Bound bound(context, "attr", {"name"}, arguments);
  const std::string& name = bound.string(0);
  // Only attributes: for a dict its methods, not its keys.
  if (!input.as_dict()) return get_attribute(context, input, name);
  return Value::undefined(concat("'dict object' has no attribute '", name, "'"));
}

constexpr NamedFilter kSelectionFilters[] = {
    {"attr", attribute},
    {"map", map},
    {"reject", select<false, false>},
    {"rejectattr", select<true, false>},
    {"select", select<false, true>},
    {"selectattr", select<true, true>},
};

FilterFunction find_filter(std::string_view name) {
  for (const auto& table : {text_filters(), sequence_filters(), selection_filters()}) {
    for (const NamedFilter& filter : table) {
      if (filter.name == name) return filter.function;
    }
  }
  return nullptr;
}

Value one_path(Context& context, const Value& item, std::string_view path) {
  Value part = item;
  const std::string dot = ".";
  for (std::string_view step : split(path, &dot, -1)) {
    const bool number = !step.empty() && step.size() < 10 &&
                        step.find_first_not_of("0123456789") == std::string_view::npos;
    part = get_item(
        context, part,
        number ? Value(int64_t{std::stoi(std::string(step))}) : context.text(std::string(step)));
  }
  return part;
}

}  // namespace

std::span<const NamedFilter> selection_filters() { return kSelectionFilters; }

bool is_filter(std::string_view name) { return find_filter(name) != nullptr; }

Value apply_filter(Context& context, std::string_view name, const Value& input,
                   const Arguments& arguments) {
  const FilterFunction filter = find_filter(name);
  if (!filter) context.fail("there is no filter '", name, "'");
  context.spend(1);
  return filter(context, input, arguments);
}

Value attribute_path(Context& context, const Value& item, const Value& path) {
  const Text* text = path.as_text();
  return text ? one_path(context, item, text->bytes) : get_item(context, item, path);
}

Value SortKey::operator()(const Value& item) const {
  context_.spend(1);
  const auto fold = [&](Value part) {
    const Text* text = part.as_text();
    if (!text || case_sensitive_) return part;
    context_.spend_bytes(4 * text->bytes.size());
    return context_.text(lower(text->bytes));
  };
  if (!attribute_) return fold(item);
  const Text* paths = attribute_->as_text();
  if (!several_ || !paths) return fold(attribute_path(context_, item, *attribute_));
  std::vector<Value> keys;
  const std::string comma = ",";
  for (std::string_view path : split(paths->bytes, &comma, -1)) {
    keys.push_back(fold(one_path(context_, item, path)));
  }
  return context_.list(std::move(keys));
}

}  // namespace skald::jinja
