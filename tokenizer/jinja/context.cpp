#include "tokenizer/jinja/context.h"

#include <algorithm>

namespace skald::jinja {

void Context::out_of_steps() const {
  fail("the template takes more than ", limits_.steps, " steps; it may loop without end");
}

void Context::too_deep() const {
  fail("calls or blocks are nested more than ", limits_.depth,
       " deep; a macro may call itself without end");
}

Context::~Context() {
  for (const auto& object : cyclic_objects_) object->release();
}

Value Context::keep(std::shared_ptr<Object> object) {
  spend(1);
  cyclic_objects_.push_back(object);
  return object;
}

void Context::check_text(size_t bytes) const {
  if (bytes > limits_.output) {
    fail("a string of more than ", limits_.output, " bytes; the template's output is limited");
  }
}

void Context::check_items(size_t items) const {
  if (live_ > limits_.memory || items > (limits_.memory - live_) / sizeof(Value)) {
    fail("the template takes more than ", limits_.memory, " bytes of memory");
  }
}

MemoryCharge Context::charge(size_t bytes) {
  if (live_ > limits_.memory || bytes > limits_.memory - live_) {
    fail("the template takes more than ", limits_.memory, " bytes of memory");
  }
  return MemoryCharge(&live_, bytes);
}

Value Context::text(std::string bytes, bool safe) {
  check_text(bytes.size());
  spend_bytes(bytes.size());
  MemoryCharge charged = charge(sizeof(Text) + bytes.size());
  return std::shared_ptr<const Text>(
      std::make_shared<Text>(Text{std::move(bytes), safe, std::move(charged)}));
}

Value Context::like(const Value& source, std::string bytes) {
  const Text* text = source.as_text();
  return this->text(std::move(bytes), text && text->safe);
}

Value Context::list(std::vector<Value> items, SequenceKind kind) {
  check_items(items.size());
  spend(1 + items.size() / 2);
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  if (depth >= kMostValueDepth) {
    fail("lists are nested more than ", kMostValueDepth, " deep");
  }
  MemoryCharge charged = charge(sizeof(Sequence) + items.size() * sizeof(Value));
  return std::shared_ptr<const Sequence>(
      std::make_shared<Sequence>(Sequence{kind, std::move(items), depth + 1, std::move(charged)}));
}

Value Context::dict(Dict dict) {
  spend(1 + dict.size());
  if (dict.depth() > kMostValueDepth) {
    fail("dicts are nested more than ", kMostValueDepth, " deep");
  }
  dict.charge(charge(sizeof(Dict) + dict.size() * 4 * sizeof(Value)));
  return Value::dict(std::move(dict));
}

Value Context::pair(Value first, Value second) {
  std::vector<Value> both;
  both.reserve(2);
  both.push_back(std::move(first));
  both.push_back(std::move(second));
  return list(std::move(both), SequenceKind::Tuple);
}

std::tm Context::now() const {
  if (now_) return *now_;
  const std::time_t seconds = std::time(nullptr);
  std::tm parts = {};
  localtime_r(&seconds, &parts);
  return parts;
}

Bound::Bound(Context& context, std::string_view function,
             std::initializer_list<std::string_view> parameters, const Arguments& arguments)
    : context_(context), function_(function), parameters_(parameters), values_(parameters.size()) {
  if (arguments.positional.size() > values_.size()) {
    context.fail(function, "() takes at most ", values_.size(), " arguments, but ",
                 arguments.positional.size(), " are given");
  }
  std::copy(arguments.positional.begin(), arguments.positional.end(), values_.begin());
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(parameters_.begin(), parameters_.end(), name);
    if (found == parameters_.end()) {
      context.fail(function, "() has no argument '", name, "'");
    }
    auto& slot = values_[static_cast<size_t>(found - parameters_.begin())];
    if (slot) context.fail(function, "() is given '", name, "' twice");
    slot = value;
  }
}

const Value& Bound::need(size_t i) const {
  if (!values_[i]) context_.fail(function_, "() needs the argument '", parameters_[i], "'");
  return *values_[i];
}

Value Bound::or_else(size_t i, Value otherwise) const {
  return values_[i] ? *values_[i] : std::move(otherwise);
}

int64_t Bound::integer(size_t i, int64_t otherwise) const {
  if (!values_[i]) return otherwise;
  const auto whole = values_[i]->as_int();
  if (!whole) {
    context_.fail(function_, "(): '", parameters_[i], "' is a ", values_[i]->type_name(),
                  ", expected a whole number");
  }
  return *whole;
}

bool Bound::flag(size_t i, bool otherwise) const {
  return values_[i] ? values_[i]->truthy() : otherwise;
}

const std::string& Bound::string(size_t i) const {
  const Text* text = need(i).as_text();
  if (!text) {
    context_.fail(function_, "(): '", parameters_[i], "' is a ", need(i).type_name(),
                  ", expected a string");
  }
  return text->bytes;
}

const std::string* Bound::optional_string(size_t i) const {
  return !values_[i] || values_[i]->is_none() ? nullptr : &string(i);
}

}  // namespace skald::jinja
