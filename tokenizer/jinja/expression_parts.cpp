// The operands of expressions: literals, subscripts, calls, filters, tests.
#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "engine/base/printable.h"
#include "tokenizer/jinja/expression_parser.h"

namespace skald::jinja {
namespace {

bool is_constant_name(const std::string& name) {
  return name == "true" || name == "True" || name == "false" || name == "False" || name == "none" ||
         name == "None";
}

}  // namespace

ExprPtr ExpressionParser::primary() {
  const int line = token().line;
  if (is(TokenType::Name)) {
    const std::string name = next().text;
    if (name == "true" || name == "True") return make(line, 1, ConstantExpr{true});
    if (name == "false" || name == "False") return make(line, 1, ConstantExpr{false});
    if (name == "none" || name == "None") return make(line, 1, ConstantExpr{None{}});
    const Name interned = names_.intern(name);
    mention(interned);
    return make(line, 1, NameExpr{interned});
  }
  if (is(TokenType::String)) {
    std::string text;
    while (is(TokenType::String)) text += next().text;
    return make(line, 1, ConstantExpr{Value::text(std::move(text))});
  }
  if (is(TokenType::Integer) || is(TokenType::Float)) return number();
  if (skip_op("(")) {
    ExprPtr inside = tuple(true, {}, true);
    expect_op(")");
    return inside;
  }
  if (is_op("[")) return list();
  if (is_op("{")) return dict();
  unexpected("a value");
}

ExprPtr ExpressionParser::number() {
  const Token token = next();
  std::string digits = token.text;
  digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
  if (token.type == TokenType::Float) {
    return make(token.line, 1, ConstantExpr{std::strtod(digits.c_str(), nullptr)});
  }
  int base = 10;
  size_t begin = 0;
  if (digits.size() > 2 && digits[0] == '0') {
    const char kind = static_cast<char>(digits[1] | 0x20);
    if (kind == 'x') base = 16;
    if (kind == 'o') base = 8;
    if (kind == 'b') base = 2;
    if (base != 10) begin = 2;
  }
  int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data() + begin, end, value, base);
  if (parsed.ec != std::errc() || parsed.ptr != end) {
    source_.refuse(token.line, "the number ", printable(digits, 40),
                   " is too large, expected at most 2^63 - 1");
  }
  return make(token.line, 1, ConstantExpr{value});
}

bool ExpressionParser::ends_tuple(std::string_view end) const {
  return is(TokenType::VariableEnd) || is(TokenType::BlockEnd) || is_op(")") ||
         (!end.empty() && is_name(end));
}

ExprPtr ExpressionParser::tuple(bool conditional, std::string_view end, bool parentheses) {
  const int line = token().line;
  std::vector<ExprPtr> items;
  bool comma = false;
  int depth = 0;
  while (!ends_tuple(end)) {
    items.push_back(expression(conditional));
    depth = std::max(depth, items.back()->depth);
    if (!skip_op(",")) break;
    comma = true;
  }
  if (!comma && !items.empty()) return std::move(items.front());
  if (!comma && !parentheses) unexpected("a value");
  return make(line, depth + 1, ListExpr{std::move(items), true});
}

ExprPtr ExpressionParser::list() {
  const int line = next().line;
  std::vector<ExprPtr> items;
  int depth = 0;
  while (!is_op("]")) {
    items.push_back(expression());
    depth = std::max(depth, items.back()->depth);
    if (!skip_op(",")) break;
  }
  expect_op("]");
  return make(line, depth + 1, ListExpr{std::move(items), false});
}

ExprPtr ExpressionParser::dict() {
  const int line = next().line;
  std::vector<std::pair<ExprPtr, ExprPtr>> items;
  int depth = 0;
  while (!is_op("}")) {
    ExprPtr key = expression();
    expect_op(":");
    ExprPtr value = expression();
    depth = std::max({depth, key->depth, value->depth});
    items.emplace_back(std::move(key), std::move(value));
    if (!skip_op(",")) break;
  }
  expect_op("}");
  return make(line, depth + 1, DictExpr{std::move(items)});
}

ExprPtr ExpressionParser::postfix(ExprPtr node) {
  while (true) {
    if (is_op(".") || is_op("[")) {
      node = subscript(std::move(node));
    } else if (is_op("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr ExpressionParser::filters_and_tests(ExprPtr node) {
  while (true) {
    if (is_op("|")) {
      node = filters(std::move(node), false);
    } else if (is_name("is")) {
      node = test(std::move(node));
    } else if (is_op("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr ExpressionParser::subscript(ExprPtr object) {
  const Token open = next();
  int depth = object->depth;
  if (open.text == ".") {
    if (is(TokenType::Name)) {
      return make(open.line, depth + 1, AttributeExpr{std::move(object), next().text});
    }
    if (!is(TokenType::Integer)) unexpected("a name or a number after '.'");
    return make(open.line, depth + 1, ItemExpr{std::move(object), number()});
  }
  ExprPtr parts[3];  // start, stop, step
  bool slice = false;
  for (ExprPtr& part : parts) {
    if (!is_op(":") && !is_op("]")) {
      part = expression();
      depth = std::max(depth, part->depth);
    }
    if (&part == &parts[2] || !skip_op(":")) break;
    slice = true;
  }
  if (!slice && !parts[0]) {  // a[] asks for the element by the empty tuple, which is undefined
    if (!is_op("]")) unexpected("a value");
    parts[0] = make(open.line, ++depth, ListExpr{{}, true});
  }
  if (!slice && is_op(",")) {
    std::vector<ExprPtr> items;
    items.push_back(std::move(parts[0]));
    while (skip_op(",") && !is_op("]")) {
      items.push_back(expression());
      depth = std::max(depth, items.back()->depth);
    }
    parts[0] = make(open.line, ++depth, ListExpr{std::move(items), true});
  }
  expect_op("]");
  if (!slice) {
    return make(open.line, depth + 1, ItemExpr{std::move(object), std::move(parts[0])});
  }
  return make(
      open.line, depth + 1,
      SliceExpr{std::move(object), std::move(parts[0]), std::move(parts[1]), std::move(parts[2])});
}

CallArguments ExpressionParser::call_arguments(int& depth) {
  CallArguments arguments;
  expect_op("(");
  const auto value = [&] {
    ExprPtr expr = expression();
    depth = std::max(depth, expr->depth);
    return expr;
  };
  while (!is_op(")")) {
    const int line = token().line;
    const bool named =
        is(TokenType::Name) && after().type == TokenType::Operator && after().text == "=";
    bool ordered = !arguments.more_named;
    if (skip_op("*")) {
      ordered = ordered && !arguments.more;
      arguments.more = value();
    } else if (skip_op("**")) {
      arguments.more_named = value();
    } else if (named) {
      const std::string name = next().text;
      next();
      arguments.named.emplace_back(name, value());
    } else {
      ordered = ordered && !arguments.more && arguments.named.empty();
      arguments.positional.push_back(value());
    }
    if (!ordered) {
      source_.refuse(line,
                     "a call's arguments are in the wrong order, expected unnamed ones, then "
                     "*list and named ones, then **dict");
    }
    if (!skip_op(",")) break;
  }
  expect_op(")");
  return arguments;
}

ExprPtr ExpressionParser::call(ExprPtr callee) {
  const int line = token().line;
  int depth = callee->depth;
  CallArguments arguments = call_arguments(depth);
  return make(line, depth + 1, CallExpr{std::move(callee), std::move(arguments)});
}

ExprPtr ExpressionParser::filters(ExprPtr input, bool starts_with_name) {
  while (starts_with_name || skip_op("|")) {
    starts_with_name = false;
    Token name = expect_name();
    int depth = input->depth;
    CallArguments arguments;
    if (is_op("(")) arguments = call_arguments(depth);
    input = make(name.line, depth + 1,
                 FilterExpr{std::move(input), std::move(name.text), std::move(arguments)});
  }
  return input;
}

ExprPtr ExpressionParser::test(ExprPtr input) {
  const int line = next().line;
  const bool negated = skip_name("not");
  Token name = expect_name();
  int depth = input->depth;
  CallArguments arguments;
  const bool operand = is(TokenType::Name) || is(TokenType::String) || is(TokenType::Integer) ||
                       is(TokenType::Float) || is_op("[") || is_op("{");
  if (is_op("(")) {
    arguments = call_arguments(depth);
  } else if (operand && !is_name("else") && !is_name("or") && !is_name("and")) {
    if (is_name("is")) source_.refuse(line, "'is' after 'is': put the first test in parentheses");
    ExprPtr argument = postfix(primary());
    depth = std::max(depth, argument->depth);
    arguments.positional.push_back(std::move(argument));
  }
  ExprPtr node =
      make(line, depth + 1, TestExpr{std::move(input), std::move(name.text), std::move(arguments)});
  if (!negated) return node;
  return make(line, depth + 2, UnaryExpr{UnaryOp::Not, std::move(node)});
}

Name ExpressionParser::plain_name() {
  const Token name = expect_name();
  if (is_constant_name(name.text)) {
    source_.refuse(name.line, "cannot assign to '", name.text, "', which is a constant");
  }
  return names_.intern(name.text);
}

Target ExpressionParser::one_target(bool with_namespace) {
  const Nested nested(*this);
  Target one;
  if (skip_op("(")) {
    one = target(with_namespace);
    expect_op(")");
    return one;
  }
  one.name = plain_name();
  if (with_namespace && skip_op(".")) one.attribute = expect_name().text;
  return one;
}

Target ExpressionParser::target(bool with_namespace, std::string_view end) {
  Target first = one_target(with_namespace);
  if (!is_op(",")) return first;
  Target all;
  all.several.push_back(std::move(first));
  while (skip_op(",")) {
    if (ends_tuple(end) || is_op("=")) break;
    all.several.push_back(one_target(with_namespace));
  }
  return all;
}

}  // namespace skald::jinja
