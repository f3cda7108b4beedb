#include "app/generate/constraint.h"

#include <bit>
#include <numeric>

#include "app/files/json.h"
#include "app/model/open.h"
#include "app/schema/json_schema.h"
#include "engine/base/error.h"
#include "engine/grammar/gbnf.h"
#include "engine/grammar/regex.h"
#include "tests/engine/grammar/grammar_tools.h"
#include "tests/program_output.h"
#include "tests/small_models.h"
#include "tests/temp_folder.h"
#include "tests/tokenizer/tokenizer_data.h"
#include "tokenizer/text/text_stream.h"

namespace skald::test {
namespace {

using grammar::regex_rules;

// Picks random allowed tokens until the text may end. Returns the printed text, and the ids in
// `ids`.
std::string write(const grammar::Rules& rules, const Tokenizer& tokenizer, TextStream::Begin begin,
                  uint64_t seed, std::vector<int32_t>& ids) {
  const int32_t stop = tokenizer.special().eos;
  const auto vocabulary = constraint_vocabulary(tokenizer, std::span(&stop, stop >= 0 ? 1 : 0));
  Constraint constraint(constraint_masks(rules, vocabulary), tokenizer, begin);
  TextStream stream(tokenizer, begin);
  Random random(seed);
  std::string text;
  ids.clear();
  for (int step = 0; step < 400 && !constraint.finished(); ++step) {
    const std::span<const uint64_t> mask = constraint.allowed();
    std::vector<int32_t> allowed;
    for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
      if (has_bit(mask, id)) allowed.push_back(id);
    }
    REQUIRE(!allowed.empty());
    const int32_t id = allowed[below(random, allowed.size())];
    if (id == stop) return text + stream.flush();
    CHECK(!tokenizer.is_control(id));
    constraint.accept(id);
    text += stream.feed(id);
    ids.push_back(id);
  }
  if (constraint.may_end()) return text + stream.flush();
  return "too long";
}

std::vector<std::unique_ptr<Tokenizer>> some_tokenizers() {
  std::vector<std::unique_ptr<Tokenizer>> list;
  list.push_back(open_tokenizer(bundled_model()));
  list.push_back(open_sentencepiece(tokenizer_data("unigram.model")));
  for (const char* name :
       {"tokenizers/llama2-tokenizer.model", "tokenizers/llama3-tokenizer.json"}) {
    if (have_shared(name)) list.push_back(open_tokenizer(shared_dir() / name));
  }
  return list;
}

TEST_CASE(
    "the printed text obeys the grammar, with every tokenizer, at the start of a text and in a "
    "continuation") {
  const grammar::Rules expression = regex_rules("(yes|no|日本é)( (a|b){1,3})?\\n", "r");
  const grammar::Rules spaced = regex_rules(" (yes|no) ?\\.", "r");
  const grammar::Rules schema = json_schema_rules(Json::parse(R"({"type": "object", "properties":
      {"a": {"type": "string", "maxLength": 6}, "b": {"enum": [1, "é日"]}}, "required": ["b"]})"),
                                                  "s")
                                    .rules;
  size_t whole = 0;
  for (const auto& tokenizer : some_tokenizers()) {
    const std::string hard = "日本é\n{\"}";
    const bool writes_everything = has(tokenizer->decode(tokenizer->encode(hard, {})), hard);
    for (const TextStream::Begin begin :
         {TextStream::Begin::Text, TextStream::Begin::Continuation}) {
      for (const grammar::Rules* rules : {&expression, &spaced, &schema}) {
        for (uint64_t seed = 0; seed < 12; ++seed) {
          std::vector<int32_t> ids;
          std::string text;
          try {
            text = write(*rules, *tokenizer, begin, seed, ids);
          } catch (const Error& error) {  // the tokenizer has no token for the next character
            CAPTURE(tokenizer->name(), error.what());
            CHECK(!writes_everything);
            continue;
          }
          if (text == "too long") continue;
          CAPTURE(tokenizer->name(), text, ids);
          ++whole;
          CHECK(read(*rules, text).whole);
          if (rules == &schema) CHECK(Json::accept(text));
        }
      }
    }
  }
  CHECK(whole > 50);
}

TEST_CASE("where the grammar leaves one text, its usual tokens are forced") {
  int compared = 0;
  const auto accept = [](Constraint& constraint, const Tokenizer& tokenizer,
                         const std::string& text) {
    for (const int32_t id :
         tokenizer.encode(text, {.add_bos = false, .add_eos = false, .starts_text = false})) {
      constraint.accept(id);
    }
  };
  for (const auto& tokenizer : some_tokenizers()) {
    CAPTURE(tokenizer->name());
    const auto vocabulary = constraint_vocabulary(*tokenizer, {});
    const auto masks = constraint_masks(
        regex_rules("(my|your) little dog and the (ant|cow)( sat on a mat)?", "r"), vocabulary);
    Constraint constraint(masks, *tokenizer, TextStream::Begin::Continuation);
    CHECK(constraint.forced().empty());
    accept(constraint, *tokenizer, "your");
    const std::vector<int32_t> forced(constraint.forced().begin(), constraint.forced().end());
    // The last one may become another with what follows.
    std::string text;
    for (const int32_t id : forced) text += tokenizer->piece_bytes(id);
    CHECK(std::string(" little dog and the").starts_with(text));
    CHECK(text.size() >= std::string(" little dog and").size());
    // Tokens are forced as the tokenizer splits the whole text, unless it would split its begin in
    // another way then.
    const EncodeOptions plain{.add_bos = false, .add_eos = false, .starts_text = false};
    const auto usual = tokenizer->encode("your little dog and the", plain);
    const auto begin = tokenizer->encode("your", plain);
    if (std::equal(begin.begin(), begin.end(), usual.begin())) {
      CHECK(std::equal(forced.begin(), forced.end(), usual.begin() + std::ssize(begin)));
      ++compared;
    }
    // A caller that asks the model is given them one by one.
    for (const int32_t id : forced) {
      const std::span<const uint64_t> mask = constraint.allowed();
      CHECK(has_bit(mask, id));
      CHECK(std::accumulate(mask.begin(), mask.end(), 0,
                            [](int sum, uint64_t word) { return sum + std::popcount(word); }) == 1);
      CHECK(constraint.forced().front() == id);
      constraint.accept(id);
    }
    CHECK(constraint.forced().empty());
    CHECK(!constraint.finished());

    Constraint free(masks, *tokenizer, TextStream::Begin::Continuation, false);
    accept(free, *tokenizer, "your");
    CHECK(free.forced().empty());
  }
  CHECK(compared > 0);
}

TEST_CASE("skald writes the same text whether or not the model is asked for forced tokens") {
  const std::string schema =
      R"({"type":"object","properties":{"registration_number":{"type":"integer"},)"
      R"("favourite":{"enum":["the elephant in the room","the elegant swan"]}},)"
      R"("required":["registration_number","favourite"],"additionalProperties":false})";
  for (const char* seed : {"1", "2", "3"}) {
    CAPTURE(seed);
    const std::vector<std::string> arguments = {"run", "-s", seed,   "-n",
                                                "200", "-j", schema, "Once"};
    auto more = arguments;
    more.insert(more.end(), {"--json", "--logprobs", "1"});
    const Json report = Json::parse(skald(more).out);
    more.resize(arguments.size());
    more.emplace_back("--stats");
    const Outcome plain = skald(more);
    CHECK(plain.out == report["text"].get<std::string>());
    CHECK(has(plain.err, " forced"));
    CHECK(Json::accept(plain.out));
    // Where a bias may ban tokens, none is forced.
    more.insert(more.end(), {"--logit-bias", "5-inf"});
    CHECK(!has(skald(more).err, " forced"));
  }
}

TEST_CASE("where no token can continue the text, the constraint is an error") {
  const auto tokenizer = open_sentencepiece(tokenizer_data("unigram.model"));
  const auto vocabulary = make_vocabulary({"a", "b"});
  Constraint constraint(constraint_masks(regex_rules("ac", "r"), vocabulary), *tokenizer,
                        TextStream::Begin::Continuation);
  CHECK(constraint.allowed()[0] == 1);
  constraint.accept(0);
  CHECK(has(error_text([&] { constraint.allowed(); }, Exit::Failed), "no token of this model"));
}

TEST_CASE("skald run obeys a schema, a regular expression, a grammar") {
  const std::string schema =
      R"({"type":"object","properties":{"name":{"type":"string","maxLength":8},)"
      R"("age":{"type":"integer","minimum":1,"maximum":99}},"required":["name","age"],)"
      R"("additionalProperties":false})";
  for (const char* seed : {"1", "2", "3"}) {
    const Outcome json = skald({"run", "-s", seed, "--temp", "2", "-j", schema, "Once"});
    CAPTURE(json.out, json.err);
    CHECK(json.code == 0);
    const Json value = Json::parse(json.out, nullptr, false);
    REQUIRE(value.is_object());
    CHECK(value.size() == 2);
    REQUIRE(value["age"].is_number());
    const auto age = value["age"].get<double>();
    CHECK(age == static_cast<int>(age));  // 8.0 is an integer too
    const Outcome date =
        skald({"run", "-s", seed, "--temp", "2", "--regex", "\\d{4}-\\d\\d", "In"});
    CHECK(date.code == 0);
    CHECK(date.out.size() == 7);
    CHECK(date.out[4] == '-');
    const Outcome any = skald({"run", "-s", seed, "--format", "json", "-n", "400", "Once"});
    CHECK(any.code == 0);
    CHECK(read(json_rules(), any.out).alive);  // whole, or cut off after 400 tokens
  }
  const TempFolder folder;
  folder.write("g.gbnf", "root ::= (\"cat\" | \"dog\") \"\\n\"\n");
  const Outcome animal = skald({"run", "--grammar", (folder.path() / "g.gbnf").string(), "My"});
  CHECK((animal.out == "cat\n" || animal.out == "dog\n"));
  CHECK(skald({"run", "--grammar", "root ::= \"cow\"", "--ignore-eos", "My"}).out == "cow");
  const Outcome report = skald({"run", "--regex", "x{3}", "--json", "--logprobs", "1", "My"});
  CHECK(Json::parse(report.out)["text"] == "xxx");
  CHECK(has(report.out, "\"stop\""));
}

TEST_CASE("a grammar names tokens of the model by number and by name") {
  const auto tokenizer = open_tokenizer(bundled_model());
  const std::string bos(tokenizer->piece(tokenizer->special().bos));
  const std::string grammar = "root ::= " + bos + " !" + bos + " !<[300]> <[300]> \"ab\"";
  const Outcome outcome = skald({"run", "--grammar", grammar, "--json", "-n", "30", "Once"});
  CAPTURE(grammar, outcome.err);
  REQUIRE(outcome.code == 0);
  const Json ids = Json::parse(outcome.out)["ids"];
  REQUIRE(ids.size() >= 5);
  CHECK(ids[0] == tokenizer->special().bos);
  CHECK(ids[1] != tokenizer->special().bos);
  CHECK(ids[2] != 300);
  CHECK(ids[3] == 300);
  const std::string text = Json::parse(outcome.out)["text"];
  CHECK(text.ends_with("ab"));
  check_refused(skald({"run", "--grammar", "root ::= <nowhere>", "x"}), 2,
                "names the token <nowhere>, which this model does not have");
  check_refused(skald({"run", "--grammar", "root ::= <[99999999]>", "x"}), 2, "<[99999999]>");
  const std::string eos = "<[" + std::to_string(tokenizer->special().eos) + "]>";
  check_refused(skald({"run", "--grammar", "root ::= " + eos, "x"}), 2, "ends every text");
}

TEST_CASE("a wrong constraint of skald run is reported in one line with exit code 2") {
  const struct {
    std::vector<std::string> arguments;
    const char* says;
  } cases[] = {
      {{"-j", "{\"type\": }"}, "--json-schema: not valid JSON"},
      {{"-j", "/nowhere.json"}, "/nowhere.json: cannot be opened"},
      {{"-j", "{\"not\": {}}"}, "can never end"},
      {{"-j", "{\"readonly\": true}", "--strict-schema"}, "'readonly'; refused because of"},
      {{"--regex", "a", "--any-order"}, "--any-order is for a JSON schema"},
      {{"--regex", "(a"}, "--regex: line 1, column 1: this ( is never closed"},
      {{"--grammar", "root ::= root"}, "rule 'root' can never end"},
      {{"--grammar", "/nowhere.gbnf"}, "cannot be opened"},
      {{"--format", "xml"}, "xml"},
      {{"--format", "json", "--regex", "a"}, "given twice"},
  };
  for (const auto& c : cases) {
    std::vector<std::string> arguments{"run", "-p", "x"};
    arguments.insert(arguments.end(), c.arguments.begin(), c.arguments.end());
    check_refused(skald(arguments), 2, c.says);
  }
  const Outcome note = skald({"run", "-j", R"({"const":1,"readonly":true})", "x"});
  CHECK(note.code == 0);
  CHECK(has(note.err, "--json-schema: keywords without a meaning are ignored: 'readonly'"));
}

TEST_CASE("each line of a batch obeys its own response_format") {
  const std::string lines =
      R"({"id":"a","prompt":"x","max_tokens":300,"temperature":1.5,"seed":4,"n":2,"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"object","properties":{"k":{"enum":["p","q"]}},"required":["k"]}}}})"
      "\n"
      R"({"id":"b","prompt":"x","max_tokens":5})"
      "\n"
      R"({"id":"c","prompt":"x","response_format":{"type":"json_schema","json_schema":{"schema":{"not":{}}}}})"
      "\n";
  const Outcome outcome = skald({"batch", "-i", "-", "-o", "-"}, lines);
  CAPTURE(outcome.out, outcome.err);
  CHECK(outcome.code == 5);
  std::istringstream results(outcome.out);
  int seen = 0;
  for (std::string line; std::getline(results, line);) {
    const Json result = Json::parse(line);
    const std::string text = result.dump();
    if (has(text, "\"a\"")) {
      ++seen;
      CHECK((has(text, "\\\"k\\\"") && (has(text, "\\\"p\\\"") || has(text, "\\\"q\\\""))));
    }
    if (has(text, "can never end")) ++seen;
  }
  CHECK(seen == 2);
}

}  // namespace
}  // namespace skald::test
