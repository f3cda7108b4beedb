// Runs a parsed template once. Tree, variables and Context must outlive it. Each evaluation counts
// as a step and as a level of depth, so endless loops and endless recursion end with an Error.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/context.h"

namespace skald::jinja {

class Interpreter {
 public:
  Interpreter(const Tree& tree, const Dict& variables, Context& context)
      : tree_(tree), variables_(variables), context_(context) {}

  std::string run();

 private:
  friend class MacroObject;

  // The variables of one scope: an iteration of a loop, a call of a macro, a block.
  struct Frame {
    std::shared_ptr<Frame> parent;
    std::vector<std::pair<Name, Value>> variables;

    const Value* find(Name name, Context& context) const;  // in this frame or an outer one
    void set(Name name, Value value);                      // in this frame
  };
  // Makes another frame the current one during its lifetime.
  class Inside;

  enum class Flow { Next, Break, Continue };

  Flow run_block(const Block& block);
  Flow run(const Data& data);
  Flow run(const Print& print);
  Flow run(const If& branches);
  Flow run(const For& loop);
  Flow run(const Set& set);
  Flow run(const SetBlock& set);
  Flow run(const FilterBlock& filter);
  Flow run(const With& with);
  Flow run(const Scope& scope);
  Flow run(const Macro& macro);
  Flow run(const CallBlock& call);
  Flow run(const Break&) { return Flow::Break; }
  Flow run(const Continue&) { return Flow::Continue; }

  void write(std::string_view text);
  // What a block prints, as a string. If the block contains a break, `flow` says so.
  std::string capture(const Block& block, Flow& flow);
  void assign(const Target& target, const Value& value);

  Value call_macro(const Callable& callable, const std::shared_ptr<Frame>& frame,
                   const Arguments& arguments);
  Value make_macro(std::shared_ptr<const Callable> callable);

  Value evaluate(const Expr& expr);
  Value evaluate_or_none(const ExprPtr& expr);  // None if expr is nullptr
  Value value_of(const ConstantExpr& expr) { return expr.value; }
  Value value_of(const NameExpr& expr) { return look_up(expr.name); }
  Value value_of(const ListExpr& expr);
  Value value_of(const DictExpr& expr);
  Value value_of(const AttributeExpr& expr);
  Value value_of(const ItemExpr& expr);
  Value value_of(const SliceExpr& expr);
  Value value_of(const CallExpr& expr);
  Value value_of(const FilterExpr& expr);
  Value value_of(const TestExpr& expr);
  Value value_of(const UnaryExpr& expr);
  Value value_of(const BinaryExpr& expr);
  Value value_of(const LogicExpr& expr);
  Value value_of(const ConcatExpr& expr);
  Value value_of(const CompareExpr& expr);
  Value value_of(const ConditionalExpr& expr);
  Value look_up(Name name);
  Arguments arguments_of(const CallArguments& arguments);
  Value call(const Value& callee, const Arguments& arguments);

  const Tree& tree_;
  const Dict& variables_;
  Context& context_;
  std::shared_ptr<Frame> frame_ = std::make_shared<Frame>();
  std::string* out_ = nullptr;
};

}  // namespace skald::jinja
