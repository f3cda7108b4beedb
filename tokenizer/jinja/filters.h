// Jinja's filters and tests, and transformers' own tojson. By name, as map() and select() also call
// them.
#pragma once

#include <span>
#include <string_view>

#include "tokenizer/jinja/context.h"
#include "tokenizer/jinja/value.h"

namespace skald::jinja {

Value apply_filter(Context& context, std::string_view name, const Value& input,
                   const Arguments& arguments);
bool apply_test(Context& context, std::string_view name, const Value& input,
                const Arguments& arguments);

// The rest is for the files that make up the table.
using FilterFunction = Value (*)(Context& context, const Value& input, const Arguments& arguments);
struct NamedFilter {
  std::string_view name;
  FilterFunction function;
};
std::span<const NamedFilter> text_filters();
std::span<const NamedFilter> sequence_filters();
std::span<const NamedFilter> selection_filters();
bool is_filter(std::string_view name);

// "a.b.0" or a number as the path to a part of an item; each path of "a,b" gives one of a tuple.
Value attribute_path(Context& context, const Value& item, const Value& path);
// The key that sort, unique, min and others compare by.
class SortKey {
 public:
  SortKey(Context& context, const Value* attribute, bool case_sensitive, bool several = false)
      : context_(context),
        attribute_(attribute),
        case_sensitive_(case_sensitive),
        several_(several) {}
  Value operator()(const Value& item) const;

 private:
  Context& context_;
  const Value* attribute_;  // nullptr: the item itself
  bool case_sensitive_, several_;
};

}  // namespace skald::jinja
