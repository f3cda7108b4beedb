#include "tokenizer/jinja/operators.h"

#include <algorithm>
#include <cmath>

#include "tokenizer/jinja/print.h"
#include "tokenizer/jinja/unicode.h"

namespace skald::jinja {
namespace {

const char* symbol(BinaryOp op) {
  switch (op) {
    case BinaryOp::Add:
      return "+";
    case BinaryOp::Subtract:
      return "-";
    case BinaryOp::Multiply:
      return "*";
    case BinaryOp::Divide:
      return "/";
    case BinaryOp::FloorDivide:
      return "//";
    case BinaryOp::Modulo:
      return "%";
    case BinaryOp::Power:
      return "**";
  }
  return "";
}

[[noreturn]] void overflow(Context& context) { context.fail("a whole number beyond 64 bits"); }

int64_t power(Context& context, int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (true) {
    if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) overflow(context);
    exponent >>= 1;
    if (exponent == 0) return result;
    if (__builtin_mul_overflow(base, base, &base)) overflow(context);
  }
}

Value integers(Context& context, BinaryOp op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case BinaryOp::Add:
      if (__builtin_add_overflow(a, b, &result)) overflow(context);
      return result;
    case BinaryOp::Subtract:
      if (__builtin_sub_overflow(a, b, &result)) overflow(context);
      return result;
    case BinaryOp::Multiply:
      if (__builtin_mul_overflow(a, b, &result)) overflow(context);
      return result;
    case BinaryOp::Power:
      if (b >= 0) return power(context, a, b);
      if (a == 0) context.fail("0 to a negative power");
      return std::pow(static_cast<double>(a), static_cast<double>(b));
    default:
      break;
  }
  if (b == 0) context.fail("division by zero");
  if (op == BinaryOp::Divide) return static_cast<double>(a) / static_cast<double>(b);
  if (b == -1) {  // the only quotient that may overflow, which traps in hardware
    if (op == BinaryOp::Modulo) return int64_t{0};
    if (__builtin_sub_overflow(int64_t{0}, a, &result)) overflow(context);
    return result;
  }
  const bool down = a % b != 0 && (a < 0) != (b < 0);  // Python rounds down, C++ towards zero
  if (op == BinaryOp::FloorDivide) return a / b - (down ? 1 : 0);
  return a % b + (down ? b : 0);
}

Value floats(Context& context, BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::Add:
      return a + b;
    case BinaryOp::Subtract:
      return a - b;
    case BinaryOp::Multiply:
      return a * b;
    case BinaryOp::Power:
      if (a == 0 && b < 0) context.fail("0 to a negative power");
      if (a < 0 && std::floor(b) != b) context.fail("a fractional power of a negative number");
      return std::pow(a, b);
    default:
      break;
  }
  if (b == 0) context.fail("division by zero");
  if (op == BinaryOp::Divide) return a / b;
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  if (op == BinaryOp::Modulo) return rest == 0 ? std::copysign(0.0, b) : rest;
  return std::floor((a - rest) / b + 0.5);
}

Value repeat(Context& context, const Value& what, int64_t times) {
  const size_t count = times < 0 ? 0 : static_cast<size_t>(times);
  if (const Text* text = what.as_text()) {
    const size_t size = text->bytes.size();
    if (size > 0) context.check_text(count > SIZE_MAX / size ? SIZE_MAX : count * size);
    std::string out;
    if (size > 0) out.reserve(count * size);
    for (size_t i = 0; size > 0 && i < count; ++i) out += text->bytes;
    return context.like(what, std::move(out));
  }
  const Sequence& sequence = *what.as_sequence();
  const size_t size = sequence.items.size();
  if (size > 0) context.check_items(count > SIZE_MAX / size ? SIZE_MAX : count * size);
  std::vector<Value> items;
  for (size_t i = 0; size > 0 && i < count; ++i) {
    items.insert(items.end(), sequence.items.begin(), sequence.items.end());
  }
  return context.list(std::move(items), sequence.kind);
}

bool can_repeat(const Value& value) {
  const Sequence* sequence = value.as_sequence();
  return value.as_text() || (sequence && (sequence->kind == SequenceKind::List ||
                                          sequence->kind == SequenceKind::Tuple));
}

Value add_texts(Context& context, const Text& a, const Text& b) {
  const bool safe = a.safe || b.safe;
  context.check_text(a.bytes.size() + b.bytes.size());
  std::string out = safe && !a.safe ? escape_html(a.bytes) : a.bytes;
  out += safe && !b.safe ? escape_html(b.bytes) : b.bytes;
  return context.text(std::move(out), safe);
}

}  // namespace

bool equal(Context& context, const Value& a, const Value& b) {
  context.spend(1);
  if (const auto x = a.as_number(), y = b.as_number(); x && y) {
    if (a.as_int() && b.as_int()) return *a.as_int() == *b.as_int();
    return *x == *y;
  }
  if (const Text* x = a.as_text(), *y = b.as_text(); x && y) return x->bytes == y->bytes;
  if (const Sequence* x = a.as_sequence(), *y = b.as_sequence(); x && y) {
    if (x == y) return true;
    const bool data = x->kind != SequenceKind::Iterator && x->kind == y->kind;
    if (!data || x->items.size() != y->items.size()) return false;
    for (size_t i = 0; i < x->items.size(); ++i) {
      if (!equal(context, x->items[i], y->items[i])) return false;
    }
    return true;
  }
  if (const Dict* x = a.as_dict(), *y = b.as_dict(); x && y) {
    if (x == y) return true;
    if (x->size() != y->size()) return false;
    for (const Dict::Entry& entry : x->entries()) {
      const Value* other = y->find(entry.key);
      if (!other || !equal(context, entry.value, *other)) return false;
    }
    return true;
  }
  if (a.is_undefined() && b.is_undefined()) return true;
  return a.is_same(b);
}

bool less(Context& context, const Value& a, const Value& b) {
  context.spend(1);
  if (const auto x = a.as_number(), y = b.as_number(); x && y) {
    if (a.as_int() && b.as_int()) return *a.as_int() < *b.as_int();
    return *x < *y;
  }
  // UTF-8 bytes have the order of the code points.
  if (const Text* x = a.as_text(), *y = b.as_text(); x && y) return x->bytes < y->bytes;
  const Sequence *x = a.as_sequence(), *y = b.as_sequence();
  if (x && y && x->kind == y->kind &&
      (x->kind == SequenceKind::List || x->kind == SequenceKind::Tuple)) {
    const size_t both = std::min(x->items.size(), y->items.size());
    for (size_t i = 0; i < both; ++i) {
      if (!equal(context, x->items[i], y->items[i])) {
        return less(context, x->items[i], y->items[i]);
      }
    }
    return x->items.size() < y->items.size();
  }
  need_defined(context, a);
  need_defined(context, b);
  context.fail("'<' is not supported between ", a.type_name(), " and ", b.type_name());
}

bool compare(Context& context, CompareOp op, const Value& a, const Value& b) {
  const auto nan = [](const Value& v) { return v.get<double>() && std::isnan(*v.get<double>()); };
  switch (op) {
    case CompareOp::Equal:
      return equal(context, a, b);
    case CompareOp::NotEqual:
      return !equal(context, a, b);
    case CompareOp::Less:
      return less(context, a, b);
    case CompareOp::Greater:
      return less(context, b, a);
    case CompareOp::LessEqual:
      return !less(context, b, a) && !nan(a) && !nan(b);
    case CompareOp::GreaterEqual:
      return !less(context, a, b) && !nan(a) && !nan(b);
    case CompareOp::In:
      return contains(context, b, a);
    case CompareOp::NotIn:
      return !contains(context, b, a);
  }
  return false;
}

bool contains(Context& context, const Value& container, const Value& item) {
  if (const Text* text = container.as_text()) {
    const Text* part = item.as_text();
    if (!part)
      context.fail("'in' of a string needs a string on its left, found ", item.type_name());
    context.spend_bytes(text->bytes.size());
    return text->bytes.find(part->bytes) != std::string::npos;
  }
  if (const Dict* dict = container.as_dict()) return dict->find(item) != nullptr;
  const Value all = to_sequence(context, container);
  const auto& items = all.as_sequence()->items;
  return std::any_of(items.begin(), items.end(),
                     [&](const Value& one) { return equal(context, one, item); });
}

Value binary(Context& context, BinaryOp op, const Value& a, const Value& b) {
  if (const auto x = a.as_number(), y = b.as_number(); x && y) {
    if (a.as_int() && b.as_int()) return integers(context, op, *a.as_int(), *b.as_int());
    return floats(context, op, *x, *y);
  }
  const Text *x = a.as_text(), *y = b.as_text();
  if (op == BinaryOp::Modulo && x) {
    return context.like(a, percent_format(context, x->bytes, b));
  }
  need_defined(context, a);
  need_defined(context, b);
  if (op == BinaryOp::Add && x && y) return add_texts(context, *x, *y);
  if (op == BinaryOp::Add && can_repeat(a) && can_repeat(b) && !x && !y &&
      a.as_sequence()->kind == b.as_sequence()->kind) {
    const auto &first = a.as_sequence()->items, &second = b.as_sequence()->items;
    context.check_items(first.size() + second.size());
    std::vector<Value> items = first;
    items.insert(items.end(), second.begin(), second.end());
    return context.list(std::move(items), a.as_sequence()->kind);
  }
  if (op == BinaryOp::Multiply && can_repeat(a) && b.as_int()) {
    return repeat(context, a, *b.as_int());
  }
  if (op == BinaryOp::Multiply && can_repeat(b) && a.as_int()) {
    return repeat(context, b, *a.as_int());
  }
  context.fail("'", symbol(op), "' is not supported between ", a.type_name(), " and ",
               b.type_name());
}

Value unary(Context& context, UnaryOp op, const Value& a) {
  if (op == UnaryOp::Not) return !a.truthy();
  need_defined(context, a);
  if (const auto i = a.as_int()) {
    if (op == UnaryOp::Plus) return *i;
    return integers(context, BinaryOp::Subtract, 0, *i);
  }
  if (const auto* d = a.get<double>()) return op == UnaryOp::Plus ? *d : -*d;
  context.fail("a sign is not supported before a ", a.type_name());
}

std::string replace_text(Context& context, std::string_view text, std::string_view what,
                         std::string_view by, int64_t most) {
  context.spend_bytes(4 * text.size());
  std::string out;
  const auto more = [&] { return most < 0 || most-- > 0; };
  if (what.empty()) {
    for (std::string_view c : split_characters(text)) {
      if (more()) out += by;
      out += c;
      context.check_text(out.size());
    }
    if (more()) out += by;
    return out;
  }
  for (size_t at; (at = text.find(what)) != std::string_view::npos && more();) {
    out += text.substr(0, at);
    out += by;
    context.check_text(out.size());
    text.remove_prefix(at + what.size());
  }
  out += text;
  return out;
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace skald::jinja
