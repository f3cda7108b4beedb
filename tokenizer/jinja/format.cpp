// Python's formatting: "%s and %d" % (a, b), and "{} and {:>4}".format(a, b).
#include <cmath>
#include <cstdio>

#include "tokenizer/jinja/print.h"
#include "tokenizer/jinja/unicode.h"

namespace skald::jinja {
namespace {

constexpr int kMostWidth = 10'000;

struct Spec {
  bool left = false, plus = false, space = false, zero = false, other = false;
  bool center = false;
  std::string fill = " ";
  int width = 0, precision = -1;
  char type = 's';
};

void pad(std::string& out, const std::string& text, const Spec& spec) {
  const size_t size = characters(text);
  const size_t width = static_cast<size_t>(spec.width);
  const size_t missing = size < width ? width - size : 0;
  const size_t before = spec.left ? 0 : spec.center ? missing / 2 : missing;
  for (size_t i = 0; i < before; ++i) out += spec.fill;
  out += text;
  for (size_t i = before; i < missing; ++i) out += spec.fill;
}

// Writes a number with its sign, and with zeros between sign and digits if requested.
void pad_number(std::string& out, std::string digits, bool negative, const Spec& spec) {
  std::string sign = negative ? "-" : spec.plus ? "+" : spec.space ? " " : "";
  if (spec.zero && !spec.left) {
    const size_t size = sign.size() + digits.size();
    const size_t width = static_cast<size_t>(spec.width);
    if (size < width) digits.insert(0, width - size, '0');
  }
  pad(out, sign + digits, spec);
}

std::string in_base(uint64_t value, unsigned base, bool capital) {
  const char* all = capital ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string digits;
  do {
    digits.insert(digits.begin(), all[value % base]);
    value /= base;
  } while (value > 0);
  return digits;
}

void format_integer(std::string& out, int64_t value, const Spec& spec) {
  const uint64_t size =
      value < 0 ? ~static_cast<uint64_t>(value) + 1 : static_cast<uint64_t>(value);
  std::string digits;
  switch (spec.type) {
    case 'x':
    case 'X':
      digits = (spec.other ? (spec.type == 'x' ? "0x" : "0X") : "") +
               in_base(size, 16, spec.type == 'X');
      break;
    case 'o':
      digits = (spec.other ? "0o" : "") + in_base(size, 8, false);
      break;
    case 'b':
      digits = (spec.other ? "0b" : "") + in_base(size, 2, false);
      break;
    default:
      digits = std::to_string(size);
  }
  if (spec.precision > static_cast<int>(digits.size())) {
    digits.insert(0, static_cast<size_t>(spec.precision) - digits.size(), '0');
  }
  pad_number(out, std::move(digits), value < 0, spec);
}

void format_float(std::string& out, double value, const Spec& spec) {
  const char form[] = {'%', '.', '*', spec.type, '\0'};
  const double size = std::fabs(value);
  const int precision = spec.precision < 0 ? 6 : spec.precision;
  std::string digits(static_cast<size_t>(std::snprintf(nullptr, 0, form, precision, size)), '\0');
  std::snprintf(digits.data(), digits.size() + 1, form, precision, size);
  pad_number(out, std::move(digits), std::signbit(value), spec);
}

int read_number(Context& context, std::string_view format, size_t& at) {
  int value = 0;
  for (; at < format.size() && format[at] >= '0' && format[at] <= '9'; ++at) {
    value = 10 * value + (format[at] - '0');
    if (value > kMostWidth) context.fail("the format's width is larger than ", kMostWidth);
  }
  return value;
}

double need_number(Context& context, const Value& value, char type) {
  const auto number = value.as_number();
  if (!number) context.fail("%", type, " needs a number, found a ", value.type_name());
  return *number;
}

void format_one(Context& context, std::string& out, const Value& value, const Spec& spec) {
  switch (spec.type) {
    case 's':
    case 'r':
    case 'a': {
      std::string text = spec.type == 's' ? to_text(context, value) : repr(context, value);
      if (spec.precision >= 0) text.resize(byte_of(text, static_cast<size_t>(spec.precision)));
      return pad(out, text, spec);
    }
    case 'd':
    case 'i':
    case 'u': {
      const double number = need_number(context, value, spec.type);
      if (!(std::fabs(number) < 0x1p63)) context.fail("%d: the number does not fit in 64 bits");
      return format_integer(out, value.as_int().value_or(static_cast<int64_t>(number)), spec);
    }
    case 'x':
    case 'X':
    case 'o':
    case 'b':
      if (!value.as_int()) context.fail("%", spec.type, " needs a whole number");
      return format_integer(out, *value.as_int(), spec);
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
      return format_float(out, need_number(context, value, spec.type), spec);
    case 'c':
      if (const Text* text = value.as_text(); text && characters(text->bytes) == 1) {
        return pad(out, text->bytes, spec);
      }
      context.fail("%c needs a string of one character");
    default:
      context.fail("unknown format character '", spec.type, "'");
  }
}

class PercentFormatter {
 public:
  PercentFormatter(Context& context, std::string_view format, const Value& arguments)
      : context_(context), format_(format), arguments_(arguments) {
    const Sequence* tuple = arguments.as_sequence();
    if (tuple && tuple->kind == SequenceKind::Tuple) all_ = &tuple->items;
  }

  std::string run() {
    while (at_ < format_.size()) {
      const size_t percent = std::min(format_.find('%', at_), format_.size());
      out_ += format_.substr(at_, percent - at_);
      at_ = percent;
      if (at_ == format_.size()) break;
      ++at_;
      context_.spend(1);
      context_.check_text(out_.size());
      one();
    }
    const size_t given = all_ ? all_->size() : arguments_.as_dict() || named_ ? used_ : 1;
    const bool mapping = arguments_.as_dict() || arguments_.as_sequence();
    if (used_ < given && (all_ || !mapping)) {
      context_.fail("not all arguments are used by the format");
    }
    return std::move(out_);
  }

 private:
  const Value& take() {
    if (all_) {
      if (used_ == all_->size()) context_.fail("the format needs more arguments");
      return (*all_)[used_++];
    }
    if (used_++ > 0) context_.fail("the format needs more arguments");
    return arguments_;
  }

  void one() {
    Spec spec;
    const Value* value = nullptr;
    if (at_ < format_.size() && format_[at_] == '(') {
      const size_t end = format_.find(')', at_);
      const Dict* dict = arguments_.as_dict();
      if (end == std::string_view::npos || !dict) context_.fail("the format needs a dict");
      const std::string_view name = format_.substr(at_ + 1, end - at_ - 1);
      value = dict->find(name);
      if (!value) context_.fail("the format needs '", name, "'");
      at_ = end + 1;
      named_ = true;
    }
    for (; at_ < format_.size(); ++at_) {
      const char c = format_[at_];
      if (c == '-') {
        spec.left = true;
      } else if (c == '+') {
        spec.plus = true;
      } else if (c == ' ') {
        spec.space = true;
      } else if (c == '0') {
        spec.zero = true;
      } else if (c == '#') {
        spec.other = true;
      } else {
        break;
      }
    }
    spec.width = width_or_star(spec.left);
    if (at_ < format_.size() && format_[at_] == '.') {
      ++at_;
      bool ignored = false;
      spec.precision = width_or_star(ignored);
    }
    if (at_ == format_.size()) context_.fail("the format ends in the middle");
    spec.type = format_[at_++];
    if (spec.type == '%') {
      out_ += '%';
      return;
    }
    format_one(context_, out_, value ? *value : take(), spec);
  }

  int width_or_star(bool& left) {
    if (at_ >= format_.size() || format_[at_] != '*') return read_number(context_, format_, at_);
    ++at_;
    const auto width = take().as_int();
    if (!width || std::abs(*width) > kMostWidth)
      context_.fail("the format's width is not a number or too large");
    if (*width < 0) left = true;
    return static_cast<int>(std::abs(*width));
  }

  Context& context_;
  std::string_view format_;
  const Value& arguments_;
  const std::vector<Value>* all_ = nullptr;
  size_t at_ = 0, used_ = 0;
  bool named_ = false;
  std::string out_;
};

// Parses the part after the colon in {name:>8.2f}.
Spec read_spec(Context& context, std::string_view text, const Value& value) {
  Spec spec;
  const bool number = value.as_number().has_value();
  spec.left = !number;
  size_t at = 0;
  const auto characters_of = split_characters(text);
  const auto align = [&](std::string_view c) { return c == "<" || c == ">" || c == "^"; };
  if (characters_of.size() > 1 && align(characters_of[1])) {
    spec.fill = std::string(characters_of[0]);
    at = spec.fill.size();
  }
  if (at < text.size() && align(text.substr(at, 1))) {
    spec.left = text[at] == '<';
    spec.center = text[at] == '^';
    ++at;
  }
  if (at < text.size() && text[at] == '+') spec.plus = true, ++at;
  if (at < text.size() && text[at] == '#') spec.other = true, ++at;
  if (at < text.size() && text[at] == '0') spec.zero = true, ++at;
  spec.width = read_number(context, text, at);
  if (at < text.size() && text[at] == '.') spec.precision = read_number(context, text, ++at);
  spec.type = value.as_int() ? 'd' : 's';
  if (value.get<double>() && spec.precision >= 0) spec.type = 'g';
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size()) context.fail("the format '", text, "' is not supported");
  return spec;
}

}  // namespace

std::string percent_format(Context& context, std::string_view format, const Value& arguments) {
  return PercentFormatter(context, format, arguments).run();
}

std::string brace_format(Context& context, std::string_view format, const Arguments& arguments) {
  std::string out;
  size_t next = 0;
  for (size_t at = 0; at < format.size(); ++at) {
    const char c = format[at];
    const bool doubled = at + 1 < format.size() && format[at + 1] == c;
    if (c != '{' && c != '}') {
      out += c;
      continue;
    }
    if (doubled) {
      out += c;
      ++at;
      continue;
    }
    const size_t end = format.find('}', at);
    if (c == '}' || end == std::string_view::npos) context.fail("a format with a single '", c, "'");
    std::string_view field = format.substr(at + 1, end - at - 1);
    const size_t colon = std::min(field.find(':'), field.size());
    std::string_view name = field.substr(0, colon);
    const bool as_repr = name.ends_with("!r");
    if (as_repr || name.ends_with("!s")) name.remove_suffix(2);
    context.spend(1);
    context.check_text(out.size());
    const Value* value = nullptr;
    size_t digits = 0;
    const int number = read_number(context, name, digits);
    if (digits == name.size()) {
      const size_t i = name.empty() ? next++ : static_cast<size_t>(number);
      if (i < arguments.positional.size()) value = &arguments.positional[i];
    }
    for (const auto& [key, given] : arguments.named) {
      if (key == name) value = &given;
    }
    if (!value) context.fail("format() needs the argument '", name, "'");
    Value shown = *value;
    if (as_repr) shown = context.text(repr(context, *value));
    const std::string_view spec = field.substr(std::min(colon + 1, field.size()));
    format_one(context, out, shown, read_spec(context, spec, shown));
    at = end;
  }
  return out;
}

}  // namespace skald::jinja
