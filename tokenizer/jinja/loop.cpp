#include "tokenizer/jinja/loop.h"

#include "tokenizer/jinja/methods.h"

namespace skald::jinja {
namespace {

// loop.cycle(a, b): returns its arguments in turn, one for each iteration.
Value cycle(Context& context, const Value& self, const Arguments& arguments) {
  const auto& choices = arguments.positional;
  if (choices.empty()) context.fail("loop.cycle() needs at least one argument");
  const int64_t turn = *self.as_object()->attribute(context, "index0")->as_int();
  return choices[static_cast<size_t>(turn) % choices.size()];
}

}  // namespace

std::optional<Value> Loop::take() {
  const auto& items = source_.as_sequence()->items;
  while (at_ < items.size()) {
    const Value& item = items[at_++];
    if (!filter_ || filter_(item)) return item;
  }
  return std::nullopt;
}

const std::optional<Value>& Loop::peek() {
  if (!next_) next_ = take();
  return next_;
}

bool Loop::advance() {
  std::optional<Value> item = next_ ? std::exchange(next_, std::nullopt) : take();
  if (!item) return false;
  previous_ = std::exchange(current_, std::move(item));
  ++index0_;
  return true;
}

void Loop::finish() {
  filter_ = nullptr;
  at_ = source_.as_sequence()->items.size();
}

int64_t Loop::length(Context& context) {
  if (length_) return *length_;
  std::vector<Value> rest;
  while (std::optional<Value> item = next_ ? std::exchange(next_, std::nullopt) : take()) {
    rest.push_back(*std::move(item));
    context.check_items(rest.size());
  }
  length_ = index0_ + 1 + static_cast<int64_t>(rest.size());
  source_ = context.list(std::move(rest));
  filter_ = nullptr;
  at_ = 0;
  return *length_;
}

std::optional<Value> Loop::attribute(Context& context, std::string_view name) {
  if (name == "index") return index0_ + 1;
  if (name == "index0") return index0_;
  if (name == "first") return index0_ == 0;
  if (name == "last") return !peek().has_value();
  if (name == "length") return length(context);
  if (name == "revindex") return length(context) - index0_;
  if (name == "revindex0") return length(context) - index0_ - 1;
  if (name == "depth") return int64_t{1};
  if (name == "depth0") return int64_t{0};
  if (name == "previtem") {
    return previous_ ? *previous_ : Value::undefined("there is no previous item");
  }
  if (name == "nextitem") return peek() ? *peek() : Value::undefined("there is no next item");
  if (name == "cycle") {
    return Value(std::shared_ptr<Object>(std::make_shared<FunctionObject>(
        "cycle", cycle, Value(std::shared_ptr<Object>(shared_from_this())))));
  }
  return std::nullopt;
}

std::string Loop::print(Context& context) {
  return concat("<LoopContext ", index0_ + 1, "/", length(context), ">");
}

}  // namespace skald::jinja
