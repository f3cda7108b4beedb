// A parsed template: statements, which print, and expressions, which have a value. Immutable. Names
// are interned, so equal names have equal addresses. The parser limits the nesting depth, which
// also limits recursion over the tree.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tokenizer/jinja/value.h"

namespace skald::jinja {

using Name = const std::string*;

class Names {
 public:
  Name intern(const std::string& text) { return &*all_.insert(text).first; }

 private:
  std::set<std::string> all_;
};

struct Expr;
using ExprPtr = std::unique_ptr<const Expr>;

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr more, more_named;  // *list, **dict
};

struct ConstantExpr {
  Value value;
};
struct NameExpr {
  Name name;
};
struct ListExpr {
  std::vector<ExprPtr> items;
  bool tuple;
};
struct DictExpr {
  std::vector<std::pair<ExprPtr, ExprPtr>> items;
};
struct AttributeExpr {  // object.name
  ExprPtr object;
  std::string name;
};
struct ItemExpr {  // object[key]
  ExprPtr object, key;
};
struct SliceExpr {  // object[start:stop:step]; each may be missing
  ExprPtr object, start, stop, step;
};
struct CallExpr {
  ExprPtr callee;
  CallArguments arguments;
};
struct FilterExpr {
  ExprPtr input;
  std::string name;
  CallArguments arguments;
};
struct TestExpr {
  ExprPtr input;
  std::string name;
  CallArguments arguments;
};

enum class UnaryOp : uint8_t { Not, Minus, Plus };
struct UnaryExpr {
  UnaryOp op;
  ExprPtr operand;
};

enum class BinaryOp : uint8_t { Add, Subtract, Multiply, Divide, FloorDivide, Modulo, Power };
struct BinaryExpr {
  BinaryOp op;
  ExprPtr left, right;
};
struct LogicExpr {  // left and right, left or right
  bool is_and;
  ExprPtr left, right;
};
struct ConcatExpr {  // a ~ b ~ c
  std::vector<ExprPtr> parts;
};

enum class CompareOp : uint8_t {
  Equal,
  NotEqual,
  Less,
  LessEqual,
  Greater,
  GreaterEqual,
  In,
  NotIn
};
struct CompareExpr {  // a < b < c
  ExprPtr first;
  std::vector<std::pair<CompareOp, ExprPtr>> rest;
};
struct ConditionalExpr {  // value if test else otherwise; otherwise may be missing
  ExprPtr value, test, otherwise;
};

struct Expr {
  int line;
  int depth;
  std::variant<ConstantExpr, NameExpr, ListExpr, DictExpr, AttributeExpr, ItemExpr, SliceExpr,
               CallExpr, FilterExpr, TestExpr, UnaryExpr, BinaryExpr, LogicExpr, ConcatExpr,
               CompareExpr, ConditionalExpr>
      node;
};

// The left side of an assignment: a name, an attribute of a namespace, or several targets.
struct Target {
  Name name = nullptr;
  std::string attribute;        // attribute of the namespace `name`; empty: the name itself
  std::vector<Target> several;  // if not empty, `name` is nullptr
};

struct Statement;
using Block = std::vector<Statement>;

struct Data {
  std::string text;
};
struct Print {
  std::vector<ExprPtr> values;
};
struct If {
  std::vector<std::pair<ExprPtr, Block>> branches;
  Block otherwise;
};
struct For {
  Target target;
  ExprPtr items, filter;  // filter may be missing
  Block body, otherwise;
};
struct Set {
  Target target;
  ExprPtr value;
};
// {% set x %}…{% endset %}: the printed body is stored in the variable `text` in a scope of its
// own; `value` is computed there.
struct SetBlock {
  Target target;
  Name text;
  ExprPtr value;
  Block body;
};
struct FilterBlock {
  Name text;
  ExprPtr value;
  Block body;
};
struct With {
  std::vector<std::pair<Target, ExprPtr>> values;
  Block body;
};
struct Scope {  // {% generation %}
  Block body;
};
struct Callable {  // a macro, or the body of {% call %}
  std::string name;
  std::vector<Name> parameters;
  std::vector<ExprPtr> defaults;  // for the last parameters
  Block body;
  Name varargs = nullptr, kwargs = nullptr, caller = nullptr;  // nullptr: not used in the body
};
struct Macro {
  Name name;
  std::shared_ptr<const Callable> callable;
};
struct CallBlock {
  ExprPtr call;  // always a CallExpr
  std::shared_ptr<const Callable> body;
};
struct Break {};
struct Continue {};

struct Statement {
  int line;
  std::variant<Data, Print, If, For, Set, SetBlock, FilterBlock, With, Scope, Macro, CallBlock,
               Break, Continue>
      node;
};

struct Tree {
  Names names;
  Name loop = names.intern("loop");
  Block body;
};

}  // namespace skald::jinja
