#include "tokenizer/jinja/globals.h"

#include <algorithm>
#include <ctime>

#include "tokenizer/jinja/methods.h"
#include "tokenizer/jinja/operators.h"
#include "tokenizer/jinja/print.h"
#include "tokenizer/text/utf8.h"

namespace skald::jinja {
namespace {

constexpr size_t kMostAttributes = 10'000;  // limit of a namespace; lookup is linear
constexpr int64_t kMostRange = 100'000;     // the limit of Jinja's sandbox

Value range(Context& context, const Value&, const Arguments& arguments) {
  const Bound bound(context, "range", {"start", "stop", "step"}, arguments);
  const bool one = !bound.has(1);
  bound.need(0);
  const int64_t start = one ? 0 : bound.integer(0, 0);
  const int64_t stop = one ? bound.integer(0, 0) : bound.integer(1, 0);
  const int64_t step = bound.integer(2, 1);
  if (step == 0) context.fail("range() with step 0");
  std::vector<Value> items;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<int64_t>(items.size()) == kMostRange) {
      context.fail("range() of more than ", kMostRange, " numbers");
    }
    items.push_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return context.list(std::move(items), SequenceKind::Range);
}

// Implements dict(a=1), dict({...}, b=2), dict([[key, value], ...]).
Dict make_dict(Context& context, const Arguments& arguments) {
  Dict dict;
  const auto set = [&](const Value& key, const Value& value) {
    context.spend(1);
    if (!dict.set(key, value)) context.fail("a ", key.type_name(), " cannot be a key");
  };
  if (arguments.positional.size() > 1) context.fail("dict() takes at most one positional argument");
  if (!arguments.positional.empty()) {
    const Value& from = arguments.positional[0];
    if (const Dict* other = from.as_dict()) {
      for (const Dict::Entry& entry : other->entries()) set(entry.key, entry.value);
    } else {
      const Value pairs = to_sequence(context, from);
      for (const Value& pair : pairs.as_sequence()->items) {
        const Value both = to_sequence(context, pair);
        const auto& items = both.as_sequence()->items;
        if (items.size() != 2) context.fail("dict() needs pairs of key and value");
        set(items[0], items[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) set(context.text(name), value);
  return dict;
}

Value dict(Context& context, const Value&, const Arguments& arguments) {
  return context.dict(make_dict(context, arguments));
}

Value make_namespace(Context& context, const Value&, const Arguments& arguments) {
  const Dict attributes = make_dict(context, arguments);
  auto made = std::make_shared<Namespace>(context.charge(sizeof(Namespace) + 64));
  for (const Dict::Entry& entry : attributes.entries()) {
    if (!entry.key.as_text()) context.fail("namespace(): the names of attributes must be strings");
    made->set(context, entry.key.as_text()->bytes, entry.value);
  }
  return context.keep(std::move(made));
}

Value raise_exception(Context& context, const Value&, const Arguments& arguments) {
  const Bound bound(context, "raise_exception", {"message"}, arguments);
  context.fail("the template refuses these messages: ", to_text(context, bound.need(0)));
}

Value strftime_now(Context& context, const Value&, const Arguments& arguments) {
  const Bound bound(context, "strftime_now", {"format"}, arguments);
  const std::string format = bound.string(0) + " ";  // so that the result is never empty
  if (format.size() > 1000) context.fail("strftime_now(): the format is too long");
  const std::tm now = context.now();
  std::string out(20 * format.size() + 100, '\0');
  out.resize(std::strftime(out.data(), out.size(), format.c_str(), &now));
  if (!out.empty()) out.pop_back();
  if (!utf8_valid(out)) context.fail("strftime_now(): the date is not valid UTF-8");
  return context.text(std::move(out));
}

// joiner(", ") prints nothing on its first call, and its string on later calls.
struct Joiner : Object {
  explicit Joiner(Value separator_) : separator(std::move(separator_)) {}
  std::string_view type_name() const override { return "Joiner"; }
  int depth() const override { return separator.depth() + 1; }
  bool callable() const override { return true; }
  Value call(Context& context, const Arguments&) override {
    return std::exchange(used, true) ? separator : context.text("");
  }

  Value separator;
  bool used = false;
};

Value joiner(Context& context, const Value&, const Arguments& arguments) {
  const Bound bound(context, "joiner", {"sep"}, arguments);
  context.spend(1);
  return std::shared_ptr<Object>(std::make_shared<Joiner>(bound.or_else(0, context.text(", "))));
}

struct Cycler : Object, std::enable_shared_from_this<Cycler> {
  explicit Cycler(Value items_) : items(std::move(items_)) {}
  std::string_view type_name() const override { return "Cycler"; }
  int depth() const override { return items.depth() + 1; }
  std::optional<Value> attribute(Context& context, std::string_view name) override;
  const Value& current() const { return items.as_sequence()->items[at]; }

  Value items;
  size_t at = 0;
};

Value cycler_next(Context&, const Value& self, const Arguments&) {
  Cycler& cycler = static_cast<Cycler&>(*self.as_object());
  const Value now = cycler.current();
  cycler.at = (cycler.at + 1) % cycler.items.as_sequence()->items.size();
  return now;
}

Value cycler_reset(Context&, const Value& self, const Arguments&) {
  static_cast<Cycler&>(*self.as_object()).at = 0;
  return None{};
}

std::optional<Value> Cycler::attribute(Context&, std::string_view name) {
  if (name == "current") return current();
  const Function function = name == "next" ? cycler_next : name == "reset" ? cycler_reset : nullptr;
  if (!function) return std::nullopt;
  return Value(std::shared_ptr<Object>(std::make_shared<FunctionObject>(
      "cycler", function, Value(std::shared_ptr<Object>(shared_from_this())))));
}

Value cycler(Context& context, const Value&, const Arguments& arguments) {
  if (arguments.positional.empty()) context.fail("cycler() needs at least one argument");
  return std::shared_ptr<Object>(std::make_shared<Cycler>(context.list(arguments.positional)));
}

struct Global {
  std::string_view name;
  Function function;
};

constexpr Global kGlobals[] = {
    {"range", range},
    {"dict", dict},
    {"namespace", make_namespace},
    {"joiner", joiner},
    {"cycler", cycler},
    {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
};

}  // namespace

std::optional<Value> find_global(Context&, std::string_view name) {
  for (const Global& global : kGlobals) {
    if (global.name != name) continue;
    return Value(std::shared_ptr<Object>(
        std::make_shared<FunctionObject>(global.name, global.function, None{})));
  }
  return std::nullopt;
}

std::optional<Value> Namespace::attribute(Context& context, std::string_view name) {
  context.spend(attributes_.size() / 16);
  for (const auto& [key, value] : attributes_) {
    if (key == name) return value;
  }
  return std::nullopt;
}

std::string Namespace::print(Context& context) {
  Dict all;
  for (const auto& [name, value] : attributes_) all.set(name, value);
  return "<Namespace " + repr(context, context.dict(std::move(all))) + ">";
}

void Namespace::set(Context& context, std::string_view name, Value value) {
  if (name.starts_with('_')) {
    context.fail("a namespace's attribute cannot begin with '_': '", name, "'");
  }
  context.spend(attributes_.size() / 16);
  for (auto& [key, old] : attributes_) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  if (attributes_.size() == kMostAttributes) {
    context.fail("a namespace of more than ", kMostAttributes, " attributes");
  }
  attributes_.emplace_back(name, std::move(value));
}

}  // namespace skald::jinja
