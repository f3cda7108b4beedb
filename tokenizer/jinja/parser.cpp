#include "tokenizer/jinja/parser.h"

#include <initializer_list>

#include "engine/base/printable.h"
#include "tokenizer/jinja/expression_parser.h"
#include "tokenizer/text/utf8.h"

namespace skald::jinja {
namespace {

// Published templates have up to about 40 kilobytes.
constexpr size_t kMostBytes = size_t{1} << 20;

using Ends = std::initializer_list<std::string_view>;

class Parser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Block whole() { return block({}, 0, ""); }

 private:
  // Parses statements up to a tag in `ends`, which stays the current token.
  Block block(Ends ends, int begin, std::string_view opened) {
    const Nested nested(*this);
    Block body;
    while (true) {
      const int line = token().line;
      switch (token().type) {
        case TokenType::Data:
          body.push_back({line, Data{next().text}});
          break;
        case TokenType::VariableBegin: {
          next();
          Print print;
          print.values.push_back(tuple());
          if (!is(TokenType::VariableEnd)) unexpected("'}}'");
          next();
          body.push_back({line, std::move(print)});
          break;
        }
        case TokenType::BlockBegin:
          next();
          for (std::string_view end : ends) {
            if (is_name(end)) return body;
          }
          statement(body);
          end_of_tag();
          break;
        default:
          if (ends.size() == 0) return body;
          source_.refuse(begin, "'", opened, "' has no '", *(ends.end() - 1), "'");
      }
    }
  }

  void end_of_tag() {
    if (!is(TokenType::BlockEnd)) unexpected("the end of the tag");
    next();
  }

  // Parses the body of a tag and its end tag, except the final %}.
  Block body_until(Ends ends, int begin, std::string_view opened) {
    skip_op(":");
    end_of_tag();
    return block(ends, begin, opened);
  }

  Block body_and_end(std::string_view end, int begin, std::string_view opened) {
    Block body = body_until({end}, begin, opened);
    next();
    return body;
  }

  void statement(Block& into) {
    const Token tag = expect_name();
    const int line = tag.line;
    const auto add = [&](auto node) { into.push_back({line, std::move(node)}); };
    if (tag.text == "for") return add(for_loop(line));
    if (tag.text == "if") return add(if_else(line));
    if (tag.text == "set") return set(line, into);
    if (tag.text == "macro") return add(macro(line));
    if (tag.text == "call") return add(call_block(line));
    if (tag.text == "filter") return add(filter_block(line));
    if (tag.text == "with") return add(with(line));
    if (tag.text == "generation") return add(Scope{body_and_end("endgeneration", line, tag.text)});
    if (tag.text == "print") return add(print());
    if (tag.text == "break" || tag.text == "continue") {
      if (loops_ == 0) source_.refuse(line, "'", tag.text, "' stands outside of a 'for' loop");
      if (tag.text == "break") return add(Break{});
      return add(Continue{});
    }
    for (std::string_view known :
         {"include", "import", "from", "extends", "block", "autoescape", "do", "trans"}) {
      if (tag.text == known) source_.refuse(line, "the tag '", known, "' is not supported");
    }
    source_.refuse(line, "unknown tag '", printable(tag.text, 40),
                   "', expected one of for, if, set, macro, call, filter, with, generation, print, "
                   "break, continue");
  }

  Print print() {
    Print print;
    while (!is(TokenType::BlockEnd)) {
      if (!print.values.empty()) expect_op(",");
      print.values.push_back(expression());
    }
    return print;
  }

  For for_loop(int line) {
    For loop;
    loop.target = target(false, "in");
    expect_name("in");
    loop.items = tuple(false, "recursive");
    if (skip_name("if")) loop.filter = expression();
    if (is_name("recursive")) source_.refuse(line, "recursive loops are not supported");
    ++loops_;
    loop.body = body_until({"else", "endfor"}, line, "for");
    --loops_;
    if (next().text == "else") loop.otherwise = body_and_end("endfor", line, "for");
    return loop;
  }

  If if_else(int line) {
    If result;
    while (true) {
      ExprPtr test = tuple(false);
      Block body = body_until({"elif", "else", "endif"}, line, "if");
      result.branches.emplace_back(std::move(test), std::move(body));
      const std::string end = next().text;
      if (end == "elif") continue;
      if (end == "else") result.otherwise = body_and_end("endif", line, "if");
      return result;
    }
  }

  // The variable that holds a block's text. No template can write this name.
  Name block_text() { return names_.intern("(text)"); }
  ExprPtr block_value(int line, bool starts_with_name) {
    return filters(make(line, 1, NameExpr{block_text()}), starts_with_name);
  }

  void set(int line, Block& into) {
    Target to = target(true);
    if (skip_op("=")) {
      into.push_back({line, Set{std::move(to), tuple()}});
      return;
    }
    SetBlock set{std::move(to), block_text(), block_value(line, false), {}};
    set.body = body_and_end("endset", line, "set");
    into.push_back({line, std::move(set)});
  }

  FilterBlock filter_block(int line) {
    FilterBlock filter{block_text(), block_value(line, true), {}};
    filter.body = body_and_end("endfilter", line, "filter");
    return filter;
  }

  With with(int line) {
    With with;
    while (!is(TokenType::BlockEnd)) {
      if (!with.values.empty()) expect_op(",");
      Target to = target(false);
      expect_op("=");
      with.values.emplace_back(std::move(to), expression());
    }
    with.body = body_and_end("endwith", line, "with");
    return with;
  }

  void signature(Callable& callable) {
    expect_op("(");
    while (!is_op(")")) {
      if (!callable.parameters.empty()) expect_op(",");
      const int line = token().line;
      const Name name = plain_name();
      callable.parameters.push_back(name);
      if (skip_op("=")) {
        callable.defaults.push_back(expression());
      } else if (!callable.defaults.empty()) {
        source_.refuse(line, "the parameter '", *name,
                       "' follows a parameter with a default, expected a default for it too");
      }
    }
    expect_op(")");
  }

  void mention(Name name) override {
    for (Callable* callable : open_) {
      if (*name == "varargs") callable->varargs = name;
      if (*name == "kwargs") callable->kwargs = name;
      if (*name == "caller") callable->caller = name;
    }
  }

  void callable_body(Callable& callable, std::string_view end, int line, std::string_view opened) {
    const int loops = std::exchange(loops_, 0);
    open_.push_back(&callable);
    callable.body = body_and_end(end, line, opened);
    open_.pop_back();
    loops_ = loops;
  }

  Macro macro(int line) {
    auto callable = std::make_shared<Callable>();
    const Name name = plain_name();
    callable->name = *name;
    signature(*callable);
    callable_body(*callable, "endmacro", line, "macro");
    return {name, std::move(callable)};
  }

  CallBlock call_block(int line) {
    auto callable = std::make_shared<Callable>();
    callable->name = "caller";
    if (is_op("(")) signature(*callable);
    ExprPtr call = expression();
    if (!std::holds_alternative<CallExpr>(call->node)) {
      source_.refuse(line, "'call' needs a macro's call, as in {% call name() %}");
    }
    callable_body(*callable, "endcall", line, "call");
    return {std::move(call), std::move(callable)};
  }

  int loops_ = 0;                // loops around the current token, inside the innermost macro
  std::vector<Callable*> open_;  // macros around the current token
};

}  // namespace

Tree parse(std::string_view text, const Source& source) {
  if (text.size() > kMostBytes) {
    fail(Exit::Model, source.name, ": is ", text.size(), " bytes long; expected at most ",
         kMostBytes);
  }
  if (!utf8_valid(text)) fail(Exit::Model, source.name, ": is not valid UTF-8; save it as UTF-8");
  Tree tree;
  tree.body = Parser(tokenize(text, source), source, tree.names).whole();
  return tree;
}

}  // namespace skald::jinja
