// Jinja's tests: the names that may follow "is".
#include <algorithm>

#include "tokenizer/jinja/filters.h"
#include "tokenizer/jinja/operators.h"
#include "tokenizer/jinja/print.h"
#include "tokenizer/jinja/unicode.h"

namespace skald::jinja {
namespace {

// `other` is the argument, for tests with one.
using TestFunction = bool (*)(Context& context, const Value& value, const Value& other);

struct Test {
  std::string_view name;
  size_t arguments;
  TestFunction function;
};

bool is_iterable(const Value& value) {
  return value.as_sequence() || value.as_dict() || value.as_text() || value.is_undefined();
}

// True if the value has a length and elements by number or key.
bool is_sequence(const Value& value) {
  const Sequence* sequence = value.as_sequence();
  if (!sequence) return value.as_dict() || value.as_text() || value.is_undefined();
  return sequence->kind != SequenceKind::View && sequence->kind != SequenceKind::Iterator;
}

bool rest_is(Context& context, const Value& value, const Value& by, int64_t rest) {
  return equal(context, binary(context, BinaryOp::Modulo, value, by), rest);
}

template <CompareOp op>
bool compares(Context& context, const Value& value, const Value& other) {
  return compare(context, op, value, other);
}

std::string_view name_of(const Value& value) {
  return value.as_text() ? std::string_view(value.as_text()->bytes) : std::string_view();
}

bool exists(std::string_view name);

constexpr Test kTests[] = {
    {"defined", 0, [](Context&, const Value& v, const Value&) { return !v.is_undefined(); }},
    {"undefined", 0, [](Context&, const Value& v, const Value&) { return v.is_undefined(); }},
    {"none", 0, [](Context&, const Value& v, const Value&) { return v.is_none(); }},
    {"boolean", 0, [](Context&, const Value& v, const Value&) { return v.get<bool>() != nullptr; }},
    {"true", 0,
     [](Context&, const Value& v, const Value&) { return v.get<bool>() && *v.get<bool>(); }},
    {"false", 0,
     [](Context&, const Value& v, const Value&) { return v.get<bool>() && !*v.get<bool>(); }},
    {"integer", 0,
     [](Context&, const Value& v, const Value&) { return v.get<int64_t>() != nullptr; }},
    {"float", 0, [](Context&, const Value& v, const Value&) { return v.get<double>() != nullptr; }},
    {"number", 0, [](Context&, const Value& v, const Value&) { return v.as_number().has_value(); }},
    {"string", 0, [](Context&, const Value& v, const Value&) { return v.as_text() != nullptr; }},
    {"mapping", 0, [](Context&, const Value& v, const Value&) { return v.as_dict() != nullptr; }},
    {"iterable", 0, [](Context&, const Value& v, const Value&) { return is_iterable(v); }},
    {"sequence", 0, [](Context&, const Value& v, const Value&) { return is_sequence(v); }},
    {"callable", 0,
     [](Context&, const Value& v, const Value&) {
       return v.as_object() ? v.as_object()->callable() : v.is_undefined();
     }},
    {"escaped", 0,
     [](Context&, const Value& v, const Value&) { return v.as_text() && v.as_text()->safe; }},
    {"lower", 0, [](Context& c, const Value& v, const Value&) { return is_lower(to_text(c, v)); }},
    {"upper", 0, [](Context& c, const Value& v, const Value&) { return is_upper(to_text(c, v)); }},
    {"odd", 0,
     [](Context& c, const Value& v, const Value&) { return rest_is(c, v, int64_t{2}, 1); }},
    {"even", 0,
     [](Context& c, const Value& v, const Value&) { return rest_is(c, v, int64_t{2}, 0); }},
    {"divisibleby", 1,
     [](Context& c, const Value& v, const Value& by) { return rest_is(c, v, by, 0); }},
    {"sameas", 1, [](Context&, const Value& v, const Value& other) { return v.is_same(other); }},
    {"in", 1, compares<CompareOp::In>},
    {"==", 1, compares<CompareOp::Equal>},
    {"eq", 1, compares<CompareOp::Equal>},
    {"equalto", 1, compares<CompareOp::Equal>},
    {"!=", 1, compares<CompareOp::NotEqual>},
    {"ne", 1, compares<CompareOp::NotEqual>},
    {">", 1, compares<CompareOp::Greater>},
    {"gt", 1, compares<CompareOp::Greater>},
    {"greaterthan", 1, compares<CompareOp::Greater>},
    {">=", 1, compares<CompareOp::GreaterEqual>},
    {"ge", 1, compares<CompareOp::GreaterEqual>},
    {"<", 1, compares<CompareOp::Less>},
    {"lt", 1, compares<CompareOp::Less>},
    {"lessthan", 1, compares<CompareOp::Less>},
    {"<=", 1, compares<CompareOp::LessEqual>},
    {"le", 1, compares<CompareOp::LessEqual>},
    {"filter", 0, [](Context&, const Value& v, const Value&) { return is_filter(name_of(v)); }},
    {"test", 0, [](Context&, const Value& v, const Value&) { return exists(name_of(v)); }},
};

bool exists(std::string_view name) {
  return std::any_of(std::begin(kTests), std::end(kTests),
                     [&](const Test& test) { return test.name == name; });
}

}  // namespace

bool apply_test(Context& context, std::string_view name, const Value& input,
                const Arguments& arguments) {
  const auto test = std::find_if(std::begin(kTests), std::end(kTests),
                                 [&](const Test& one) { return one.name == name; });
  if (test == std::end(kTests)) context.fail("there is no test '", name, "'");
  const size_t given = arguments.positional.size() + arguments.named.size();
  if (given != test->arguments) {
    context.fail("the test '", name, "' takes ", test->arguments, " arguments, but ", given,
                 " are given");
  }
  context.spend(1);
  if (given == 0) return test->function(context, input, None{});
  const Value& other =
      arguments.positional.empty() ? arguments.named[0].second : arguments.positional[0];
  return test->function(context, input, other);
}

}  // namespace skald::jinja
