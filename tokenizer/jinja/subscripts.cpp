// Lookup of attributes, elements and slices, and the elements of a loop.
#include <algorithm>

#include "tokenizer/jinja/methods.h"
#include "tokenizer/jinja/operators.h"
#include "tokenizer/jinja/unicode.h"

namespace skald::jinja {
namespace {

std::optional<int64_t> position(Context& context, const Value& value) {
  if (value.is_none()) return std::nullopt;
  const auto whole = value.as_int();
  if (!whole) context.fail("a slice index is a ", value.type_name(), ", expected whole numbers");
  return whole;
}

}  // namespace

void need_defined(Context& context, const Value& value) {
  if (const auto* undefined = value.get<Undefined>()) context.fail(*undefined->why);
}

Value get_attribute(Context& context, const Value& object, std::string_view name) {
  need_defined(context, object);
  if (Object* o = object.as_object()) {
    if (auto found = o->attribute(context, name)) return *found;
  }
  if (auto method = find_method(context, object, name)) return *method;
  if (const Dict* dict = object.as_dict()) {
    if (const Value* found = dict->find(name)) return *found;
  }
  const std::string type = object.is_none() ? "None" : concat(object.type_name(), " object");
  return Value::undefined(concat("'", type, "' has no attribute '", name, "'"));
}

Value get_item(Context& context, const Value& object, const Value& key) {
  need_defined(context, object);
  const auto whole = key.as_int();
  if (const Dict* dict = object.as_dict()) {
    if (const Value* found = dict->find(key)) return *found;
  } else if (const Text* text = object.as_text(); text && whole) {
    context.spend_bytes(text->bytes.size());
    const int64_t size = static_cast<int64_t>(characters(text->bytes));
    const int64_t at = *whole < 0 ? *whole + size : *whole;
    if (at >= 0 && at < size) {
      const std::string_view rest =
          std::string_view(text->bytes).substr(byte_of(text->bytes, static_cast<size_t>(at)));
      return context.like(object, std::string(rest.substr(0, byte_of(rest, 1))));
    }
  } else if (const Sequence* sequence = object.as_sequence(); sequence && whole) {
    const int64_t size = static_cast<int64_t>(sequence->items.size());
    const int64_t at = *whole < 0 ? *whole + size : *whole;
    const bool numbered =
        sequence->kind != SequenceKind::View && sequence->kind != SequenceKind::Iterator;
    if (numbered && at >= 0 && at < size) return sequence->items[static_cast<size_t>(at)];
  }
  if (const Text* name = key.as_text()) return get_attribute(context, object, name->bytes);
  return Value::undefined(concat("'", object.type_name(), " object' has no element ",
                                 whole ? std::to_string(*whole) : concat("by ", key.type_name())));
}

Value slice(Context& context, const Value& object, const Value& start, const Value& stop,
            const Value& step) {
  need_defined(context, object);
  const Text* text = object.as_text();
  const Sequence* sequence = object.as_sequence();
  const bool numbered =
      sequence && sequence->kind != SequenceKind::View && sequence->kind != SequenceKind::Iterator;
  if (!text && !numbered) context.fail("a ", object.type_name(), " cannot be sliced");
  std::vector<std::string_view> parts;
  if (text) {
    context.spend_bytes(8 * text->bytes.size());
    context.check_items(text->bytes.size());
    parts = split_characters(text->bytes);
  }
  const int64_t size = static_cast<int64_t>(text ? parts.size() : sequence->items.size());
  const int64_t by = position(context, step).value_or(1);
  if (by == 0) context.fail("a slice with step 0");
  const int64_t least = by > 0 ? 0 : -1, most = by > 0 ? size : size - 1;
  const auto bound = [&](const Value& value, int64_t otherwise) {
    const auto given = position(context, value);
    if (!given) return otherwise;
    // A number below -size has the same effect as -size - 1.
    const int64_t at = *given < 0 ? std::max(*given, -size - 1) + size : *given;
    return std::clamp(at, least, most);
  };
  const int64_t from = bound(start, by > 0 ? least : most);
  const int64_t to = bound(stop, by > 0 ? most : least);
  std::string out;
  std::vector<Value> items;
  const uint64_t distance = by > 0 ? static_cast<uint64_t>(std::max<int64_t>(to - from, 0))
                                   : static_cast<uint64_t>(std::max<int64_t>(from - to, 0));
  const uint64_t stride = by > 0 ? static_cast<uint64_t>(by) : ~static_cast<uint64_t>(by) + 1;
  for (uint64_t i = 0; i < distance; i += std::min(stride, distance)) {
    const int64_t at = by > 0 ? from + static_cast<int64_t>(i) : from - static_cast<int64_t>(i);
    if (text) {
      out += parts[static_cast<size_t>(at)];
    } else {
      items.push_back(sequence->items[static_cast<size_t>(at)]);
    }
  }
  return text ? context.like(object, std::move(out))
              : context.list(std::move(items), sequence->kind);
}

int64_t length(Context& context, const Value& value) {
  if (const Text* text = value.as_text()) {
    context.spend_bytes(text->bytes.size());
    return static_cast<int64_t>(characters(text->bytes));
  }
  if (const Dict* dict = value.as_dict()) return static_cast<int64_t>(dict->size());
  if (value.is_undefined()) return 0;
  const Sequence* sequence = value.as_sequence();
  if (sequence && sequence->kind != SequenceKind::Iterator) {
    return static_cast<int64_t>(sequence->items.size());
  }
  context.fail("a ", value.type_name(), " has no length");
}

Value to_sequence(Context& context, const Value& value) {
  if (const Sequence* sequence = value.as_sequence()) {
    if (sequence->kind != SequenceKind::Iterator) return value;
    if (sequence->used) return context.list({});
    sequence->used = true;
    return value;
  }
  std::vector<Value> items;
  if (const Dict* dict = value.as_dict()) {
    context.check_items(dict->size());
    for (const Dict::Entry& entry : dict->entries()) items.push_back(entry.key);
  } else if (const Text* text = value.as_text()) {
    context.check_items(text->bytes.size());
    for (std::string_view c : split_characters(text->bytes)) {
      items.push_back(context.text(std::string(c)));
    }
  } else if (!value.is_undefined()) {
    context.fail("a ", value.type_name(), " is not iterable");
  }
  return context.list(std::move(items));
}

}  // namespace skald::jinja
