// The part of the interpreter that evaluates expressions.
#include "tokenizer/jinja/filters.h"
#include "tokenizer/jinja/globals.h"
#include "tokenizer/jinja/interpreter.h"
#include "tokenizer/jinja/operators.h"
#include "tokenizer/jinja/print.h"

namespace skald::jinja {

Value Interpreter::evaluate(const Expr& expr) {
  const Context::Level level(context_);
  context_.spend(1);
  const int line = std::exchange(context_.line, expr.line);
  Value value = std::visit([&](const auto& node) { return value_of(node); }, expr.node);
  context_.line = line;
  return value;
}

Value Interpreter::evaluate_or_none(const ExprPtr& expr) {
  return expr ? evaluate(*expr) : Value(None{});
}

Value Interpreter::look_up(Name name) {
  if (const Value* found = frame_->find(name, context_)) return *found;
  if (const Value* found = variables_.find(std::string_view(*name))) return *found;
  if (auto found = find_global(context_, *name)) return *std::move(found);
  return Value::undefined(concat("'", *name, "' is undefined"));
}

Value Interpreter::value_of(const ListExpr& expr) {
  std::vector<Value> items;
  items.reserve(expr.items.size());
  for (const ExprPtr& item : expr.items) items.push_back(evaluate(*item));
  return context_.list(std::move(items), expr.tuple ? SequenceKind::Tuple : SequenceKind::List);
}

Value Interpreter::value_of(const DictExpr& expr) {
  Dict dict;
  for (const auto& [key_expr, value_expr] : expr.items) {
    const Value key = evaluate(*key_expr);
    if (!dict.set(key, evaluate(*value_expr))) {
      context_.fail("a ", key.type_name(), " cannot be a key");
    }
  }
  return context_.dict(std::move(dict));
}

Value Interpreter::value_of(const AttributeExpr& expr) {
  return get_attribute(context_, evaluate(*expr.object), expr.name);
}

Value Interpreter::value_of(const ItemExpr& expr) {
  const Value object = evaluate(*expr.object);
  return get_item(context_, object, evaluate(*expr.key));
}

Value Interpreter::value_of(const SliceExpr& expr) {
  const Value object = evaluate(*expr.object);
  const Value start = evaluate_or_none(expr.start);
  const Value stop = evaluate_or_none(expr.stop);
  return slice(context_, object, start, stop, evaluate_or_none(expr.step));
}

Arguments Interpreter::arguments_of(const CallArguments& given) {
  Arguments arguments;
  arguments.positional.reserve(given.positional.size());
  for (const ExprPtr& value : given.positional) arguments.positional.push_back(evaluate(*value));
  for (const auto& [name, value] : given.named)
    arguments.named.emplace_back(name, evaluate(*value));
  if (given.more) {
    const Value more = to_sequence(context_, evaluate(*given.more));
    const auto& items = more.as_sequence()->items;
    context_.check_items(items.size());
    context_.spend(items.size());
    arguments.positional.insert(arguments.positional.end(), items.begin(), items.end());
  }
  if (given.more_named) {
    const Value more = evaluate(*given.more_named);
    if (!more.as_dict()) context_.fail("'**' needs a dict, found a ", more.type_name());
    for (const Dict::Entry& entry : more.as_dict()->entries()) {
      if (!entry.key.as_text()) context_.fail("'**' needs strings as keys");
      arguments.named.emplace_back(entry.key.as_text()->bytes, entry.value);
      context_.spend(1);
    }
  }
  return arguments;
}

Value Interpreter::call(const Value& callee, const Arguments& arguments) {
  if (const auto* undefined = callee.get<Undefined>()) context_.fail(*undefined->why);
  Object* object = callee.as_object();
  if (!object) context_.fail("a ", callee.type_name(), " cannot be called");
  return object->call(context_, arguments);
}

Value Interpreter::value_of(const CallExpr& expr) {
  const Value callee = evaluate(*expr.callee);
  return call(callee, arguments_of(expr.arguments));
}

Value Interpreter::value_of(const FilterExpr& expr) {
  const Value input = evaluate(*expr.input);
  return apply_filter(context_, expr.name, input, arguments_of(expr.arguments));
}

Value Interpreter::value_of(const TestExpr& expr) {
  const Value input = evaluate(*expr.input);
  return apply_test(context_, expr.name, input, arguments_of(expr.arguments));
}

Value Interpreter::value_of(const UnaryExpr& expr) {
  return unary(context_, expr.op, evaluate(*expr.operand));
}

Value Interpreter::value_of(const BinaryExpr& expr) {
  const Value left = evaluate(*expr.left);
  return binary(context_, expr.op, left, evaluate(*expr.right));
}

Value Interpreter::value_of(const LogicExpr& expr) {
  Value left = evaluate(*expr.left);
  return left.truthy() == expr.is_and ? evaluate(*expr.right) : left;
}

Value Interpreter::value_of(const ConcatExpr& expr) {
  std::string text;
  for (const ExprPtr& part : expr.parts) {
    text += to_text(context_, evaluate(*part));
    context_.check_text(text.size());
  }
  return context_.text(std::move(text));
}

Value Interpreter::value_of(const CompareExpr& expr) {
  Value left = evaluate(*expr.first);
  for (const auto& [op, operand] : expr.rest) {
    Value right = evaluate(*operand);
    if (!compare(context_, op, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::value_of(const ConditionalExpr& expr) {
  if (evaluate(*expr.test).truthy()) return evaluate(*expr.value);
  if (expr.otherwise) return evaluate(*expr.otherwise);
  return Value::undefined("an 'if' without 'else' in an expression was false");
}

}  // namespace skald::jinja
