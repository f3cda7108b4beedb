// The state of one rendering for operators, filters and functions: current line, used resources,
// and creation of values. The limits keep a hostile template from exhausting time, stack or memory;
// exceeding a limit is an Error with the line. Must outlive every value that it created.
#pragma once

#include <cstdint>
#include <ctime>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.h"
#include "tokenizer/jinja/value.h"

namespace skald::jinja {

struct Limits {
  uint64_t steps = 20'000'000;       // evaluations; one step also covers 128 bytes of text
  size_t output = size_t{64} << 20;  // bytes of the output, and of each string
  size_t memory = size_t{512} << 20;
  int depth = 600;  // nested evaluations; one level of macro recursion takes about ten
};

class Context {
 public:
  Context(std::string source, const Limits& limits, std::optional<std::tm> now = {})
      : source_(std::move(source)), limits_(limits), now_(now) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();

  // All Errors of a rendering: "chat template: line 3: why".
  template <class... Parts>
  [[noreturn]] void fail(Parts&&... why) const {
    skald::fail(Exit::Failed, source_, ": line ", line, ": ", std::forward<Parts>(why)...);
  }

  void spend(uint64_t steps) {
    if (steps > limits_.steps - used_) out_of_steps();
    used_ += steps;
  }
  void spend_bytes(size_t bytes) { spend(1 + bytes / 128); }
  // Throws if a string of this length is too long; call before creating it
  void check_text(size_t bytes) const;
  void check_items(size_t items) const;

  Value text(std::string bytes, bool safe = false);
  Value like(const Value& source, std::string bytes);  // with the safe flag of `source`
  Value list(std::vector<Value> items, SequenceKind kind = SequenceKind::List);
  Value dict(Dict dict);
  Value pair(Value first, Value second);
  MemoryCharge charge(size_t bytes);  // accounts the memory of an object
  // Keeps an object that may contain itself, and releases it at the end.
  Value keep(std::shared_ptr<Object> object);

  // Counts one level of recursion during its lifetime.
  class Level {
   public:
    explicit Level(Context& context) : context_(context) {
      if (++context_.depth_ > context_.limits_.depth) context_.too_deep();
    }
    Level(const Level&) = delete;
    ~Level() { --context_.depth_; }

   private:
    Context& context_;
  };

  std::tm now() const;
  const Limits& limits() const { return limits_; }

  int line = 1;

 private:
  [[noreturn]] void out_of_steps() const;
  [[noreturn]] void too_deep() const;

  std::string source_;
  Limits limits_;
  std::optional<std::tm> now_;
  uint64_t used_ = 0;
  size_t live_ = 0;
  int depth_ = 0;
  std::vector<std::shared_ptr<Object>> cyclic_objects_;
};

// The arguments of a call, assigned to the parameters as in Python. Throws the Context's Error for
// an extra argument, an unknown name, or an argument given twice.
class Bound {
 public:
  Bound(Context& context, std::string_view function,
        std::initializer_list<std::string_view> parameters, const Arguments& arguments);

  bool has(size_t i) const { return values_[i].has_value(); }
  const Value& need(size_t i) const;
  Value or_else(size_t i, Value otherwise) const;
  int64_t integer(size_t i, int64_t otherwise) const;
  bool flag(size_t i, bool otherwise) const;
  const std::string& string(size_t i) const;           // must be a string
  const std::string* optional_string(size_t i) const;  // nullptr: missing or none

 private:
  Context& context_;
  std::string_view function_;
  std::vector<std::string_view> parameters_;
  std::vector<std::optional<Value>> values_;
};

}  // namespace skald::jinja
