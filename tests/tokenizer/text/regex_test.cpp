#include "tokenizer/text/regex.h"

#include "tests/catch.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

std::vector<std::string> matches(std::string_view pattern, std::string_view text) {
  const Regex regex(pattern, "test");
  std::vector<Span> spans;
  Regex::Search(regex).find_all(text, spans);
  std::vector<std::string> out;
  for (const Span& span : spans) out.emplace_back(text.substr(span.begin, span.end - span.begin));
  return out;
}

using Texts = std::vector<std::string>;

TEST_CASE("character classes are Oniguruma's") {
  CHECK(matches("\\s", "a\u180e \u3000\u0085") == Texts{" ", "\u3000", "\u0085"});
  CHECK(matches("[^\\sa]", "a\u180e b") == Texts{"\u180e", "b"});
  CHECK(matches("\\w+", "e\u0301_a\u203fb \u2460") == Texts{"e\u0301_a\u203fb"});
  CHECK(matches("\\d+", "1\u0663\u00bd") == Texts{"1\u0663"});
  CHECK(matches("(?i:'s)", "'S '\u017f") == Texts{"'S", "'\u017f"});
  CHECK(matches("\\p{Han}+", "漢字かな") == Texts{"漢字"});
  CHECK(matches("\\p{^L}", "a1") == Texts{"1"});
  CHECK(matches("\\u3042|\\x{1F680}", "あ🚀") == Texts{"あ", "🚀"});
  CHECK(matches("^.|.$", "ab\ncd") == Texts{"a", "b", "c", "d"});
}

TEST_CASE("an empty match counts, except where the match before ended") {
  CHECK(matches("x*", "axb").size() == 3);  // at 0, "x", and at the end
  CHECK(matches("", "é").size() == 2);
  CHECK(matches("$", "").size() == 1);
}

TEST_CASE("a literal has no special characters") {
  const Regex regex = Regex::literal("a.▁[\\", "test");
  std::vector<Span> spans;
  Regex::Search(regex).find_all("abc a.▁[\\ ", spans);
  REQUIRE(spans.size() == 1);
  CHECK(spans[0].begin == 4);
}

TEST_CASE("words end where Oniguruma says, and classes can be intersected") {
  CHECK(matches("\\b.", "ab _c-\u203fd") == Texts{"a", " ", "_", "-", "\u203f"});
  CHECK(matches("\\Bb", "ab b bb") == Texts{"b", "b"});
  CHECK(matches("[a-z&&[^aeiou]]+", "strength aeb") == Texts{"str", "ngth", "b"});
  CHECK(matches("[\\p{L}&&a-f&&[^c]]", "abcdef\u00e9g") == Texts{"a", "b", "d", "e", "f"});
  std::string deep = "b";
  for (int i = 0; i < 20; ++i) deep = "[a&&" + deep + "]";
  CHECK(has(error_text([&] { Regex(deep, "test"); }), "which skald does not support"));
}

TEST_CASE("syntax that Oniguruma and PCRE2 do not share is refused") {
  for (const char* pattern :
       {"\\h",     "[\\b]",  "\\1",     "[a[b]]",  "[^a&&b]", "[a&&]", "[[:alpha:]]", "[\\S]",
        "(?<n>a)", "(?m:.)", "(*UTF)a", "a{2,3}+", "a{2}?",   "a{,3}", "\\x80",       "\\p{L",
        "\\p{ L}", "\\",     "[a",      "\\C",     "\\K",     "(?i)a", "[]a]"}) {
    CAPTURE(pattern);
    CHECK(has(error_text([&] { Regex(pattern, "test"); }), "which skald does not support"));
  }
  // Not in PCRE2's words.
  const std::pair<const char*, const char*> wrong[] = {{"a(", "has a '(' without its ')'"},
                                                       {"a)", "has a ')' without its '('"},
                                                       {"*a", "repeats nothing"},
                                                       {"[b-a]", "ends before it begins"},
                                                       {"\\p{Nonsense}", "with an unknown name"},
                                                       {"(?<=a+)b", "of no fixed length"}};
  for (const auto& [pattern, says] : wrong) {
    const std::string problem = error_text([&] { Regex(pattern, "test"); });
    CAPTURE(pattern, problem);
    CHECK(problem.starts_with(std::string("test: the pattern '") + pattern + "' "));
    CHECK(has(problem, says));
  }
  CHECK(has(error_text([&] { Regex(std::string(5000, '('), "test"); }), "nested"));
  CHECK(has(error_text([&] { Regex(std::string(50000, 'a'), "test"); }), "50000 bytes"));
  CHECK(has(error_text([&] { Regex("\xff", "test"); }), "not UTF-8"));
}

TEST_CASE("a pattern with endless backtracking is an error in one line") {
  const std::string text(100, 'a');
  const std::string problem = error_text([&] { matches("(?:a+)+[bd]", text + "c"); });
  CHECK(has(problem, "on a text of 101 bytes: it takes "));
  CHECK(has(error_text([&] { matches("(?:a|b|ab)*c", std::string(20 << 20, 'a')); }),
            "bytes: it takes "));
}

TEST_CASE("a long text of one kind needs little stack and linear time") {
  const char* pattern =
      R"([^\r\n\p{L}\p{N}]?[\p{Lu}]*[\p{Ll}\p{M}]+|\p{L}+|\s*[\r\n]+|\s+(?!\S)|\s+|.)";
  for (const std::string part : {"a", "A", " ", "\n", "1", "é", "\u0301", "🚀"}) {
    std::string text;
    for (int i = 0; i < 300000; ++i) text += part;
    std::string all;
    for (const std::string& match : matches(pattern, text)) all += match;
    CHECK(all == text);
  }
}

}  // namespace
}  // namespace skald::test
