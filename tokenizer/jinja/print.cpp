#include "tokenizer/jinja/print.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "tokenizer/jinja/unicode.h"

namespace skald::jinja {
namespace {

void append_hex(std::string& out, char kind, char32_t c, int digits) {
  out += '\\';
  out += kind;
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
    out += "0123456789abcdef"[(c >> shift) & 15];
  }
}

void append_quoted(std::string& out, std::string_view s) {
  const bool single =
      s.find('\'') == std::string_view::npos || s.find('"') != std::string_view::npos;
  const char quote = single ? '\'' : '"';
  out += quote;
  for (std::string_view character : split_characters(s)) {
    const char32_t c = first_character(character);
    if (character[0] == quote || c == '\\') {
      out += '\\';
      out += character;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (is_printable(c)) {
      out += character;
    } else if (c < 0x100) {
      append_hex(out, 'x', c, 2);
    } else if (c < 0x10000) {
      append_hex(out, 'u', c, 4);
    } else {
      append_hex(out, 'U', c, 8);
    }
  }
  out += quote;
}

class Printer {
 public:
  explicit Printer(Context& context) : context_(context) {}

  void print(const Value& value) {
    context_.spend(1);
    context_.check_text(out.size());
    if (const Text* text = value.as_text()) {
      context_.spend_bytes(text->bytes.size());
      if (text->safe) out += "Markup(";
      append_quoted(out, text->bytes);
      if (text->safe) out += ')';
    } else if (const Sequence* sequence = value.as_sequence()) {
      print_sequence(value, *sequence);
    } else if (const Dict* dict = value.as_dict()) {
      out += '{';
      for (const Dict::Entry& entry : dict->entries()) {
        if (&entry != dict->entries().data()) out += ", ";
        print(entry.key);
        out += ": ";
        print(entry.value);
      }
      out += '}';
    } else if (Object* object = value.as_object()) {
      out += object->print(context_);
    } else {
      print_scalar(value);
    }
  }

  std::string out;

 private:
  void print_scalar(const Value& value) {
    if (value.is_undefined()) {
      out += "Undefined";
    } else if (value.is_none()) {
      out += "None";
    } else if (const auto* b = value.get<bool>()) {
      out += *b ? "True" : "False";
    } else if (const auto* i = value.get<int64_t>()) {
      out += std::to_string(*i);
    } else {
      out += float_text(*value.get<double>());
    }
  }

  void print_sequence(const Value& value, const Sequence& sequence) {
    if (sequence.kind == SequenceKind::Iterator) {
      out += "<generator>";
      return;
    }
    if (sequence.kind == SequenceKind::Range) {
      const auto& items = sequence.items;
      const int64_t first = items.empty() ? 0 : *items.front().as_int();
      const int64_t step = items.size() < 2 ? 1 : *items[1].as_int() - first;
      const int64_t last = items.empty() ? 0 : *items.back().as_int() + step;
      out += concat("range(", first, ", ", last);
      if (step != 1) out += concat(", ", step);
      out += ')';
      return;
    }
    const bool tuple = sequence.kind == SequenceKind::Tuple;
    if (sequence.kind == SequenceKind::View) out += concat(value.type_name(), "(");
    out += tuple ? '(' : '[';
    bool first = true;
    for (const Value& item : sequence.items) {
      if (!first) out += ", ";
      first = false;
      print(item);
    }
    if (tuple && sequence.items.size() == 1) out += ',';
    out += tuple ? ')' : ']';
    if (sequence.kind == SequenceKind::View) out += ')';
  }

  Context& context_;
};

class JsonPrinter {
 public:
  JsonPrinter(Context& context, const JsonStyle& style) : context_(context), style_(style) {}

  void print(const Value& value) {
    context_.spend(1);
    context_.check_text(out.size());
    if (const Text* text = value.as_text()) {
      append_string(text->bytes);
    } else if (const Dict* dict = value.as_dict()) {
      print_dict(*dict);
    } else if (const Sequence* list = value.as_sequence();
               list && (list->kind == SequenceKind::List || list->kind == SequenceKind::Tuple)) {
      out += '[';
      ++level_;
      bool first = true;
      for (const Value& item : list->items) {
        separate(first);
        print(item);
      }
      close(']', list->items.empty());
    } else {
      out += scalar(value);
    }
  }

  std::string out;

 private:
  void separate(bool& first) {
    if (!first) out += style_.item_separator;
    first = false;
    new_line();
  }

  void new_line() {
    if (!style_.lines) return;
    context_.check_text(out.size() + style_.indent.size() * static_cast<size_t>(level_));
    context_.spend_bytes(style_.indent.size() * static_cast<size_t>(level_));
    out += '\n';
    for (int i = 0; i < level_; ++i) out += style_.indent;
  }

  void close(char bracket, bool empty) {
    --level_;
    if (!empty) new_line();
    out += bracket;
  }

  std::string scalar(const Value& value) {
    if (value.is_none()) return "null";
    if (const auto* b = value.get<bool>()) return *b ? "true" : "false";
    if (const auto* i = value.get<int64_t>()) return std::to_string(*i);
    if (const auto* d = value.get<double>()) {
      if (std::isnan(*d)) return "NaN";
      if (std::isinf(*d)) return *d > 0 ? "Infinity" : "-Infinity";
      return float_text(*d);
    }
    context_.fail("tojson: a value of type ", value.type_name(), " cannot be written as JSON");
  }

  void print_dict(const Dict& dict) {
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys) {
      for (const Dict::Entry* entry : entries) {
        if (!entry->key.as_text()) context_.fail("tojson: sort_keys needs strings as keys");
      }
      std::stable_sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) {
        return a->key.as_text()->bytes < b->key.as_text()->bytes;
      });
    }
    out += '{';
    ++level_;
    bool first = true;
    for (const Dict::Entry* entry : entries) {
      separate(first);
      const Text* name = entry->key.as_text();
      if (!name && entry->key.as_sequence())
        context_.fail("tojson: a tuple cannot be a key in JSON");
      append_string(name ? name->bytes : scalar(entry->key));
      out += style_.key_separator;
      print(entry->value);
    }
    close('}', entries.empty());
  }

  void append_string(std::string_view s) {
    context_.spend_bytes(s.size());
    out += '"';
    for (size_t i = 0; i < s.size(); ++i) {
      const auto byte = static_cast<unsigned char>(s[i]);
      constexpr std::string_view kShort = "\"\\\n\r\t\b\f", kNames = "\"\\nrtbf";
      if (const size_t at = kShort.find(s[i]); at != std::string_view::npos) {
        out += '\\';
        out += kNames[at];
      } else if (byte < 0x20) {
        append_hex(out, 'u', byte, 4);
      } else if (byte >= 0x7f && style_.ensure_ascii) {
        size_t end = i + 1;
        while (end < s.size() && (s[end] & 0xc0) == 0x80) ++end;
        append_ascii(first_character(s.substr(i)));
        i = end - 1;
      } else {
        out += s[i];
      }
    }
    out += '"';
  }

  void append_ascii(char32_t c) {
    if (c < 0x10000) return append_hex(out, 'u', c, 4);
    append_hex(out, 'u', 0xd800 + ((c - 0x10000) >> 10), 4);
    append_hex(out, 'u', 0xdc00 + ((c - 0x10000) & 0x3ff), 4);
  }

  Context& context_;
  const JsonStyle& style_;
  int level_ = 0;
};

}  // namespace

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  std::string_view all(buffer, static_cast<size_t>(end.ptr - buffer));
  std::string sign;
  if (all.front() == '-') {
    sign = "-";
    all.remove_prefix(1);
  }
  const size_t e = all.find('e');
  int exponent = 0;
  const size_t number = e + (all[e + 1] == '+' ? 2 : 1);
  std::from_chars(all.data() + number, all.data() + all.size(), exponent);
  std::string digits(1, all[0]);
  if (e > 1) digits += all.substr(2, e - 2);
  const int count = static_cast<int>(digits.size());
  // Python switches to the exponent form here.
  if (exponent < -4 || exponent >= 16) {
    std::string power = std::to_string(std::abs(exponent));
    if (power.size() < 2) power.insert(0, "0");
    if (count > 1) digits.insert(1, ".");
    return sign + digits + (exponent < 0 ? "e-" : "e+") + power;
  }
  if (exponent < 0) {
    return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  }
  if (count <= exponent + 1) {
    return sign + digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  }
  digits.insert(static_cast<size_t>(exponent + 1), ".");
  return sign + digits;
}

std::string to_text(Context& context, const Value& value) {
  if (const Text* text = value.as_text()) return text->bytes;
  if (value.is_undefined()) return "";
  return repr(context, value);
}

std::string repr(Context& context, const Value& value) {
  const Context::Level level(context);
  Printer printer(context);
  printer.print(value);
  context.check_text(printer.out.size());
  return std::move(printer.out);
}

std::string to_json(Context& context, const Value& value, const JsonStyle& style) {
  JsonPrinter printer(context, style);
  printer.print(value);
  context.check_text(printer.out.size());
  return std::move(printer.out);
}

}  // namespace skald::jinja
