#include "tokenizer/jinja/value.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tokenizer/jinja/context.h"

namespace skald::jinja {
namespace {

constexpr size_t kIndexFrom = 12;  // entries; smaller dicts are searched linearly

// A string that is equal for equal keys and different for others; nullopt if the value cannot be a
// key. The recursion over tuples is bounded by the depth of values.
std::optional<std::string> canonical(const Value& key) {
  if (const Text* text = key.as_text()) return "s" + text->bytes;
  if (const auto number = key.as_number()) {
    const auto whole = key.as_int();
    if (whole) return "i" + std::to_string(*whole);
    if (std::floor(*number) == *number && std::fabs(*number) < 0x1p63) {
      return "i" + std::to_string(static_cast<int64_t>(*number));
    }
    std::string bytes(1 + sizeof(double), 'f');
    std::memcpy(bytes.data() + 1, &*number, sizeof(double));
    return bytes;
  }
  if (key.is_none()) return "n";
  if (const Sequence* tuple = key.as_sequence(); tuple && tuple->kind == SequenceKind::Tuple) {
    std::string all = "t";
    for (const Value& item : tuple->items) {
      const auto part = canonical(item);
      if (!part) return std::nullopt;
      all += std::to_string(part->size()) + ":" + *part;
    }
    return all;
  }
  return std::nullopt;
}

}  // namespace

Value Value::text(std::string utf8) {
  return std::shared_ptr<const Text>(std::make_shared<Text>(Text{std::move(utf8)}));
}

Value Value::list(std::vector<Value> items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return std::shared_ptr<const Sequence>(
      std::make_shared<Sequence>(Sequence{SequenceKind::List, std::move(items), depth + 1}));
}

Value Value::dict(Dict dict) {
  return std::shared_ptr<const Dict>(std::make_shared<Dict>(std::move(dict)));
}

Value Value::undefined(std::string why) {
  return Value(Undefined{std::make_shared<const std::string>(std::move(why))});
}

const Text* Value::as_text() const {
  const auto* p = get<std::shared_ptr<const Text>>();
  return p ? p->get() : nullptr;
}

const Sequence* Value::as_sequence() const {
  const auto* p = get<std::shared_ptr<const Sequence>>();
  return p ? p->get() : nullptr;
}

const Dict* Value::as_dict() const {
  const auto* p = get<std::shared_ptr<const Dict>>();
  return p ? p->get() : nullptr;
}

Object* Value::as_object() const {
  const auto* p = get<std::shared_ptr<Object>>();
  return p ? p->get() : nullptr;
}

std::optional<int64_t> Value::as_int() const {
  if (const auto* i = get<int64_t>()) return *i;
  if (const auto* b = get<bool>()) return *b;
  return std::nullopt;
}

std::optional<double> Value::as_number() const {
  if (const auto* d = get<double>()) return *d;
  if (const auto i = as_int()) return static_cast<double>(*i);
  return std::nullopt;
}

bool Value::truthy() const {
  if (is_undefined() || is_none()) return false;
  if (const auto number = as_number()) return *number != 0;
  if (const Text* text = as_text()) return !text->bytes.empty();
  if (const Dict* dict = as_dict()) return dict->size() > 0;
  const Sequence* sequence = as_sequence();
  return !sequence || sequence->kind == SequenceKind::Iterator || !sequence->items.empty();
}

int Value::depth() const {
  if (const Sequence* sequence = as_sequence()) return sequence->depth;
  if (const Dict* dict = as_dict()) return dict->depth();
  if (const Object* object = as_object()) return object->depth();
  return 0;
}

std::string_view Value::type_name() const {
  if (is_undefined()) return "Undefined";
  if (is_none()) return "NoneType";
  if (get<bool>()) return "bool";
  if (get<int64_t>()) return "int";
  if (get<double>()) return "float";
  if (as_text()) return "str";
  if (as_dict()) return "dict";
  if (const Object* object = as_object()) return object->type_name();
  switch (as_sequence()->kind) {
    case SequenceKind::List:
      return "list";
    case SequenceKind::Tuple:
      return "tuple";
    case SequenceKind::Range:
      return "range";
    case SequenceKind::View:
      return "dict view";
    case SequenceKind::Iterator:
      return "generator";
  }
  return "";
}

bool Value::is_same(const Value& other) const {
  if (data_.index() != other.data_.index()) return false;
  if (const auto* b = get<bool>()) return *b == *other.get<bool>();
  if (const auto* i = get<int64_t>()) return *i == *other.get<int64_t>();
  if (as_text()) return as_text() == other.as_text();
  if (as_sequence()) return as_sequence() == other.as_sequence();
  if (as_dict()) return as_dict() == other.as_dict();
  if (as_object()) return as_object() == other.as_object();
  return is_none();
}

const Value* Dict::find(std::string_view key) const {
  if (entries_.size() >= kIndexFrom) {
    const auto found = index_.find("s" + std::string(key));
    return found == index_.end() ? nullptr : &entries_[found->second].value;
  }
  for (const Entry& entry : entries_) {
    const Text* text = entry.key.as_text();
    if (text && text->bytes == key) return &entry.value;
  }
  return nullptr;
}

const Value* Dict::find(const Value& key) const {
  if (const Text* text = key.as_text()) return find(std::string_view(text->bytes));
  const auto wanted = canonical(key);
  if (!wanted) return nullptr;
  if (entries_.size() >= kIndexFrom) {
    const auto found = index_.find(*wanted);
    return found == index_.end() ? nullptr : &entries_[found->second].value;
  }
  for (const Entry& entry : entries_) {
    if (!entry.key.as_text() && canonical(entry.key) == wanted) return &entry.value;
  }
  return nullptr;
}

bool Dict::set(Value key, Value value) {
  const auto name = canonical(key);
  if (!name) return false;
  depth_ = std::max({depth_, key.depth() + 1, value.depth() + 1});
  if (const Value* old = find(key)) {
    *const_cast<Value*>(old) = std::move(value);
    return true;
  }
  entries_.push_back({std::move(key), std::move(value)});
  if (entries_.size() > kIndexFrom) {
    index_.emplace(*name, entries_.size() - 1);
  } else if (entries_.size() == kIndexFrom) {
    for (size_t i = 0; i < entries_.size(); ++i) index_.emplace(*canonical(entries_[i].key), i);
  }
  return true;
}

void Dict::set(std::string_view key, Value value) {
  set(Value::text(std::string(key)), std::move(value));
}

Value Object::call(Context& context, const Arguments&) {
  context.fail("'", type_name(), "' object is not callable");
}

std::optional<Value> Object::attribute(Context&, std::string_view) { return std::nullopt; }

std::string Object::print(Context&) { return "<" + std::string(type_name()) + ">"; }

}  // namespace skald::jinja
