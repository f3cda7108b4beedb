#include "engine/grammar/gbnf.h"

#include "tests/catch.h"
#include "tests/engine/grammar/grammar_tools.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

using grammar::parse_gbnf;

struct Sample {
  const char* name;
  const char* grammar;
  std::vector<std::string> good, bad;
};

const Sample kSamples[] = {
    {"json",
     R"gbnf(# any JSON object
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::=
  "[" ws ( value ("," ws value)* )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [1-9] [0-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
)gbnf",
     {"{}", "{\"a\": 1}", "{\"a\":[1, 2.5e-3, {\"b\":\"\\u00e9\\n\"}], \"é\":null}\n"},
     {"[", "{\"a\" 1}", "{\"a\":01}", "{\"a\":\"\n\"}", "{} x"}},
    {"arithmetic",
     R"gbnf(root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
)gbnf",
     {"1+2=3\n", "(a_1 *(2 -x)) = 4\n1=1\n"},
     {"1+=2\n", "A=1\n", "(1=1)\n"}},
    {"list",
     "root ::= item+\n\n# Excludes various line break characters\n"
     "item ::= \"- \" [^\\r\\n\\x0b\\x0c\\x85\\u2028\\u2029]+ \"\\n\"\n",
     {"- one\n", "- één\n- 日本\n"},
     {"one\n", "- \n", "- a\xC2\x85\n", "- a\xE2\x80\xA8\n"}},
    {"chess",
     R"gbnf(# Specifies chess moves as a list in algebraic notation
root   ::= "1. " move " " move "\n" ([1-9] [0-9]? ". " move " " move "\n")+
move   ::= (pawn | nonpawn | castle) [+#]?
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn   ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle ::= "O-O" "-O"?
)gbnf",
     {"1. e4 e5\n2. Nf3 Nc6\n", "1. d4 d5\n2. exd5 Qxd5+\n3. O-O-O e8=Q#\n"},
     {"1. e4 e5\n", "2. e4 e5\n", "1. e9 e5\n"}},
    {"repeats",
     "root ::= \"a\"{ 2} [bc]{1 , 3 } \"d\"{2,\t} .\n",
     {"aabddx", "aabcbddd\n", "aacdd日"},
     {"abddx", "aabcbcddx", "aabdx", "aabdd"}},
    {"spaces before repeats",
     "root ::= \"a\" {2} [bc]\t+ (\"d\" ? # rare\n *\n) b ?\nb ::= \"e\"",
     {"aab", "aacbdde"},
     {"ab", "aa", "aabee"}},
    {"line ends in strings and classes",
     "root ::= \"a\nb\" [c\nd]",
     {"a\nbc", "a\nb\n"},
     {"abc", "a\nb", "a\nb\\n"}},
    {"choices on lines of their own",
     "root ::=\n  \"a\"\n  | \"b\" # here\n\n  | c\nc ::= \"c\"",
     {"a", "b", "c"},
     {"", "ab"}},
    {"escapes",
     "root ::= \"\\x41\\u00e9\\U0001F600\\t\\\"\\\\\" [\\]\\[\\-\\\\^-]\n",
     {"A\xC3\xA9\xF0\x9F\x98\x80\t\"\\]", "A\xC3\xA9\xF0\x9F\x98\x80\t\"\\-"},
     {"A\xC3\xA9\xF0\x9F\x98\x80\t\"\\a"}},
    {"names and no end of line",
     "root ::= my-rule_2 0x\r\nmy-rule_2 ::= \"a\"\r\n0x ::= \"b\"",
     {"ab"},
     {"a"}},
};

TEST_CASE("a sample grammar accepts every text of its language and no other") {
  for (const Sample& sample : kSamples) {
    CAPTURE(sample.name);
    const Rules rules = parse_gbnf(sample.grammar, "sample");
    for (const std::string& text : sample.good) {
      CAPTURE(text);
      CHECK(read(rules, text).whole);
    }
    for (const std::string& text : sample.bad) {
      CAPTURE(text);
      CHECK(!read(rules, text).whole);
    }
  }
}

TEST_CASE(
    "random texts generated under a sample grammar belong to its language, even with tokens that "
    "span rules") {
  const auto vocabulary = byte_vocabulary({"{\"", "\":", "\",\"", " [", "1.", ". e", "4 e", "e4 ",
                                           "\n- ", "=1\n", "ab", "}}", "\xE6\x97", "\xA5", "é\""});
  for (const Sample& sample : kSamples) {
    const Rules rules = parse_gbnf(sample.grammar, "sample");
    const auto masks = make_masks(rules, vocabulary);
    Writer writer{Random(11), 40};
    size_t whole = 0;
    for (int i = 0; i < 30; ++i) {
      std::string text;
      if (!writer.write(Matcher(masks), *vocabulary, text)) continue;
      ++whole;
      CAPTURE(sample.name, text);
      REQUIRE(read(rules, text).whole);
    }
    CAPTURE(sample.name);
    CHECK(whole == 30);
  }
}

TEST_CASE("an error in a grammar is reported with line and column") {
  const struct {
    const char* text;
    const char* says;
  } cases[] = {
      {"", "no rule 'root'"},
      {"rot ::= \"a\"\n", "no rule 'root'"},
      {"root ::= \"a\" missing\n", "line 1, column 14: there is no rule 'missing'"},
      {"root ::= \"a\nb\n", "line 1, column 10: this \" is never closed"},
      {"root ::= [a\n", "line 1, column 10: this [ is never closed"},
      {"root ::= [z-a]\n", "line 1, column 11: the range ends before it begins"},
      {"root ::= []\n", "contains no character"},
      {"root ::= (\"a\"\n", "line 1, column 10: this ( is never closed"},
      {"root ::= \"a\")\n", "line 1, column 13: unmatched )"},
      {"root ::= *\n", "nothing before it"},
      {"root ::= \"a\"{3,2}\n", "at least 3 and at most 2"},
      {"root ::= \"a\"{x}\n", "expected {2}, {2,} or {2,5}"},
      {"root ::= \"a\"{99999999999}\n", "the number is too large"},
      {"root ::= \"\\q\"\n", "unknown escape"},
      {"root ::= \"\\xZ1\"\n", "expected 2 hexadecimal digits"},
      {"root ::= \"\\uD800\"\n", "no such character"},
      {"root ::= \"\xFF\"\n", "not valid UTF-8"},
      {"root = \"a\"\n", "expected ::="},
      {"root ::= <think\n", "line 1, column 10: this < is never closed"},
      {"root ::= !a\n", "expected a token such as <think> or <[1000]> after !"},
      {"root ::= <[x]>\n", "expected a number"},
      {"root ::= <[7>\n", "expected ]> after the token's number"},
      {"root ::= \"a\"\nroot ::= \"b\"\n", "line 2, column 1: the rule 'root' is defined twice"},
      {"root ::= \"a\" ; \"b\"\n", "expected a string in quotes"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.text);
    CHECK(has(error_text([&] { parse_gbnf(c.text, "g"); }, Exit::Usage), c.says));
  }
  std::string deep = "root ::= " + std::string(100'000, '(');
  CHECK(has(error_text([&] { parse_gbnf(deep, "g"); }, Exit::Usage), "200 nested brackets"));
}

}  // namespace
}  // namespace skald::test
