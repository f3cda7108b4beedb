#include "engine/grammar/regex.h"

#include <regex>

#include "tests/catch.h"
#include "tests/engine/grammar/grammar_tools.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

using grammar::parse_regex;
using grammar::Regex;
using grammar::regex_rules;
using grammar::RegexMatch;

TEST_CASE("regular expressions match the same texts as std::regex") {
  const char* const expressions[] = {"abc",           "a|b|cd",         "(a|b)*c",
                                     "a{2,3}b?",      "[a-c]+[^a-c]",   "\\d+\\.\\d*",
                                     "\\w+\\s\\w+",   "(?:ab){2}",      "a.c",
                                     "a*?b+?",        "^ab$",           "^a|b$",
                                     "[\\d\\-x]+",    "\\x41\\u0042",   "x{0}y",
                                     "a{2,}",         "(a(b(c)?)?)?",   "[.*+]\\.",
                                     "\\(\\[\\]\\)",  "a||b",           "[^\\s]\\S",
                                     "(a*)*b",        "[a-]",           "\\D\\W",
                                     "(^a|b$)c?",     "(^|x)a",         "(a$|bc?)",
                                     "(?!ab)\\w+",    "a(?=b)\\w\\w?",  "(?:^a|^b)+c?",
                                     "a?(?!1)(?!x).", "(^a$|^bc$)",     "(^a|b){2,4}",
                                     "(?:^a|b$|c)*",  "a(b$|c)?1?",     "(?=^a)\\w+",
                                     "(?=a)^abc?",    "(?=ab$|b)..?",   "(a$)?(^b)?(c|$)",
                                     "((^|a)(b|$))*", "a(?=b(?=c))\\w+"};
  const std::string alphabet = "abc1.x- A(";
  size_t matched = 0;
  for (const char* expression : expressions) {
    const std::regex reference(expression, std::regex::ECMAScript);
    const grammar::Rules rules = regex_rules(expression, "r");
    Random random(1);
    std::vector<std::string> texts{"",     "abc", "1.",   "1.5", "ab ab",
                                   "abab", "AB",  "([])", "..",  "+."};
    for (int i = 0; i < 400; ++i) {
      std::string text;
      for (size_t n = below(random, 6); n > 0; --n)
        text += alphabet[below(random, alphabet.size())];
      texts.push_back(text);
    }
    for (const std::string& text : texts) {
      CAPTURE(expression, text);
      const bool expected = std::regex_match(text, reference);
      matched += expected;
      if (read(rules, text).whole != expected) CHECK(read(rules, text).whole == expected);
    }
  }
  CHECK(matched > 300);
}

TEST_CASE("classes and dots match whole characters") {
  CHECK(read(regex_rules("[^a]", "r"), "日").whole);
  CHECK(read(regex_rules("a\\cJ\\ci", "r"), "a\n\t").whole);
  CHECK(!read(regex_rules("[^日]", "r"), "日").alive);
  CHECK(read(regex_rules("[à-ü]{2}", "r"), "éñ").whole);
  CHECK(read(regex_rules(".", "r"), "\xF0\x9F\x98\x80").whole);
  CHECK(!read(regex_rules(".", "r"), "\n").alive);
  CHECK(!read(regex_rules("[^a]", "r"), "\xED\xA0\x80").alive);  // half of a surrogate pair
  CHECK(!read(regex_rules("[^a]", "r"), "\xC0\x80").alive);
  CHECK(read(regex_rules("\\u{1F600}\\x{e9}", "r"), "\xF0\x9F\x98\x80\xC3\xA9").whole);
  CHECK(read(regex_rules("(?<year>\\d{4})-(?P<m>\\d\\d)", "r"), "2024-12").whole);
}

// std::regex takes the lookahead's own begin for it.
TEST_CASE("^ in a lookahead is the text's begin") {
  CHECK(read(regex_rules("a(?!^b)b?c*", "r"), "abc").whole);
  CHECK(!read(regex_rules("a(?=^b)b|c", "r"), "a").alive);
  CHECK(read(regex_rules("(?=^a)ab", "r"), "ab").whole);
}

TEST_CASE("an expression with many anchors takes no more time than its automaton") {
  std::string text;
  for (int i = 0; i < 200; ++i)
    text += "x|[^\\s]+?\\.(a|b{2,})?$y?";  // exponential as alternatives
  CHECK(read(regex_rules(text, "r"), "c.bbb").whole);
  std::string looks;
  for (int i = 0; i < 51; ++i) looks += "(?=a)";
  CHECK(has(error_text([&] { regex_rules(looks, "r"); }, Exit::Usage), "more than 50 lookaheads"));
}

TEST_CASE("Unicode properties stand for classes, alone and within others") {
  CHECK(read(regex_rules("\\p{Lu}\\p{L}+", "r"), "Ärger").whole);
  CHECK(!read(regex_rules("\\p{Lu}\\p{L}+", "r"), "ärger").alive);
  CHECK(read(regex_rules("\\P{L}{2}", "r"), "4-").whole);
  CHECK(!read(regex_rules("\\P{L}{2}", "r"), "é").alive);
  CHECK(read(regex_rules("[\\p{Script=Greek}\\p{Nd}_-]+", "r"), "αβγ_٣-").whole);
  CHECK(!read(regex_rules("[\\p{Script=Greek}\\p{Nd}_-]+", "r"), "a").alive);
  CHECK(read(regex_rules("[^\\p{L}\\P{ASCII}]", "r"), "1").whole);
  CHECK(!read(regex_rules("[^\\p{L}\\P{ASCII}]", "r"), "٣").alive);
}

TEST_CASE("an unsupported part of an expression is an error that gives its column") {
  const struct {
    const char* text;
    const char* says;
  } cases[] = {
      {"a((?=b)c)*", "column 3: lookahead is supported only at the top level"},
      {"(?<!a)b", "lookbehind"},
      {"(?i)a", "flags"},
      {"(a)\\1", "references to groups"},
      {"\\bword", "word borders"},
      {"a\\p{greek}", "column 2: there is no Unicode property 'greek'; expected a general"},
      {"\\pL", "a property in braces"},
      {"\\p{L", "this { is never closed"},
      {"[\\p{L}-z]", "must go from one character"},
      {"[^\\p{Any}]", "contains no character"},
      {"a++", "possessive"},
      {"a**", "repetition of a repetition"},
      {"*a", "nothing before it"},
      {"(a", "never closed"},
      {"a)", "unmatched )"},
      {"[a", "never closed"},
      {"[]", "contains no character"},
      {"[b-a]", "ends before"},
      {"[\\d-z]", "must go from one character"},
      {"a?(?=^b)b", "is too complex here"},
      {"(?=(a(?!b)|c)d)..", "lookahead is supported only at the top level"},
      {"\\", "nothing follows"},
      {"\\y", "unknown escape"},
      {"\\c1", "a letter after"},
      {"a{3,2}", "at least 3"},
      {"[[:alpha:]]", "by name"},
      {"\xC3", "not valid UTF-8"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.text);
    CHECK(has(error_text([&] { regex_rules(c.text, "--regex"); }, Exit::Usage), c.says));
  }
  CHECK(has(error_text([&] { regex_rules(std::string(10'000, '('), "r"); }, Exit::Usage),
            "200 nested groups"));
}

TEST_CASE("an expression with a length limit matches the same texts within the limit") {
  const char* const expressions[] = {"[ab]*", "a[ab]+b", "(ab)*", "a|b{2,9}|[ab]{3}",
                                     "aa",    "(a|b)*b"};
  for (const char* expression : expressions) {
    const Regex regex = parse_regex(expression, "r", RegexMatch::Whole);
    for (uint64_t least = 0; least < 5; ++least) {
      for (uint64_t most = least; most < 7; ++most) {
        const auto limited = with_length(regex, least, most);
        CAPTURE(expression, least, most);
        REQUIRE(limited);
        grammar::Rules rules;
        rules.root = rules.add("r");
        rules.define(rules.root, add_regex(rules, *limited, [](Rules& r, const auto& chars) {
                       return r.one_of(chars);
                     }));
        const grammar::Rules all = regex_rules(expression, "r");
        for (unsigned length = 0; length < 8; ++length) {
          for (unsigned bits = 0; bits < 1u << length; ++bits) {
            std::string text;
            for (unsigned i = 0; i < length; ++i) text += bits >> i & 1 ? 'a' : 'b';
            const bool expected = length >= least && length <= most && read(all, text).whole;
            bool whole = false;
            try {
              whole = read(rules, text).whole;
            } catch (const Error&) {  // no text fits the limit
            }
            if (whole != expected) REQUIRE(whole == expected);
          }
        }
      }
    }
  }
  CHECK(!with_length(parse_regex("a*b*", "r", RegexMatch::Whole), 0, 3));
}

}  // namespace
}  // namespace skald::test
