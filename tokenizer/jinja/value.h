// What a template computes with: Python's values, as far as Jinja shows them. A Value is small and
// cheap to copy; texts, lists and dicts are shared and never change once made, so that no list can
// contain itself and depth() bounds every recursion over a value. Only a Namespace changes, and
// whoever makes one calls release() on it in the end.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace skald::jinja {

class Context;
class Dict;
class Value;
struct Arguments;
struct Object;
struct Sequence;
struct Text;

// How deep lists and dicts may lie in each other, in what is read and in what a template makes.
inline constexpr int kMostValueDepth = 128;

// Memory that counts against a template's limit for as long as this lives.
class Held {
 public:
  Held() = default;
  Held(size_t* live, size_t bytes) : live_(live), bytes_(bytes) { *live_ += bytes_; }
  Held(Held&& other) noexcept : live_(std::exchange(other.live_, nullptr)), bytes_(other.bytes_) {}
  Held& operator=(Held&&) = delete;
  ~Held() {
    if (live_) *live_ -= bytes_;
  }

 private:
  size_t* live_ = nullptr;
  size_t bytes_ = 0;
};

struct None {};

// A name, attribute or element that is not there. It prints as nothing; most other uses are errors
// that say `why`.
struct Undefined {
  std::shared_ptr<const std::string> why;
};

enum class SequenceKind : uint8_t {
  List,
  Tuple,
  Range,
  View,      // d.keys(), d.values(), d.items(): no elements by number
  Iterator,  // what map, select and others return: true even when empty, can be gone over once
};

class Value {
 public:
  Value() : Value(None{}) {}
  Value(None) : data_(None{}) {}
  template <std::same_as<bool> B>  // a pointer is none
  Value(B b) : data_(b) {}
  Value(int64_t i) : data_(i) {}
  Value(double d) : data_(d) {}
  explicit Value(Undefined u) : data_(std::move(u)) {}
  Value(std::shared_ptr<const Text> t) : data_(std::move(t)) {}
  Value(std::shared_ptr<const Sequence> s) : data_(std::move(s)) {}
  Value(std::shared_ptr<const Dict> d) : data_(std::move(d)) {}
  Value(std::shared_ptr<Object> o) : data_(std::move(o)) {}

  // Without a limit on memory: for what is read before a template runs. While it runs, Context
  // makes them.
  static Value text(std::string utf8);
  static Value list(std::vector<Value> items);
  static Value dict(Dict dict);
  static Value undefined(std::string why);

  template <class T>
  const T* get() const {
    return std::get_if<T>(&data_);
  }
  bool is_undefined() const { return get<Undefined>() != nullptr; }
  bool is_none() const { return get<None>() != nullptr; }
  const Text* as_text() const;          // nullptr when it is none; so the others
  const Sequence* as_sequence() const;  // of any kind
  const Dict* as_dict() const;
  Object* as_object() const;

  // The number that a whole number or a bool is; nullopt for others.
  std::optional<int64_t> as_int() const;
  std::optional<double> as_number() const;  // also of a float

  bool truthy() const;
  int depth() const;                       // 0 for numbers and texts
  std::string_view type_name() const;      // as Python says it: "str", "NoneType"
  bool is_same(const Value& other) const;  // Python's `is`

 private:
  std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const Text>,
               std::shared_ptr<const Sequence>, std::shared_ptr<const Dict>,
               std::shared_ptr<Object>>
      data_;
};

struct Text {
  std::string bytes;  // valid UTF-8
  bool safe = false;  // went through `escape` or `safe`: what is added to it gets escaped
  Held held = {};
};

struct Sequence {
  SequenceKind kind = SequenceKind::List;
  std::vector<Value> items;
  int depth = 1;
  Held held = {};
  mutable bool used = false;  // an Iterator that was gone over
};

// Keeps the order in which keys came. Keys are equal as in Python: 1, 1.0 and True are one key.
class Dict {
 public:
  struct Entry {
    Value key, value;
  };
  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  const Value* find(std::string_view key) const;  // nullptr when there is none
  const Value* find(const Value& key) const;
  bool set(Value key, Value value);  // false: such a key cannot be (a list, a dict)
  void set(std::string_view key, Value value);
  int depth() const { return depth_; }
  void hold(Held held) { held_ = std::make_shared<const Held>(std::move(held)); }

 private:
  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> index_;  // of a large one, by canonical key
  int depth_ = 1;
  std::shared_ptr<const Held> held_;
};

// Whatever is no plain data: namespaces, macros, functions, methods, `loop`.
struct Object {
  virtual ~Object() = default;
  virtual std::string_view type_name() const = 0;
  virtual int depth() const { return 1; }
  virtual bool callable() const { return false; }
  virtual Value call(Context& context, const Arguments& arguments);
  virtual std::optional<Value> attribute(Context& context, std::string_view name);
  virtual std::string print(Context& context);
  virtual void release() {}  // lets go of what may hold this object in turn
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

}  // namespace skald::jinja
