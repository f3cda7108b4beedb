#include "engine/grammar/matcher.h"

#include "engine/grammar/gbnf.h"
#include "engine/grammar/regex.h"
#include "tests/catch.h"
#include "tests/engine/grammar/grammar_tools.h"
#include "tests/engine/grammar/random_grammar.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

using grammar::parse_gbnf;
using grammar::regex_rules;

const char* const kLetters[] = {"a", "b", "é", "日"};

// All texts of up to `length` letters.
std::vector<std::string> all_texts(int length) {
  std::vector<std::string> texts{""};
  size_t begin = 0;
  for (int i = 0; i < length; ++i) {
    const size_t end = texts.size();
    for (size_t t = begin; t < end; ++t) {
      for (const char* letter : kLetters) texts.push_back(texts[t] + letter);
    }
    begin = end;
  }
  return texts;
}

TEST_CASE("the matcher and a slow recognizer agree on random grammars") {
  const std::vector<std::string> texts = all_texts(4);
  size_t taken = 0, refused = 0;
  for (uint64_t seed = 0; seed < 250; ++seed) {
    const RandomGrammar grammar(seed, 1 + seed % 4);
    for (const std::string& text : texts) {
      CAPTURE(seed, text);
      const Reading fast = read(grammar.rules(), text);
      const bool slow = SlowReader(grammar.rules(), text).whole();
      if (fast.whole != slow) REQUIRE(fast.whole == slow);
      ++(slow ? taken : refused);
    }
  }
  CHECK(taken > 2000);
  CHECK(refused > 2000);
}

// The single bytes of the letters, and 60 tokens of up to five letters, some cut within a
// character.
std::vector<std::string> random_tokens(Random& random) {
  std::vector<std::string> tokens{""};
  for (const char* letter : kLetters) {
    for (const char* byte = letter; *byte; ++byte) tokens.emplace_back(1, *byte);
  }
  for (int i = 0; i < 60; ++i) {
    std::string token;
    for (size_t n = 1 + below(random, 5); n > 0; --n) token += kLetters[below(random, 4)];
    if (below(random, 3) == 0) token.erase(0, 1);
    if (below(random, 3) == 0 && !token.empty()) token.pop_back();
    tokens.push_back(token);
  }
  return tokens;
}

TEST_CASE("a mask has exactly the tokens that the matcher accepts") {
  size_t steps = 0;
  for (uint64_t seed = 0; seed < 220; ++seed) {
    Random random(seed);
    const RandomGrammar grammar(1000 + seed, 1 + seed % 5);
    const std::vector<std::string> tokens = random_tokens(random);
    const auto vocabulary = make_vocabulary(tokens, {0});
    // Every third run has almost no memory, so that cached masks are dropped and computed again.
    const grammar::MaskLimits tight = {1000, 20'000};
    Matcher matcher(
        make_masks(grammar.rules(), vocabulary, seed % 3 ? grammar::MaskLimits{} : tight));
    std::string text;
    for (int step = 0; step < 12; ++step, ++steps) {
      CAPTURE(seed, text);
      const int32_t wrong = wrong_bit(*vocabulary, matcher);
      if (wrong != -1) REQUIRE(wrong == -1);
      std::vector<int32_t> allowed;
      for (int32_t id = 1; static_cast<size_t>(id) < tokens.size(); ++id) {
        if (has_bit(matcher.mask(), id)) allowed.push_back(id);
      }
      if (allowed.empty()) {
        REQUIRE(matcher.finished());
        break;
      }
      const int32_t token = allowed[below(random, allowed.size())];
      REQUIRE(matcher.accept(token));
      text += tokens[static_cast<size_t>(token)];
    }
  }
  CHECK(steps > 1000);
}

// Names that are not listed: most characters lead to one place, so the mask is that of all plain
// tokens without those that end or go on as a listed name does.
TEST_CASE("a mask of all texts but some has exactly the tokens that the matcher accepts") {
  const char* const expressions[] = {
      "(?!(?:ab|日b|é)$).*c",       "(?!é).*",    "(?!(?:aa|ab|日日)).{2,}",
      "(?!a$|日$).*(?!b)",          "\"[^\"]*\"", "a|[^a日]|b.*|\"(?!ab\")(?!日\")[^\"]*\"",
      "(?![\\u0080-\\u{10FFFF}]).*"};
  size_t steps = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    std::vector<std::string> tokens = random_tokens(random);
    for (const char* more :
         {"\"", "\"a", "a\"", "c", "\n", "\xF0\x9F\x98\x80", "\xF0\x9F", "ab日\""}) {
      tokens.emplace_back(more);
    }
    const auto vocabulary = make_vocabulary(tokens, {0});
    const char* expression = expressions[seed % std::size(expressions)];
    Matcher matcher(make_masks(regex_rules(expression, "r"), vocabulary));
    for (int step = 0; step < 6 && !matcher.finished(); ++step, ++steps) {
      CAPTURE(seed, expression, step);
      const int32_t wrong = wrong_bit(*vocabulary, matcher);
      if (wrong != -1) REQUIRE(wrong == -1);
      const auto token = static_cast<int32_t>(1 + below(random, tokens.size() - 1));
      if (has_bit(matcher.mask(), token)) REQUIRE(matcher.accept(token));
    }
  }
  CHECK(steps > 200);
}

// The vocabulary is large enough for the walk over the trie to skip parts whose characters all lead
// to the same state.
TEST_CASE("masks over a large trie are right where some characters lead elsewhere") {
  const char* const letters[] = {"a", "b", "1", " ", "-", "é", "ы", "日", "\u00A0", "\u2003", "😀"};
  std::vector<std::string> tokens;
  for (const char* x : letters) {
    for (const char* y : letters) {
      for (const char* z : {"", "a", "b", "1 ", " b", "é", "日a", "\u00A0", "aaaaaaaa", "-a\""}) {
        tokens.push_back(std::string(x) + y + z);
      }
    }
  }
  const auto vocabulary = byte_vocabulary(std::move(tokens));
  Random random(7);
  for (const char* expression :
       {R"("(\S+\s+){0,9}\S+")", R"(".{0,5}")", R"(".{3,300}")", R"("[^"]*1[ab]-[^"]*")",
        R"("[ab]{2,20}( [ab]+)*")", R"("[^é"日]*(日a)?[^"]{0,3}")", R"("\p{L}*\s?\p{Lu}?-*")",
        R"("[^"\u2003]*")", R"("[\u0400-\u04FF a]*b?1?")", R"("[^"]*(ab|日|-a)[^"]*")",
        R"("[^"]*[ab]{12}[^"]*")", R"r((?!x)"[^"]*[ab]{12}[^"]*")r", R"r((?=.{8}$)"[^"]*1[^"]*")r",
        R"r((?=.{3,12}$)"(\S+\s+){0,3}\S+")r", R"r((?!.*日)"[^"]*(aa|é)[^"]*")r"}) {
    Matcher matcher(make_masks(regex_rules(expression, "r"), vocabulary));
    REQUIRE(matcher.accept("\""));
    for (int step = 0; step < 8; ++step) {
      CAPTURE(expression, step);
      REQUIRE(wrong_bit(*vocabulary, matcher) == -1);
      std::vector<int32_t> allowed;
      const std::span<const uint64_t> mask = matcher.mask();
      for (int32_t id = 0; static_cast<size_t>(id) + 1 < vocabulary->size(); ++id) {
        if (has_bit(mask, id)) allowed.push_back(id);
      }
      if (allowed.empty()) break;
      REQUIRE(matcher.accept(allowed[below(random, allowed.size())]));
    }
  }
}

// Tokens 1 and 2 have no text. The grammar allows token 3 by its name and by its text.
TEST_CASE("a grammar may name tokens, and all tokens but one") {
  const Rules rules = parse_gbnf("root ::= <open> !<[2]>{1,3} <[2]> (\"ab\" | <ab>)+ \"b\"?", "g");
  REQUIRE(rules.tokens().size() == 4);
  CHECK(rules.tokens()[0].name == "<open>");
  CHECK((rules.tokens()[1].id == 2 && rules.tokens()[1].others));
  CHECK((rules.tokens()[2].id == 2 && !rules.tokens()[2].others));
  const auto vocabulary = make_vocabulary({"", "", "", "ab", "a", "b", "abb"}, {0},
                                          {{0b10}, {0b1111010}, {0b100}, {0b1000}});
  const auto masks = make_masks(rules, vocabulary);
  const auto allows = [&](std::vector<int32_t> tokens, std::vector<int32_t> next) {
    Matcher matcher(masks);
    for (const int32_t token : tokens) REQUIRE(matcher.accept(token));
    CHECK(wrong_bit(*vocabulary, matcher) == -1);
    std::vector<int32_t> allowed;
    for (int32_t id = 0; id < 7; ++id) {
      if (has_bit(matcher.mask(), id)) allowed.push_back(id);
    }
    CHECK(allowed == next);
  };
  allows({}, {1});
  allows({1}, {1, 3, 4, 5, 6});
  allows({1, 1}, {1, 2, 3, 4, 5, 6});
  allows({1, 1, 4, 6}, {2});
  allows({1, 1, 2}, {3, 4, 6});
  allows({1, 1, 2, 4}, {5});
  allows({1, 1, 2, 3}, {0, 3, 4, 5, 6});  // by its name or its text: both are followed
  allows({1, 1, 2, 6}, {0});
}

TEST_CASE("a text generated token by token under the masks belongs to the grammar") {
  const auto vocabulary =
      make_vocabulary({"", "a", "b", "\xC3", "\xA9", "\xE6\x97", "\xA5", "aé"}, {0});
  size_t whole = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const RandomGrammar grammar(seed, 1 + seed % 3);
    const auto masks = make_masks(grammar.rules(), vocabulary);
    Writer writer{Random(seed), 3};
    std::string text;
    CAPTURE(seed, text);
    if (!writer.write(Matcher(masks), *vocabulary, text)) continue;  // the text became too long
    if (text.size() > 40) continue;
    ++whole;
    if (!SlowReader(grammar.rules(), text).whole()) {
      CAPTURE(text);
      REQUIRE(false);
    }
  }
  CHECK(whole > 200);
}

TEST_CASE("matchers that share their masks do not disturb each other") {
  const auto vocabulary = byte_vocabulary({"[[", "]]", "],", "[x"});
  const Rules rules = parse_gbnf("root ::= \"[\" (root (\",\" root)*)? \"]\" | \"x\"\n", "g");
  const auto masks = make_masks(rules, vocabulary, {4000, 30'000});
  std::vector<Matcher> matchers;
  matchers.reserve(8);
  for (int i = 0; i < 8; ++i) matchers.emplace_back(masks);
  std::vector<std::string> texts(matchers.size());
  Random random(5);
  for (int step = 0; step < 400; ++step) {
    const size_t which = below(random, matchers.size());
    Matcher& matcher = matchers[which];
    const std::span<const uint64_t> mask = matcher.mask();
    std::vector<int32_t> allowed;
    for (int32_t id = 0; id < 260; ++id) {
      if (has_bit(mask, id)) allowed.push_back(id);
    }
    if (allowed.empty()) continue;
    const int32_t token = allowed[below(random, allowed.size())];
    REQUIRE(matcher.accept(token));
    texts[which] += vocabulary->bytes(token);
    CAPTURE(texts[which]);
    REQUIRE(read(rules, texts[which]).alive);
    REQUIRE(read(rules, texts[which]).whole == matcher.may_end());
  }
}

TEST_CASE("a left-recursive rule is matched") {
  const Rules direct = parse_gbnf("root ::= root \"+\" n | n\nn ::= [0-9]+\n", "g");
  CHECK(read(direct, "1+22+3").whole);
  CHECK(read(direct, "1+").alive);
  CHECK(!read(direct, "1+").whole);
  CHECK(!read(direct, "+1").alive);
  const Rules around = parse_gbnf(
      "root ::= a\na ::= b \"x\" | \"1\"\nb ::= c \"y\"\nc ::= a \"z\" | empty a \"w\"\nempty ::= "
      "\"\"\n",
      "g");
  CHECK(read(around, "1").whole);
  CHECK(read(around, "1zyx").whole);
  CHECK(read(around, "1wyxzyx").whole);
  CHECK(!read(around, "1zx").alive);
  CHECK(!read(around, "1zy").whole);
  CHECK(read(parse_gbnf("root ::= root | \"x\"\n", "g"), "x").whole);
}

TEST_CASE("a rule without an end is an error that names the rule") {
  const auto said = [](const char* text) {
    return error_text([&] { Automaton(parse_gbnf(text, "my.gbnf")); }, Exit::Usage);
  };
  CHECK(has(said("root ::= root\n"), "my.gbnf: line 1, column 1: rule 'root' can never end"));
  CHECK(has(said("root ::= \"a\" list\n\nlist ::= \"b\" list\n"), "line 3, column 1: rule 'list'"));
  CHECK(has(said("root ::= \"x\" | a\na ::= b\nb ::= a \"y\"\n"), "rule 'a' can never end"));
  CHECK(said("root ::= \"x\"\nunused ::= unused\n") == "");
}

TEST_CASE("a repetition with large bounds is counted exactly by an automaton of few states") {
  for (const auto& [least, most] : {std::pair{0, 5000}, {3000, 3000}, {17, 4096}}) {
    const std::string text = "x[ab]{" + std::to_string(least) + "," + std::to_string(most) + "}y";
    const Rules rules = regex_rules(text, "r");
    CHECK(Automaton(rules).states() < 50);
    const auto reads = [&](int count) {
      return read(rules, "x" + std::string(static_cast<size_t>(count), 'a') + "y").whole;
    };
    CHECK(reads(least));
    CHECK(reads(most));
    CHECK(!reads(most + 1));
    CHECK((least == 0 || !reads(least - 1)));
    CHECK(!read(rules, "x" + std::string(static_cast<size_t>(most) + 1, 'b')).alive);
  }
}

TEST_CASE("masks inside a repetition and at both of its bounds are right") {
  const auto vocabulary =
      byte_vocabulary({"ab", "abc", "aaaa", "bbbbbbbb", "a\"", "ab\"", "é", "éé", "aé", "a\"b"});
  const Rules rules = regex_rules("\"[^\"]{40,60}\"", "r");
  const auto masks = make_masks(rules, vocabulary);
  Matcher matcher(masks);
  REQUIRE(matcher.accept("\""));
  for (int count = 0; count <= 60; ++count) {
    CAPTURE(count);
    REQUIRE(wrong_bit(*vocabulary, matcher) == -1);
    CHECK(has_bit(matcher.mask(), '"') == (count >= 40));
    CHECK(has_bit(matcher.mask(), 'z') == (count < 60));
    if (count < 60) REQUIRE(matcher.accept(count % 2 ? "é" : "z"));
  }
  REQUIRE(matcher.accept("\""));
  CHECK(matcher.finished());
}

TEST_CASE("a token may span several rules or end within a character") {
  const auto vocabulary =
      byte_vocabulary({"{\"a\":[1,2],\"b\":", "\xE6\x97", "\xA5!", "日本", "}}"});
  const Rules rules = parse_gbnf(
      "root ::= \"{\" pair (\",\" pair)* \"}\"\npair ::= \"\\\"\" [a-z日本]+ \"!\"? \"\\\":\" "
      "value\n"
      "value ::= [0-9] | \"[\" value (\",\" value)* \"]\" | root\n",
      "g");
  Matcher matcher(make_masks(rules, vocabulary));
  REQUIRE(wrong_bit(*vocabulary, matcher) == -1);
  REQUIRE(matcher.accept(256));
  REQUIRE(wrong_bit(*vocabulary, matcher) == -1);
  REQUIRE(matcher.accept("{\""));
  REQUIRE(matcher.accept(257));
  REQUIRE(wrong_bit(*vocabulary, matcher) == -1);
  CHECK(has_bit(matcher.mask(), 258));
  CHECK(has_bit(matcher.mask(), 0xA5));
  CHECK(!has_bit(matcher.mask(), 0xA6));
  CHECK(!has_bit(matcher.mask(), 'a'));
  REQUIRE(matcher.accept(258));
  REQUIRE(matcher.accept("\":5"));
  REQUIRE(wrong_bit(*vocabulary, matcher) == -1);
  CHECK(has_bit(matcher.mask(), 260));
  REQUIRE(matcher.accept(260));
  CHECK(matcher.finished());
}

TEST_CASE("end tokens are allowed exactly where the text may end") {
  const auto vocabulary = make_vocabulary({"</s>", "a", "b", "<|end|>"}, {0, 3});
  Matcher matcher(make_masks(parse_gbnf("root ::= \"a\" \"b\"?\n", "g"), vocabulary));
  CHECK(matcher.mask()[0] == 0b0010);
  CHECK(!matcher.accept(0));
  REQUIRE(matcher.accept(1));
  CHECK(matcher.mask()[0] == 0b1101);
  CHECK(matcher.may_end());
  CHECK(!matcher.finished());
  CHECK(matcher.accept(3));
  REQUIRE(matcher.accept(2));
  CHECK(matcher.mask()[0] == 0b1001);
  CHECK(matcher.finished());
  CHECK(!matcher.accept(1));
  CHECK(matcher.accept(0));
}

TEST_CASE("memory stays bounded for long, deep and ambiguous texts") {
  const auto vocabulary = byte_vocabulary({"[[[[", "aaaa"});
  const auto masks = make_masks(parse_gbnf("root ::= \"[\" root? \"]\" root? | [a-z]+\n", "g"),
                                vocabulary, {100'000, 1'000'000});
  Matcher matcher(masks);
  size_t most = 0;
  Random random(3);
  for (int step = 0; step < 3000; ++step) {
    const std::span<const uint64_t> mask = matcher.mask();
    const bool close = has_bit(mask, ']') && below(random, 3) > 0;
    if (has_bit(mask, '[') || close) {
      REQUIRE(matcher.accept(close ? "]" : "["));
    } else if (has_bit(mask, 'q')) {
      REQUIRE(matcher.accept("q"));
    } else {
      break;
    }
    most = std::max(most, masks->bytes());
  }
  CHECK(most < 4'000'000);

  Matcher deep(make_masks(parse_gbnf("root ::= \"[\" root \"]\" | \"x\"\n", "g"), vocabulary));
  const std::string message =
      error_text([&] { deep.accept(std::string(20'000, '[')); }, Exit::Failed);
  CHECK(has(message, "nests more than 10000"));
  CHECK(deep.accept("x"));  // the matcher is as before the Error

  // Recursion at the end of a rule needs no stack.
  Matcher list(make_masks(parse_gbnf("root ::= \"a\" root | \"b\"\n", "g"), vocabulary));
  for (int i = 0; i < 100; ++i) REQUIRE(list.accept(std::string(1000, 'a')));
  REQUIRE(list.accept("b"));
  CHECK(list.finished());
}

TEST_CASE("a grammar that is too large or too ambiguous is an error") {
  const auto said = [](const std::string& text, Exit code = Exit::Usage) {
    return error_text([&] { Automaton(parse_gbnf(text, "g")); }, code);
  };
  CHECK(has(said("root ::= ([a-z]{2000} \"x\"){10000000}\n"), "too large"));
  CHECK(has(said("root ::= ((\"a\"{2000} \"b\"){2000} \"c\"){20}\n"), "too large"));
  CHECK(has(said("root ::= (\"a\"? \"b\"?){1000}\n"), "may be empty"));
  CHECK(has(said("root ::= \"a\"{20000000}\n"), "too large"));
  CHECK(said("root ::= (\"a\"? \"b\"?)*\n") == "");
  CHECK(said("root ::= ((\"a\"*)*)*\n") == "");
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 20'000; ++i) {
    chain += "r" + std::to_string(i) + " ::= \"a\" r" + std::to_string(i + 1) + "\n";
  }
  const Rules rules = parse_gbnf(chain + "r20000 ::= \"b\"\n", "g");
  CHECK(read(rules, std::string(20'000, 'a') + "b").whole);
}

}  // namespace
}  // namespace skald::test
