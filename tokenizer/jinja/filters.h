// Jinja's filters and tests, and transformers' own tojson, called by name. map() and select() also
// call them by name.
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

// The following is for the files that define the filters.
using FilterFunction = Value (*)(Context& context, const Value& input, const Arguments& arguments);
struct NamedFilter {
  std::string_view name;
  FilterFunction function;
};
std::span<const NamedFilter> text_filters();
std::span<const NamedFilter> sequence_filters();
std::span<const NamedFilter> selection_filters();
bool is_filter(std::string_view name);

// The part of `item` at `path`: "a.b.0" or a number. A path with commas, "a,b", gives a tuple.
Value attribute_path(Context& context, const Value& item, const Value& path);
// The key by which sort, unique, min and others compare.
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
