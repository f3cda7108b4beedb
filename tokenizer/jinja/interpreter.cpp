// The part of the interpreter that runs statements.
#include "tokenizer/jinja/interpreter.h"

#include <algorithm>

#include "tokenizer/jinja/globals.h"
#include "tokenizer/jinja/loop.h"
#include "tokenizer/jinja/operators.h"
#include "tokenizer/jinja/print.h"

namespace skald::jinja {

class MacroObject : public Object {
 public:
  MacroObject(Interpreter& interpreter, std::shared_ptr<const Callable> callable,
              MemoryCharge charge)
      : interpreter_(interpreter),
        callable_(std::move(callable)),
        frame_(interpreter.frame_),
        charge_(std::move(charge)) {}

  std::string_view type_name() const override { return "Macro"; }
  bool callable() const override { return true; }
  Value call(Context&, const Arguments& arguments) override {
    return interpreter_.call_macro(*callable_, frame_, arguments);
  }
  std::string print(Context&) override { return concat("<Macro '", callable_->name, "'>"); }
  void release() override { frame_ = nullptr; }

 private:
  Interpreter& interpreter_;
  std::shared_ptr<const Callable> callable_;
  // The frame of the definition, which may contain this object
  std::shared_ptr<Interpreter::Frame> frame_;
  MemoryCharge charge_;
};

class Interpreter::Inside {
 public:
  Inside(Interpreter& interpreter, std::shared_ptr<Frame> parent) : interpreter_(interpreter) {
    auto frame = std::make_shared<Frame>();
    frame->parent = std::move(parent);
    outer_ = std::exchange(interpreter.frame_, std::move(frame));
  }
  Inside(const Inside&) = delete;
  ~Inside() { interpreter_.frame_ = std::move(outer_); }

 private:
  Interpreter& interpreter_;
  std::shared_ptr<Frame> outer_;
};

const Value* Interpreter::Frame::find(Name name, Context& context) const {
  for (const Frame* frame = this; frame; frame = frame->parent.get()) {
    context.spend(frame->variables.size() / 16);
    for (const auto& [known, value] : frame->variables) {
      if (known == name) return &value;
    }
  }
  return nullptr;
}

void Interpreter::Frame::set(Name name, Value value) {
  for (auto& [known, old] : variables) {
    if (known == name) {
      old = std::move(value);
      return;
    }
  }
  variables.emplace_back(name, std::move(value));
}

std::string Interpreter::run() {
  std::string out;
  out_ = &out;
  run_block(tree_.body);
  return out;
}

Interpreter::Flow Interpreter::run_block(const Block& block) {
  const Context::Level level(context_);
  const int line = context_.line;
  for (const Statement& statement : block) {
    context_.spend(1);
    context_.line = statement.line;
    const Flow flow = std::visit([&](const auto& node) { return run(node); }, statement.node);
    if (flow != Flow::Next) return flow;
  }
  context_.line = line;
  return Flow::Next;
}

void Interpreter::write(std::string_view text) {
  context_.check_text(out_->size() + text.size());
  context_.spend_bytes(text.size());
  *out_ += text;
}

std::string Interpreter::capture(const Block& block, Flow& flow) {
  std::string text;
  std::string* const outer = std::exchange(out_, &text);
  flow = run_block(block);
  out_ = outer;
  return text;
}

Interpreter::Flow Interpreter::run(const Data& data) {
  write(data.text);
  return Flow::Next;
}

Interpreter::Flow Interpreter::run(const Print& print) {
  for (const ExprPtr& expr : print.values) {
    const Value value = evaluate(*expr);
    if (const Text* text = value.as_text()) {
      write(text->bytes);
    } else {
      write(to_text(context_, value));
    }
  }
  return Flow::Next;
}

Interpreter::Flow Interpreter::run(const If& branches) {
  for (const auto& [test, body] : branches.branches) {
    if (evaluate(*test).truthy()) return run_block(body);
  }
  return run_block(branches.otherwise);
}

Interpreter::Flow Interpreter::run(const For& loop) {
  const std::shared_ptr<Frame> outer = frame_;
  Loop::Filter filter;
  if (loop.filter) {
    filter = [&](const Value& item) {
      const Inside inside(*this, outer);
      assign(loop.target, item);
      return evaluate(*loop.filter).truthy();
    };
  }
  const Value items = to_sequence(context_, evaluate(*loop.items));
  const auto state = std::make_shared<Loop>(items, std::move(filter));
  bool any = false;
  Flow flow = Flow::Next;
  while (flow != Flow::Break && state->advance()) {
    any = true;
    context_.spend(1);
    const Inside inside(*this, outer);
    frame_->set(tree_.loop, std::shared_ptr<Object>(state));
    assign(loop.target, state->current());
    flow = run_block(loop.body);
  }
  state->finish();
  if (any) return Flow::Next;
  const Inside inside(*this, outer);
  return run_block(loop.otherwise);
}

void Interpreter::assign(const Target& target, const Value& value) {
  if (target.name && target.attribute.empty()) {
    context_.spend(frame_->variables.size() / 16);
    return frame_->set(target.name, value);
  }
  if (target.name) {
    const Value space = look_up(target.name);
    auto* found = dynamic_cast<Namespace*>(space.as_object());
    if (!found) {
      context_.fail("cannot set '", target.attribute, "' of '", *target.name,
                    "', which is not a namespace");
    }
    return found->set(context_, target.attribute, value);
  }
  const Value all = to_sequence(context_, value);
  const auto& items = all.as_sequence()->items;
  if (items.size() != target.several.size()) {
    context_.fail("cannot assign ", items.size(), " values to ", target.several.size(), " names");
  }
  for (size_t i = 0; i < items.size(); ++i) assign(target.several[i], items[i]);
}

Interpreter::Flow Interpreter::run(const Set& set) {
  assign(set.target, evaluate(*set.value));
  return Flow::Next;
}

Interpreter::Flow Interpreter::run(const SetBlock& set) {
  Value value;
  Flow flow = Flow::Next;
  {
    const Inside inside(*this, frame_);
    std::string text = capture(set.body, flow);
    if (flow != Flow::Next) return flow;
    frame_->set(set.text, context_.text(std::move(text)));
    value = evaluate(*set.value);
  }
  assign(set.target, value);
  return flow;
}

Interpreter::Flow Interpreter::run(const FilterBlock& filter) {
  const Inside inside(*this, frame_);
  Flow flow = Flow::Next;
  std::string text = capture(filter.body, flow);
  if (flow != Flow::Next) return flow;
  frame_->set(filter.text, context_.text(std::move(text)));
  write(to_text(context_, evaluate(*filter.value)));
  return flow;
}

Interpreter::Flow Interpreter::run(const With& with) {
  std::vector<Value> values;
  for (const auto& [target, value] : with.values) values.push_back(evaluate(*value));
  const Inside inside(*this, frame_);
  for (size_t i = 0; i < values.size(); ++i) assign(with.values[i].first, values[i]);
  return run_block(with.body);
}

Interpreter::Flow Interpreter::run(const Scope& scope) {
  const Inside inside(*this, frame_);
  return run_block(scope.body);
}

Value Interpreter::make_macro(std::shared_ptr<const Callable> callable) {
  // The frame that the macro keeps alive counts too.
  MemoryCharge charge = context_.charge(sizeof(MacroObject) + sizeof(Frame) + 16 * sizeof(Value));
  return context_.keep(
      std::make_shared<MacroObject>(*this, std::move(callable), std::move(charge)));
}

Interpreter::Flow Interpreter::run(const Macro& macro) {
  frame_->set(macro.name, make_macro(macro.callable));
  return Flow::Next;
}

Interpreter::Flow Interpreter::run(const CallBlock& block) {
  const auto& call_expr = std::get<CallExpr>(block.call->node);
  const Value callee = evaluate(*call_expr.callee);
  Arguments arguments = arguments_of(call_expr.arguments);
  arguments.named.emplace_back("caller", make_macro(block.body));
  write(to_text(context_, call(callee, arguments)));
  return Flow::Next;
}

Value Interpreter::call_macro(const Callable& callable, const std::shared_ptr<Frame>& frame,
                              const Arguments& arguments) {
  if (!frame) context_.fail("the macro '", callable.name, "' is called after its scope has ended");
  const size_t count = callable.parameters.size();
  context_.spend(1 + count * arguments.named.size() / 16);
  const auto given = [&](size_t i) -> const Value* {
    if (i < arguments.positional.size()) return &arguments.positional[i];
    for (const auto& [name, value] : arguments.named) {
      if (name == *callable.parameters[i]) return &value;
    }
    return nullptr;
  };
  if (arguments.positional.size() > count && !callable.varargs) {
    context_.fail("the macro '", callable.name, "' takes at most ", count, " arguments, but ",
                  arguments.positional.size(), " are given");
  }
  Dict more_named;
  Value caller = Value::undefined("the macro has no caller");
  for (const auto& [name, value] : arguments.named) {
    const auto is = [&name = name](Name parameter) { return *parameter == name; };
    const auto& parameters = callable.parameters;
    const auto found = std::find_if(parameters.begin(), parameters.end(), is);
    if (found != parameters.end()) {
      if (static_cast<size_t>(found - parameters.begin()) < arguments.positional.size()) {
        context_.fail("the macro '", callable.name, "' is given '", name, "' twice");
      }
    } else if (name == "caller" && callable.caller) {
      caller = value;
    } else if (callable.kwargs) {
      more_named.set(name, value);
    } else {
      context_.fail("the macro '", callable.name, "' has no argument '", name, "'");
    }
  }

  const Inside inside(*this, frame);
  // In order, because a default may use the arguments before it.
  const size_t first_default = count - callable.defaults.size();
  for (size_t i = 0; i < count; ++i) {
    Value value;
    if (const Value* argument = given(i)) {
      value = *argument;
    } else if (i >= first_default) {
      value = evaluate(*callable.defaults[i - first_default]);
    } else {
      value = Value::undefined(concat("the argument '", *callable.parameters[i], "' of the macro '",
                                      callable.name, "' was not given"));
    }
    frame_->set(callable.parameters[i], std::move(value));
  }
  if (callable.varargs) {
    const size_t taken = std::min(count, arguments.positional.size());
    const auto begin = arguments.positional.begin() + static_cast<std::ptrdiff_t>(taken);
    frame_->set(callable.varargs,
                context_.list({begin, arguments.positional.end()}, SequenceKind::Tuple));
  }
  if (callable.kwargs) frame_->set(callable.kwargs, context_.dict(std::move(more_named)));
  if (callable.caller) frame_->set(callable.caller, std::move(caller));
  Flow flow = Flow::Next;
  return context_.text(capture(callable.body, flow));
}

}  // namespace skald::jinja
