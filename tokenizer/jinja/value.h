// The values of templates: Python's types, as far as Jinja exposes them. A Value is small and cheap
// to copy. Strings, lists and dicts are shared and immutable, so no list can contain itself, and
// depth() bounds every recursion over a value. Only a Namespace is mutable; its creator must call
// release() at the end.
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

// How deep lists and dicts may be nested, in input and in values that a template creates.
inline constexpr int kMostValueDepth = 128;

// Memory that counts against a template's limit during the lifetime of this object.
class MemoryCharge {
 public:
  MemoryCharge() = default;
  MemoryCharge(size_t* live, size_t bytes) : live_(live), bytes_(bytes) { *live_ += bytes_; }
  MemoryCharge(MemoryCharge&& other) noexcept
      : live_(std::exchange(other.live_, nullptr)), bytes_(other.bytes_) {}
  MemoryCharge& operator=(MemoryCharge&&) = delete;
  ~MemoryCharge() {
    if (live_) *live_ -= bytes_;
  }

 private:
  size_t* live_ = nullptr;
  size_t bytes_ = 0;
};

struct None {};

// A missing name, attribute or element. It prints as nothing; most other uses throw an Error with
// the message `why`.
struct Undefined {
  std::shared_ptr<const std::string> why;
};

enum class SequenceKind : uint8_t {
  List,
  Tuple,
  Range,
  View,      // d.keys(), d.values(), d.items(): no access by index
  Iterator,  // result of map, select and others: truthy even if empty, iterated once
};

class Value {
 public:
  Value() : Value(None{}) {}
  Value(None) : data_(None{}) {}
  template <std::same_as<bool> B>  // does not accept pointers
  Value(B b) : data_(b) {}
  Value(int64_t i) : data_(i) {}
  Value(double d) : data_(d) {}
  explicit Value(Undefined u) : data_(std::move(u)) {}
  Value(std::shared_ptr<const Text> t) : data_(std::move(t)) {}
  Value(std::shared_ptr<const Sequence> s) : data_(std::move(s)) {}
  Value(std::shared_ptr<const Dict> d) : data_(std::move(d)) {}
  Value(std::shared_ptr<Object> o) : data_(std::move(o)) {}

  // Values without a memory limit, for input that is read before a template runs. While a template
  // runs, Context creates the values.
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
  const Text* as_text() const;  // nullptr if the value has another type; same for the next ones
  const Sequence* as_sequence() const;  // any SequenceKind
  const Dict* as_dict() const;
  Object* as_object() const;

  // The number that an integer or bool stands for; nullopt for other types.
  std::optional<int64_t> as_int() const;
  std::optional<double> as_number() const;  // also for a float

  bool truthy() const;
  int depth() const;                       // 0 for numbers and texts
  std::string_view type_name() const;      // Python's name: "str", "NoneType"
  bool is_same(const Value& other) const;  // Python's `is`

 private:
  std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const Text>,
               std::shared_ptr<const Sequence>, std::shared_ptr<const Dict>,
               std::shared_ptr<Object>>
      data_;
};

struct Text {
  std::string bytes;  // valid UTF-8
  bool safe = false;  // result of `escape` or `safe`: strings added to it are escaped
  MemoryCharge charge = {};
};

struct Sequence {
  SequenceKind kind = SequenceKind::List;
  std::vector<Value> items;
  int depth = 1;
  MemoryCharge charge = {};
  mutable bool used = false;  // an Iterator that was iterated
};

// Keeps the insertion order. Keys are equal as in Python: 1, 1.0 and True are one key.
class Dict {
 public:
  struct Entry {
    Value key, value;
  };
  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  const Value* find(std::string_view key) const;  // nullptr: no such key
  const Value* find(const Value& key) const;
  bool set(Value key, Value value);  // false: the key's type is not allowed (a list, a dict)
  void set(std::string_view key, Value value);
  int depth() const { return depth_; }
  void charge(MemoryCharge charge) {
    charge_ = std::make_shared<const MemoryCharge>(std::move(charge));
  }

 private:
  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> index_;  // only for large dicts; by canonical key
  int depth_ = 1;
  std::shared_ptr<const MemoryCharge> charge_;
};

// Values other than plain data: namespaces, macros, functions, methods, `loop`.
struct Object {
  virtual ~Object() = default;
  virtual std::string_view type_name() const = 0;
  virtual int depth() const { return 1; }
  virtual bool callable() const { return false; }
  virtual Value call(Context& context, const Arguments& arguments);
  virtual std::optional<Value> attribute(Context& context, std::string_view name);
  virtual std::string print(Context& context);
  virtual void release() {}  // drops references that may lead back to this object
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

}  // namespace skald::jinja
