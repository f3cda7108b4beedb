// Prints the time that masks need for a published vocabulary. Runs only with `skald_tests
// "[speed]"`.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "app/files/json.h"
#include "app/generate/constraint.h"
#include "app/schema/json_schema.h"
#include "engine/grammar/gbnf.h"
#include "engine/grammar/regex.h"
#include "tests/catch.h"
#include "tests/engine/grammar/grammar_tools.h"
#include "tests/paths.h"
#include "tokenizer/files/hf_tokenizer.h"

namespace skald::test {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

struct Case {
  const char* name;
  grammar::Rules rules;
  std::string text;  // that a model generates under the rules
};

// Measures the mask before each token of the text.
void measure(const Case& c, const Tokenizer& tokenizer,
             const std::shared_ptr<const grammar::Vocabulary>& vocabulary) {
  const std::vector<int32_t> ids = tokenizer.encode(c.text, {.add_bos = false, .add_eos = false});
  std::vector<double> first(ids.size(), 1e9), again(ids.size(), 1e9);
  double prepare = 1e9;
  size_t bytes = 0;
  for (int repeat = 0; repeat < 7; ++repeat) {
    const auto start = Clock::now();
    const auto masks = constraint_masks(c.rules, vocabulary);
    prepare = std::min(prepare, ms_since(start));
    for (std::vector<double>* times : {&first, &again}) {
      grammar::Matcher matcher(masks);
      for (size_t i = 0; i < ids.size(); ++i) {
        const auto begin = Clock::now();
        const bool allowed = has_bit(matcher.mask(), ids[i]);
        const bool taken = matcher.accept(ids[i]);
        (*times)[i] = std::min((*times)[i], ms_since(begin));
        INFO(c.name << " at token " << i << " '" << tokenizer.piece_bytes(ids[i]) << "'");
        REQUIRE(allowed);
        REQUIRE(taken);
      }
      CHECK(matcher.may_end());
    }
    bytes = masks->bytes();
  }
  const auto line = [&](const char* what, std::vector<double> times) {
    double sum = 0;
    for (double t : times) sum += t;
    const size_t worst = std::max_element(times.begin(), times.end()) - times.begin();
    const std::string at(tokenizer.piece_bytes(ids[worst]));
    const double most = times[worst];
    std::sort(times.begin(), times.end());
    std::printf("  %s: median %.4f, mean %.4f, 99 %% %.4f, worst %.4f ms (before '%s')\n", what,
                times[times.size() / 2], sum / static_cast<double>(times.size()),
                times[times.size() * 99 / 100], most, at.c_str());
  };
  std::printf("%s: %zu tokens, automaton %.3f ms, %.1f MiB of caches\n", c.name, ids.size(),
              prepare, static_cast<double>(bytes) / (1 << 20));
  line("first text", first);
  line("next texts", again);
}

TEST_CASE("time of the masks for Llama 3's vocabulary", "[.][speed]") {
  if (!have_shared("tokenizers/llama3-tokenizer.json")) return;
  const auto tokenizer = open_hf_tokenizer(shared_dir() / "tokenizers" / "llama3-tokenizer.json");
  const int32_t stop = tokenizer->find("<|end_of_text|>");
  double prepare = 1e9;
  std::shared_ptr<const grammar::Vocabulary> vocabulary;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const auto start = Clock::now();
    vocabulary = constraint_vocabulary(*tokenizer, {&stop, 1});
    prepare = std::min(prepare, ms_since(start));
  }
  std::printf("%zu tokens: vocabulary made in %.1f ms; %zu nodes, %zu of them not plain\n",
              vocabulary->size(), prepare,
              vocabulary->plain_trie().size() + vocabulary->other_trie().size(),
              vocabulary->other_trie().size());
  std::string list = "[";
  for (int i = 0; i < 40; ++i) {
    list += (i ? ", " : "") + std::string("{\"id\": ") + std::to_string(i * 37) +
            ", \"name\": \"Item number " + std::to_string(i) +
            " \\u00e9 caf\xc3\xa9\", \"tags\": [\"red\", \"bl\\\"ue\", null, true], \"price\": " +
            std::to_string(i) + ".5e-3}";
  }
  list += "]";
  const Json person = Json::parse(R"({"type": "object", "properties": {
    "name": {"type": "string", "maxLength": 1000}, "age": {"type": "integer", "minimum": 0, "maximum": 150},
    "email": {"type": "string", "format": "email"}, "born": {"type": "string", "format": "date"},
    "kind": {"enum": ["cat", "dog", "horse"]}, "score": {"type": "number", "minimum": 0, "maximum": 1},
    "about": {"type": "string", "minLength": 10, "maxLength": 200},
    "friends": {"type": "array", "items": {"$ref": "#"}, "maxItems": 50}},
    "required": ["name", "age"], "additionalProperties": false})");
  std::string someone =
      R"({"name": "Ada Lovelace and her very long name", "age": 36, "email": "ada@example.org", "born": "1815-12-10",)"
      R"( "kind": "cat", "score": 0.875, "about": "She wrote the first program, for a machine that was never built.", "friends": [)";
  std::string people = someone;
  for (int i = 0; i < 10; ++i) people += (i ? ", " : "") + someone + "]}";
  people += "]}";
  const std::string prose(
      R"(It was a bright cold day in April, and the clocks were striking thirteen.)");
  const Case cases[] = {
      {"any JSON", json_rules(), list},
      {"schema", json_schema_rules(person, "schema").rules, people},
      {"regex .*", grammar::regex_rules(".*", "regex"), prose},
      {"regex words", grammar::regex_rules("([A-Za-z]+[,.]? ?)+", "regex"), prose},
      {"a rule that may end anywhere",
       grammar::parse_gbnf("root ::= (any \"|\")* any\nany ::= [^|]*\n", "gbnf"),
       prose + "|" + prose},
  };
  for (const Case& c : cases) measure(c, *tokenizer, vocabulary);
}

}  // namespace
}  // namespace skald::test
