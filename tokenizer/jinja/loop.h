// `loop` inside {% for %}: iterates over a sequence, with access to the previous and next element.
// The loop's filter is evaluated as late as possible, because the body may change its result.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "tokenizer/jinja/context.h"
#include "tokenizer/jinja/value.h"

namespace skald::jinja {

class Loop : public Object, public std::enable_shared_from_this<Loop> {
 public:
  using Filter = std::function<bool(const Value&)>;

  Loop(Value sequence, Filter filter) : source_(std::move(sequence)), filter_(std::move(filter)) {}

  bool advance();  // to the next element; false past the last
  const Value& current() const { return *current_; }
  void finish();  // after the loop: the filter is not evaluated any more

  std::string_view type_name() const override { return "LoopContext"; }
  int depth() const override { return source_.depth() + 1; }
  std::optional<Value> attribute(Context& context, std::string_view name) override;
  std::string print(Context& context) override;

 private:
  std::optional<Value> take();
  const std::optional<Value>& peek();
  int64_t length(Context& context);

  Value source_;
  Filter filter_;
  size_t at_ = 0;  // index in source_ of the next element to filter
  std::optional<Value> previous_, current_, next_;
  int64_t index0_ = -1;
  std::optional<int64_t> length_;
};

}  // namespace skald::jinja
