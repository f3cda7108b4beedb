// Parses the expressions of a template. The statement parser derives from this class.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/lexer.h"
#include "tokenizer/jinja/parser.h"

namespace skald::jinja {

class ExpressionParser {
 public:
  ExpressionParser(std::vector<Token> tokens, const Source& source, Names& names)
      : source_(source), names_(names), tokens_(std::move(tokens)) {}

 protected:
  // Counts one level of nesting during its lifetime.
  class Nested {
   public:
    explicit Nested(ExpressionParser& parser) : parser_(parser) {
      if (++parser_.nesting_ > kMostNesting) parser_.too_deep(parser_.token().line);
    }
    Nested(const Nested&) = delete;
    ~Nested() { --parser_.nesting_; }

   private:
    ExpressionParser& parser_;
  };

  const Token& token() const { return tokens_[at_]; }
  const Token& after() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  Token next() { return token().type == TokenType::End ? token() : tokens_[at_++]; }
  bool is(TokenType type) const { return token().type == type; }
  bool is_name(std::string_view name) const { return is(TokenType::Name) && token().text == name; }
  bool is_op(std::string_view op) const { return is(TokenType::Operator) && token().text == op; }
  bool skip_name(std::string_view name);
  bool skip_op(std::string_view op);
  Token expect_name(std::string_view name = {});  // empty: any name
  void expect_op(std::string_view op);
  [[noreturn]] void unexpected(std::string_view expected) const;
  [[noreturn]] void too_deep(int line) const;

  template <class Node>
  ExprPtr make(int line, int depth, Node node) const {
    if (depth > kMostNesting) too_deep(line);
    return ExprPtr(new Expr{line, depth, std::move(node)});
  }

  ExprPtr expression(bool conditional = true);
  // Parses `a, b, c` as a tuple and `a` as a single value. `end` is a name that ends the tuple,
  // such as "recursive".
  ExprPtr tuple(bool conditional = true, std::string_view end = {}, bool parentheses = false);
  CallArguments call_arguments(int& depth);
  ExprPtr filters(ExprPtr input, bool starts_with_name);
  Target target(bool with_namespace, std::string_view end = {});
  Name plain_name();  // a name that may be assigned to

  // Called for each name in an expression. The macro parser needs it.
  virtual void mention(Name) {}
  virtual ~ExpressionParser() = default;

  const Source& source_;
  Names& names_;

 private:
  ExprPtr logic_or();
  ExprPtr logic_and();
  ExprPtr logic_not();
  ExprPtr comparison();
  ExprPtr sum();
  ExprPtr concatenation();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool with_filters);
  ExprPtr primary();
  ExprPtr number();
  ExprPtr list();
  ExprPtr dict();
  ExprPtr postfix(ExprPtr node);
  ExprPtr filters_and_tests(ExprPtr node);
  ExprPtr subscript(ExprPtr object);
  ExprPtr call(ExprPtr callee);
  ExprPtr test(ExprPtr input);
  bool ends_tuple(std::string_view end) const;
  Target one_target(bool with_namespace);

  std::vector<Token> tokens_;  // the last token is End
  size_t at_ = 0;
  int nesting_ = 0;
};

}  // namespace skald::jinja
