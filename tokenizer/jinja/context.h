// One run of a template, as seen by operators, filters and functions: where it is, what it may
// still use, and how it makes values. Its limits keep a hostile template from using up time, stack
// or memory; each that is reached is an Error with the line. Outlives every value that it made.
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
  uint64_t steps = 20'000'000;       // evaluations, and for texts one step per 128 bytes
  size_t output = size_t{64} << 20;  // bytes, also of any one text
  size_t memory = size_t{512} << 20;
  int depth = 600;  // of evaluations in each other: a macro that calls itself takes about ten
};

class Context {
 public:
  Context(std::string source, const Limits& limits, std::optional<std::tm> now = {})
      : source_(std::move(source)), limits_(limits), now_(now) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();

  // Every Error of a run: "chat template: line 3: why".
  template <class... Parts>
  [[noreturn]] void fail(Parts&&... why) const {
    skald::fail(Exit::Failed, source_, ": line ", line, ": ", std::forward<Parts>(why)...);
  }

  void spend(uint64_t steps) {
    if (steps > limits_.steps - used_) out_of_steps();
    used_ += steps;
  }
  void spend_bytes(size_t bytes) { spend(1 + bytes / 128); }
  void check_text(size_t bytes) const;  // may a text be this long? Ask before it is made.
  void check_items(size_t items) const;

  Value text(std::string bytes, bool safe = false);
  Value like(const Value& source, std::string bytes);  // as safe as the text `source`
  Value list(std::vector<Value> items, SequenceKind kind = SequenceKind::List);
  Value dict(Dict dict);
  Value pair(Value first, Value second);
  Held hold(size_t bytes);  // of an object
  // Keeps an object that may come to hold itself, and releases it in the end.
  Value keep(std::shared_ptr<Object> object);

  // One level of recursion for as long as it lives.
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
  std::vector<std::shared_ptr<Object>> kept_;
};

// Arguments of a call by the names of the parameters, as Python sorts them; a Context's Error for
// one too many, an unknown name, or one given twice.
class Bound {
 public:
  Bound(Context& context, std::string_view function,
        std::initializer_list<std::string_view> parameters, const Arguments& arguments);

  bool has(size_t i) const { return values_[i].has_value(); }
  const Value& need(size_t i) const;
  Value or_else(size_t i, Value otherwise) const;
  int64_t integer(size_t i, int64_t otherwise) const;
  bool flag(size_t i, bool otherwise) const;
  const std::string& string(size_t i) const;           // must be there, and a text
  const std::string* optional_string(size_t i) const;  // nullptr: not given, or none

 private:
  Context& context_;
  std::string_view function_;
  std::vector<std::string_view> parameters_;
  std::vector<std::optional<Value>> values_;
};

}  // namespace skald::jinja
