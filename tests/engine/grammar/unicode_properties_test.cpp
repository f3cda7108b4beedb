#include "engine/grammar/unicode_properties.h"

#include "tests/catch.h"

namespace skald::test {
namespace {

using grammar::CharClass;
using grammar::contains;
using grammar::UnicodeProperties;

uint32_t size_of(const CharClass& chars) {
  uint32_t count = 0;
  for (const auto& [first, last] : chars) count += last - first + 1;
  return count;
}

TEST_CASE("a property has every name that ECMAScript gives it, and no other") {
  UnicodeProperties properties;
  const std::vector<std::vector<const char*>> same = {
      {"Lu", "Uppercase_Letter", "gc=Lu", "General_Category=Uppercase_Letter"},
      {"Nd", "digit", "Decimal_Number", "gc=digit"},
      {"P", "punct", "Punctuation"},
      {"LC", "Cased_Letter"},
      {"Script=Greek", "sc=Greek"},
      {"Alphabetic", "Alpha"},
      {"White_Space", "space"},
  };
  for (const auto& names : same) {
    const CharClass* first = properties.find(names[0]);
    REQUIRE(first);
    for (const char* name : names) {
      CAPTURE(name);
      REQUIRE(properties.find(name));
      CHECK(*properties.find(name) == *first);
    }
  }
  for (const char* name :
       {"", "lu", "Greek", "greek", "Script=greek", "Script=Gre ek", "Script=Lu", "Script=", "=Lu",
        "gc=Greek", "L&", "^L", "L}", "Script", "InGreek", "block=Greek", "Xan", "Letters"}) {
    CAPTURE(name);
    CHECK(!properties.find(name));
  }
  CHECK(!properties.find(std::string(100'000, 'L')));
}

TEST_CASE("a property has the characters of Unicode's tables") {
  UnicodeProperties properties;
  const struct {
    const char* name;
    std::u32string inside, outside;
  } cases[] = {
      {"Lu", U"AÄΑЖ\U00010400", U"aäα1 "},
      {"LC", U"AaǅЖ", U"1ªא"},
      {"Nd", U"09٣０\U0001D7CE", U"½Ⅷa"},
      {"Zs", U" \u00A0\u3000", U"\t\n_"},
      {"Cn", U"\u0378\uFFFF\U0010FFFF", U"a\uE000"},
      {"Script=Greek", U"αΩἀ", U"aж\u0342"},
      {"Script_Extensions=Han", U"漢。", U"aあ"},
      {"Any", U"a\U0010FFFF", U""},
      {"ASCII", std::u32string(1, U'\0') + U"a\x7F", U"\u0080é"},
      {"Assigned", U"a\uE000", U"\u0378"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.name);
    const CharClass* chars = properties.find(c.name);
    if (!chars && std::string_view(c.name).starts_with("Script_")) continue;  // PCRE2 before 10.40
    REQUIRE(chars);
    for (const char32_t one : c.inside) CHECK(contains(*chars, one));
    for (const char32_t one : c.outside) CHECK(!contains(*chars, one));
  }
}

TEST_CASE("every character belongs to one general category") {
  UnicodeProperties properties;
  CharClass all;
  uint32_t count = 0;
  for (const char* name :
       {"Cc", "Cf", "Cn", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl",
        "No", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"}) {
    const CharClass* chars = properties.find(name);
    REQUIRE(chars);
    count += size_of(*chars);
    all.insert(all.end(), chars->begin(), chars->end());
  }
  CHECK(count == size_of(grammar::any_char()));
  CHECK(grammar::normalized(all) == grammar::any_char());
}

}  // namespace
}  // namespace skald::test
