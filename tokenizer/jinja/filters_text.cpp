// Filters that return strings and numbers.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "tokenizer/jinja/filters.h"
#include "tokenizer/jinja/operators.h"
#include "tokenizer/jinja/print.h"
#include "tokenizer/jinja/unicode.h"

namespace skald::jinja {
namespace {

// The input as a string. A string keeps its `safe` flag.
Value soft(Context& context, const Value& input) {
  return input.as_text() ? input : context.text(to_text(context, input));
}

const std::string& bytes(const Value& text) { return text.as_text()->bytes; }

std::string title_by_words(std::string_view s) {
  constexpr std::string_view kBreaks = "-({[<";
  std::string out;
  bool begins = true;
  for (std::string_view c : split_characters(s)) {
    const bool breaks = kBreaks.find(c) != std::string_view::npos || is_space(first_character(c));
    out += breaks ? std::string(c) : begins ? upper(c) : lower(c);
    begins = breaks;
  }
  return out;
}

template <std::string (*change)(std::string_view)>
Value changed(Context& context, const Value& input, const Arguments& arguments) {
  const Bound none(context, "the filter", {}, arguments);
  const Value text = soft(context, input);
  context.spend_bytes(4 * bytes(text).size());
  return context.like(text, change(bytes(text)));
}

Value trim(Context& context, const Value& input, const Arguments& arguments) {
  const Bound bound(context, "trim", {"chars"}, arguments);
  const Value text = soft(context, input);
  return context.like(text, std::string(strip(bytes(text), bound.optional_string(0))));
}

Value replace(Context& context, const Value& input, const Arguments& arguments) {
  const Bound bound(context, "replace", {"old", "new", "count"}, arguments);
  const int64_t most = bound.has(2) && bound.need(2).is_none() ? -1 : bound.integer(2, -1);
  return context.text(replace_text(context, to_text(context, input),
                                   to_text(context, bound.need(0)), to_text(context, bound.need(1)),
                                   most));
}

Value string_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound none(context, "string", {}, arguments);
  return soft(context, input);
}

Value safe(Context& context, const Value& input, const Arguments& arguments) {
  const Bound none(context, "safe", {}, arguments);
  return context.text(to_text(context, input), true);
}

Value escape(Context& context, const Value& input, const Arguments& arguments) {
  const Bound none(context, "escape", {}, arguments);
  if (input.as_text() && input.as_text()->safe) return input;
  return context.text(escape_html(to_text(context, input)), true);
}

Value forceescape(Context& context, const Value& input, const Arguments& arguments) {
  const Bound none(context, "forceescape", {}, arguments);
  return context.text(escape_html(to_text(context, input)), true);
}

Value indent(Context& context, const Value& input, const Arguments& arguments) {
  const Bound bound(context, "indent", {"width", "first", "blank"}, arguments);
  if (!input.as_text()) context.fail("indent: a ", input.type_name(), " is not a string");
  const bool blank = bound.flag(2, false);
  std::string by;
  if (bound.has(0) && bound.need(0).as_text()) {
    by = bound.string(0);
  } else {
    const int64_t width = std::max<int64_t>(bound.integer(0, 4), 0);
    context.check_text(static_cast<size_t>(width));
    by.assign(static_cast<size_t>(width), ' ');
  }
  const std::string all = bytes(input) + "\n";
  context.spend_bytes(4 * all.size());
  std::string out = bound.flag(1, false) ? by : "";
  bool begins = true;
  for (std::string_view line : split_lines(all)) {
    if (!begins) out += '\n';
    if (!begins && (blank || !line.empty())) out += by;
    begins = false;
    out += line;
    context.check_text(out.size());
    context.spend_bytes(by.size());
  }
  return context.like(input, std::move(out));
}

Value truncate(Context& context, const Value& input, const Arguments& arguments) {
  const Bound bound(context, "truncate", {"length", "killwords", "end", "leeway"}, arguments);
  const Value text = soft(context, input);
  const std::string end = bound.has(2) ? bound.string(2) : "...";
  const int64_t most = bound.integer(0, 255);
  const int64_t leeway = bound.has(3) && bound.need(3).is_none() ? 5 : bound.integer(3, 5);
  const int64_t shown = most - static_cast<int64_t>(characters(end));
  if (shown < 0 || leeway < 0) context.fail("truncate: a length of ", most, " is too small");
  context.spend_bytes(4 * bytes(text).size());
  if (static_cast<int64_t>(characters(bytes(text))) - leeway <= most) return text;
  std::string out = bytes(text).substr(0, byte_of(bytes(text), static_cast<size_t>(shown)));
  if (!bound.flag(1, false)) out.resize(std::min(out.rfind(' '), out.size()));
  return context.like(text, out + end);
}

Value center(Context& context, const Value& input, const Arguments& arguments) {
  const Bound bound(context, "center", {"width"}, arguments);
  const Arguments width{{bound.integer(0, 80)}, {}};
  return get_attribute(context, soft(context, input), "center").as_object()->call(context, width);
}

Value wordcount(Context& context, const Value& input, const Arguments& arguments) {
  const Bound none(context, "wordcount", {}, arguments);
  const Value text = soft(context, input);
  context.spend_bytes(8 * bytes(text).size());
  int64_t count = 0;
  bool inside = false;
  for (std::string_view c : split_characters(bytes(text))) {
    const bool word = c == "_" || all_are(c, CharacterClass::Alnum);
    count += word && !inside ? 1 : 0;
    inside = word;
  }
  return count;
}

Value format(Context& context, const Value& input, const Arguments& arguments) {
  const Value text = soft(context, input);
  if (!arguments.named.empty()) {
    Dict named;
    for (const auto& [name, value] : arguments.named) named.set(name, value);
    return context.like(text, percent_format(context, bytes(text), context.dict(std::move(named))));
  }
  const Value all = context.list(arguments.positional, SequenceKind::Tuple);
  return context.like(text, percent_format(context, bytes(text), all));
}

Value tojson(Context& context, const Value& input, const Arguments& arguments) {
  const Bound bound(context, "tojson", {"ensure_ascii", "indent", "separators", "sort_keys"},
                    arguments);
  JsonStyle style;
  style.ensure_ascii = bound.flag(0, false);
  style.sort_keys = bound.flag(3, false);
  if (bound.has(1) && !bound.need(1).is_none()) {
    style.lines = true;
    style.item_separator = ",";
    if (bound.need(1).as_text()) {
      style.indent = bound.string(1);
    } else {
      const int64_t width = std::max<int64_t>(bound.integer(1, 0), 0);
      context.check_text(static_cast<size_t>(width));
      style.indent.assign(static_cast<size_t>(width), ' ');
    }
  }
  if (bound.has(2) && !bound.need(2).is_none()) {
    const Sequence* both = bound.need(2).as_sequence();
    if (!both || both->items.size() != 2 || !both->items[0].as_text() ||
        !both->items[1].as_text()) {
      context.fail("tojson: separators must be two strings");
    }
    style.item_separator = bytes(both->items[0]);
    style.key_separator = bytes(both->items[1]);
  }
  return context.text(to_json(context, input, style));
}

// Reads numbers as Python's int() and float() do: spaces around, underscores between digits.
std::optional<std::string> number_text(std::string_view text) {
  std::string out;
  text = strip(text);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) {
      return at < text.size() && std::isxdigit(static_cast<unsigned char>(text[at]));
    };
    if (text[i] != '_') {
      out += text[i];
    } else if (i == 0 || !digit(i - 1) || !digit(i + 1)) {
      return std::nullopt;
    }
  }
  if (out.starts_with('+')) out.erase(0, 1);
  if (out.empty() || out[0] == '+') return std::nullopt;
  return out;
}

std::optional<int64_t> parse_int(std::string_view text, int base) {
  auto digits = number_text(text);
  if (!digits) return std::nullopt;
  const bool negative = digits->starts_with('-');
  size_t begin = negative ? 1 : 0;
  const char kind = digits->size() > begin + 2 && (*digits)[begin] == '0'
                        ? static_cast<char>((*digits)[begin + 1] | 0x20)
                        : ' ';
  const int named = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
  if (named != 0 && (base == named || base == 0)) begin += 2, base = named;
  if (base == 0) base = 10;
  const std::string rest = (negative ? "-" : "") + digits->substr(begin);
  int64_t value = 0;
  const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), value, base);
  if (parsed.ec != std::errc() || parsed.ptr != rest.data() + rest.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_float(std::string_view text) {
  const auto digits = number_text(text);
  if (!digits) return std::nullopt;
  const std::string low = lower(*digits);
  const size_t begin = low.starts_with('-') ? 1 : 0;
  std::string_view name = std::string_view(low).substr(begin);
  const bool word = name == "inf" || name == "infinity" || name == "nan";
  if (!word && name.find_first_not_of("0123456789.e+-") != std::string_view::npos) {
    return std::nullopt;
  }
  char* end = nullptr;
  const double value = std::strtod(low.c_str(), &end);
  if (end != low.c_str() + low.size()) return std::nullopt;
  return value;
}

Value int_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound bound(context, "int", {"default", "base"}, arguments);
  need_defined(context, input);
  const int64_t base = bound.integer(1, 10);
  if (base != 0 && (base < 2 || base > 36)) context.fail("int: there is no base ", base);
  if (const auto whole = input.as_int()) return *whole;
  std::optional<double> number = input.as_number();
  if (const Text* text = input.as_text()) {
    if (const auto parsed = parse_int(text->bytes, static_cast<int>(base))) return *parsed;
    number = parse_float(text->bytes);
  }
  if (!number || !std::isfinite(*number)) return bound.or_else(0, int64_t{0});
  if (!(std::fabs(*number) < 0x1p63)) context.fail("int: a whole number beyond 64 bits");
  return static_cast<int64_t>(*number);
}

Value float_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound bound(context, "float", {"default"}, arguments);
  need_defined(context, input);
  std::optional<double> number = input.as_number();
  if (const Text* text = input.as_text()) number = parse_float(text->bytes);
  if (number) return *number;
  return bound.or_else(0, 0.0);
}

Value abs_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound none(context, "abs", {}, arguments);
  need_defined(context, input);
  if (const auto whole = input.as_int()) {
    return *whole < 0 ? unary(context, UnaryOp::Minus, *whole) : Value(*whole);
  }
  if (!input.as_number()) context.fail("abs: a ", input.type_name(), " is not a number");
  return std::fabs(*input.as_number());
}

Value round_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound bound(context, "round", {"precision", "method"}, arguments);
  const std::string method = bound.has(1) ? bound.string(1) : "common";
  need_defined(context, input);
  if (!input.as_number()) context.fail("round: a ", input.type_name(), " is not a number");
  const int64_t precision = std::clamp<int64_t>(bound.integer(0, 0), -300, 300);
  const double value = *input.as_number();
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (method == "ceil") return std::ceil(value * scale) / scale;
  if (method == "floor") return std::floor(value * scale) / scale;
  if (method != "common") context.fail("round: the method must be common, ceil or floor");
  if (input.as_int() && precision >= 0) return *input.as_int();
  if (!std::isfinite(value)) return value;
  if (precision < 0) {
    const double rounded = std::nearbyint(value * scale) / scale;
    if (input.as_int()) return static_cast<int64_t>(rounded);
    return rounded;
  }
  char buffer[700];  // 309 digits, a point and 300 digits
  std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(precision), value);
  return std::strtod(buffer, nullptr);
}

constexpr NamedFilter kTextFilters[] = {
    {"abs", abs_filter},          {"capitalize", changed<capitalize>},
    {"center", center},           {"e", escape},
    {"escape", escape},           {"float", float_filter},
    {"forceescape", forceescape}, {"format", format},
    {"indent", indent},           {"int", int_filter},
    {"lower", changed<lower>},    {"replace", replace},
    {"round", round_filter},      {"safe", safe},
    {"string", string_filter},    {"title", changed<title_by_words>},
    {"tojson", tojson},           {"trim", trim},
    {"truncate", truncate},       {"upper", changed<upper>},
    {"wordcount", wordcount},
};

}  // namespace

std::span<const NamedFilter> text_filters() { return kTextFilters; }

}  // namespace skald::jinja
