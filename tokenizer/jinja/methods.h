// Python's methods of strings, dicts and lists that do not modify the object.
#pragma once

#include <optional>
#include <string_view>

#include "tokenizer/jinja/context.h"
#include "tokenizer/jinja/value.h"

namespace skald::jinja {

// A function or method as a value.
using Function = Value (*)(Context& context, const Value& self, const Arguments& arguments);

struct FunctionObject : Object {
  FunctionObject(std::string_view name_, Function function_, Value self_)
      : name(name_), function(function_), self(std::move(self_)) {}
  std::string_view type_name() const override { return "builtin_function_or_method"; }
  int depth() const override { return self.depth() + 1; }
  bool callable() const override { return true; }
  Value call(Context& context, const Arguments& arguments) override {
    return function(context, self, arguments);
  }

  std::string_view name;
  Function function;
  Value self;  // None: a function
};

// nullopt: the type has no such method. A method that would modify the object (append, pop) gives
// an undefined value whose message says so, as in transformers.
std::optional<Value> find_method(Context& context, const Value& object, std::string_view name);

}  // namespace skald::jinja
