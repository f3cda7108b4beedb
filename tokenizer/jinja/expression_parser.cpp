// The operators of expressions, from the lowest precedence to the highest.
#include "tokenizer/jinja/expression_parser.h"

#include <algorithm>

#include "engine/base/printable.h"

namespace skald::jinja {
namespace {

int depth_of(const ExprPtr& expr) { return expr ? expr->depth : 0; }

std::string describe(const Token& token) {
  switch (token.type) {
    case TokenType::Data:
      return "text";
    case TokenType::BlockBegin:
      return "'{%'";
    case TokenType::BlockEnd:
      return "the end of the tag";
    case TokenType::VariableBegin:
      return "'{{'";
    case TokenType::VariableEnd:
      return "'}}'";
    case TokenType::End:
      return "the end of the template";
    default:
      return concat("'", printable(token.text, 40), "'");
  }
}

}  // namespace

bool ExpressionParser::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  next();
  return true;
}

bool ExpressionParser::skip_op(std::string_view op) {
  if (!is_op(op)) return false;
  next();
  return true;
}

Token ExpressionParser::expect_name(std::string_view name) {
  if (!is(TokenType::Name) || (!name.empty() && token().text != name)) {
    unexpected(name.empty() ? "a name" : concat("'", name, "'"));
  }
  return next();
}

void ExpressionParser::expect_op(std::string_view op) {
  if (!skip_op(op)) unexpected(concat("'", op, "'"));
}

void ExpressionParser::unexpected(std::string_view expected) const {
  source_.refuse(token().line, "expected ", expected, ", found ", describe(token()));
}

void ExpressionParser::too_deep(int line) const {
  source_.refuse(line, "the template is nested more than ", kMostNesting, " deep");
}

ExprPtr ExpressionParser::expression(bool conditional) {
  const Nested nested(*this);
  int line = token().line;
  ExprPtr value = logic_or();
  while (conditional && skip_name("if")) {
    ExprPtr test = logic_or();
    ExprPtr otherwise = skip_name("else") ? expression() : nullptr;
    const int depth = 1 + std::max({value->depth, test->depth, depth_of(otherwise)});
    value =
        make(line, depth, ConditionalExpr{std::move(value), std::move(test), std::move(otherwise)});
    line = token().line;
  }
  return value;
}

ExprPtr ExpressionParser::logic_or() {
  ExprPtr left = logic_and();
  while (is_name("or")) {
    const int line = next().line;
    ExprPtr right = logic_and();
    const int depth = 1 + std::max(left->depth, right->depth);
    left = make(line, depth, LogicExpr{false, std::move(left), std::move(right)});
  }
  return left;
}

ExprPtr ExpressionParser::logic_and() {
  ExprPtr left = logic_not();
  while (is_name("and")) {
    const int line = next().line;
    ExprPtr right = logic_not();
    const int depth = 1 + std::max(left->depth, right->depth);
    left = make(line, depth, LogicExpr{true, std::move(left), std::move(right)});
  }
  return left;
}

ExprPtr ExpressionParser::logic_not() {
  if (!is_name("not")) return comparison();
  const Nested nested(*this);
  const int line = next().line;
  ExprPtr operand = logic_not();
  const int depth = 1 + operand->depth;
  return make(line, depth, UnaryExpr{UnaryOp::Not, std::move(operand)});
}

ExprPtr ExpressionParser::comparison() {
  const int line = token().line;
  ExprPtr first = sum();
  std::vector<std::pair<CompareOp, ExprPtr>> rest;
  int depth = first->depth;
  const auto add = [&](CompareOp op) {
    ExprPtr operand = sum();
    depth = std::max(depth, operand->depth);
    rest.emplace_back(op, std::move(operand));
  };
  while (true) {
    if (skip_op("==")) {
      add(CompareOp::Equal);
    } else if (skip_op("!=")) {
      add(CompareOp::NotEqual);
    } else if (skip_op("<=")) {
      add(CompareOp::LessEqual);
    } else if (skip_op("<")) {
      add(CompareOp::Less);
    } else if (skip_op(">=")) {
      add(CompareOp::GreaterEqual);
    } else if (skip_op(">")) {
      add(CompareOp::Greater);
    } else if (skip_name("in")) {
      add(CompareOp::In);
    } else if (is_name("not") && after().type == TokenType::Name && after().text == "in") {
      next(), next();
      add(CompareOp::NotIn);
    } else {
      break;
    }
  }
  if (rest.empty()) return first;
  return make(line, depth + 1, CompareExpr{std::move(first), std::move(rest)});
}

ExprPtr ExpressionParser::sum() {
  ExprPtr left = concatenation();
  while (is_op("+") || is_op("-")) {
    const Token op = next();
    ExprPtr right = concatenation();
    const int depth = 1 + std::max(left->depth, right->depth);
    left = make(op.line, depth,
                BinaryExpr{op.text == "+" ? BinaryOp::Add : BinaryOp::Subtract, std::move(left),
                           std::move(right)});
  }
  return left;
}

ExprPtr ExpressionParser::concatenation() {
  const int line = token().line;
  std::vector<ExprPtr> parts;
  parts.push_back(product());
  int depth = parts.back()->depth;
  while (skip_op("~")) {
    parts.push_back(product());
    depth = std::max(depth, parts.back()->depth);
  }
  if (parts.size() == 1) return std::move(parts.front());
  return make(line, depth + 1, ConcatExpr{std::move(parts)});
}

ExprPtr ExpressionParser::product() {
  ExprPtr left = power();
  while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
    const Token op = next();
    BinaryOp kind = BinaryOp::Modulo;
    if (op.text == "*") kind = BinaryOp::Multiply;
    if (op.text == "/") kind = BinaryOp::Divide;
    if (op.text == "//") kind = BinaryOp::FloorDivide;
    ExprPtr right = power();
    const int depth = 1 + std::max(left->depth, right->depth);
    left = make(op.line, depth, BinaryExpr{kind, std::move(left), std::move(right)});
  }
  return left;
}

ExprPtr ExpressionParser::power() {
  ExprPtr left = unary(true);
  while (is_op("**")) {
    const int line = next().line;
    ExprPtr right = unary(true);
    const int depth = 1 + std::max(left->depth, right->depth);
    left = make(line, depth, BinaryExpr{BinaryOp::Power, std::move(left), std::move(right)});
  }
  return left;
}

ExprPtr ExpressionParser::unary(bool with_filters) {
  const Nested nested(*this);
  ExprPtr node;
  if (is_op("-") || is_op("+")) {
    const Token op = next();
    node = unary(false);
    const int depth = 1 + node->depth;
    node = make(op.line, depth,
                UnaryExpr{op.text == "-" ? UnaryOp::Minus : UnaryOp::Plus, std::move(node)});
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  return with_filters ? filters_and_tests(std::move(node)) : std::move(node);
}

}  // namespace skald::jinja
