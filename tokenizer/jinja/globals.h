// Names that every template can use: range, namespace, dict, joiner, cycler, and transformers'
// raise_exception and strftime_now.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/jinja/context.h"
#include "tokenizer/jinja/value.h"

namespace skald::jinja {

std::optional<Value> find_global(Context& context, std::string_view name);

// The only mutable value of a template.
class Namespace : public Object {
 public:
  explicit Namespace(MemoryCharge charge) : charge_(std::move(charge)) {}
  std::string_view type_name() const override { return "Namespace"; }
  std::optional<Value> attribute(Context& context, std::string_view name) override;
  std::string print(Context& context) override;
  void release() override { attributes_.clear(); }
  void set(Context& context, std::string_view name, Value value);

 private:
  std::vector<std::pair<std::string, Value>> attributes_;
  MemoryCharge charge_;
};

}  // namespace skald::jinja
