// Random schemas, and random texts that obey them.
#include "app/files/json.h"
#include "app/generate/constraint.h"
#include "app/schema/json_schema.h"
#include "engine/base/error.h"
#include "tests/app/schema/schema_validator.h"
#include "tests/catch.h"
#include "tests/engine/grammar/grammar_tools.h"

namespace skald::test {
namespace {

class RandomSchema {
 public:
  explicit RandomSchema(uint64_t seed) : random_(seed) {}

  Json whole() {
    Json schema = node(3);
    if (!schema.is_object()) schema = Json{{"type", "object"}};
    Json definitions = Json::object();
    definitions["x"] = node(2);
    definitions["y"] = Json{{"type", "object"},
                            {"properties", {{"v", node(1)}, {"more", {{"$ref", "#/$defs/y"}}}}}};
    schema["$defs"] = std::move(definitions);
    return schema;
  }

 private:
  size_t upto(size_t n) { return below(random_, n + 1); }
  bool chance(int percent) { return static_cast<int>(below(random_, 100)) < percent; }

  Json node(int depth) {
    if (depth == 0 || chance(25)) return scalar();
    switch (below(random_, 8)) {
      case 0:
      case 1:
      case 2:
        return object(depth);
      case 3:
      case 4:
        return array(depth);
      case 5: {
        Json choices = Json::array();
        for (size_t i = upto(2) + 1; i > 0; --i) choices.push_back(node(depth - 1));
        return Json{{"anyOf", std::move(choices)}};
      }
      case 6:
        return Json{{"allOf", Json::array({object(depth), object(depth)})}};
      default:
        return Json{{"$ref", chance(50) ? "#/$defs/x" : "#/$defs/y"}};
    }
  }

  Json scalar() {
    switch (below(random_, 9)) {
      case 0: {
        Json schema{{"type", "string"}};
        const size_t least = upto(3);
        if (chance(60)) schema["minLength"] = least;
        if (chance(60)) schema["maxLength"] = least + upto(20);
        return schema;
      }
      case 1: {
        const char* const patterns[] = {"^[a-z]{2,4}$", "x\"y", "^\\d+-\\w*$", "^(é)+$",
                                        "^(ab|c)*$"};
        return Json{{"type", "string"}, {"pattern", patterns[below(random_, 5)]}};
      }
      case 2: {
        const char* const formats[] = {"date", "date-time", "uuid"};
        return Json{{"type", "string"}, {"format", formats[below(random_, 3)]}};
      }
      case 3: {
        Json schema{{"type", "integer"}};
        const auto least = static_cast<int64_t>(upto(2000)) - 1000;
        if (chance(60)) schema[chance(50) ? "minimum" : "exclusiveMinimum"] = least;
        if (chance(60)) schema["maximum"] = least + 1 + static_cast<int64_t>(upto(500));
        return schema;
      }
      case 4: {
        Json schema{{"type", "number"}};
        const double least = (static_cast<double>(upto(200)) - 100) / 8;
        if (chance(60)) schema["minimum"] = least;
        if (chance(60)) schema["exclusiveMaximum"] = least + 0.5 + static_cast<double>(upto(9)) / 7;
        return schema;
      }
      case 5:
        return Json{{"enum", Json::array({"a\"b", 3, nullptr, true, Json{{"k", "é"}}})}};
      case 6:
        return Json{{"type", Json::array({"null", "boolean", "string"})}};
      case 7:
        return Json{{"const", chance(50) ? Json("ü\n") : Json(-1.5)}};
      default:
        return Json::object();
    }
  }

  Json object(int depth) {
    Json schema{{"type", "object"}};
    Json properties = Json::object(), required = Json::array();
    for (const char* name : {"a", "ab", "b\"", "é", "c"}) {
      if (chance(40)) properties[name] = node(depth - 1);
      if (properties.contains(name) ? chance(50) : chance(5)) required.push_back(name);
    }
    if (!properties.empty() || chance(50)) schema["properties"] = std::move(properties);
    if (!required.empty()) schema["required"] = std::move(required);
    if (chance(40))
      schema["additionalProperties"] = chance(50) ? Json(chance(50)) : node(depth - 1);
    return schema;
  }

  Json array(int depth) {
    Json schema{{"type", "array"}};
    if (chance(70)) schema["items"] = node(depth - 1);
    if (chance(30)) schema["prefixItems"] = Json::array({node(depth - 1), node(depth - 1)});
    const size_t least = upto(3);
    if (chance(50)) schema["minItems"] = least;
    if (chance(50)) schema["maxItems"] = least + upto(3);
    return schema;
  }

  Random random_;
};

TEST_CASE("a text generated under a schema parses and is valid") {
  const auto vocabulary = byte_vocabulary(
      {"{\"",      "\": ",  "\", \"",  "\":",  "},",  "[[",   "]}",     "true",     "null",
       "fal",      "se",    "12",      "-1.",  "é",   "\xC3", "日",     "\xE6\x97", "\xF0\x9F",
       "\x98\x80", "\\u00", "\\ud83d", "\\\"", "a\"", "\n  ", "00",     "0.",       "e-1",
       "ab",       "\"}",   "\"]",     "{}",   "[]",  "e1",   "\"a\":", "\"é\":"});
  size_t texts = 0, schemas = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    const Json schema = RandomSchema(seed).whole();
    std::shared_ptr<Masks> masks;
    CAPTURE(seed, schema.dump());
    try {
      masks = constraint_masks(json_schema_rules(schema, "s").rules, vocabulary);
    } catch (const Error& error) {
      const std::string said = error.what();
      CAPTURE(said);
      const bool impossible = said.find("can never end") != std::string::npos;
      const bool circle = said.find("$ref leads in a circle") != std::string::npos;
      REQUIRE((impossible || circle));
      continue;
    }
    ++schemas;
    Writer writer{Random(seed), 30 + seed % 100};
    const SchemaValidator validator(schema);
    for (int i = 0; i < 4; ++i) {
      std::string text;
      if (!writer.write(Matcher(masks), *vocabulary, text)) continue;
      ++texts;
      CAPTURE(text);
      const Json value = Json::parse(text, nullptr, false);
      if (value.is_discarded() || !validator.valid(value))
        FAIL("the text is not valid by the schema");
    }
  }
  CHECK(texts > 3000);
  CHECK(schemas > 1000);
}

TEST_CASE("random JSON texts parse") {
  const auto vocabulary =
      byte_vocabulary({"{\"", "\": ", "\\ud83d\\ude00", "\xE6\x97", "\xA5", "e+", "[[", "\\u", "d8",
                       "D8", "dc", "\\/", "1e99", "true", "null"});
  const auto masks = constraint_masks(json_rules(), vocabulary);
  size_t whole = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Writer writer{Random(seed), 20 + seed % 200};
    std::string text;
    if (!writer.write(Matcher(masks), *vocabulary, text)) continue;
    ++whole;
    CAPTURE(seed, text);
    if (!Json::accept(text)) FAIL("the text is no JSON");
  }
  CHECK(whole > 2800);
}

TEST_CASE("the mask of allowed tokens agrees with trying each token alone") {
  const auto vocabulary = byte_vocabulary({"{\"",
                                           "\": ",
                                           "\", \"",
                                           "\":",
                                           "},",
                                           "[[",
                                           "]}",
                                           "true",
                                           "nul",
                                           "12",
                                           "-1.",
                                           "é\"",
                                           "\xE6\x97",
                                           "\\u00",
                                           "\\\"",
                                           "a\"}",
                                           "\n  ",
                                           "aaaaaaaa",
                                           "abcabcabcabcabcabcabc",
                                           "\"a\":",
                                           "\"é\": "});
  size_t steps = 0;
  for (uint64_t seed = 0; seed < 250; ++seed) {
    std::shared_ptr<Masks> masks;
    try {
      masks =
          constraint_masks(json_schema_rules(RandomSchema(seed).whole(), "s").rules, vocabulary);
    } catch (const Error&) {
      continue;
    }
    Random random(seed);
    Matcher matcher(masks);
    std::string text;
    for (int step = 0; step < 30 && !matcher.finished(); ++step, ++steps) {
      CAPTURE(seed, text);
      const int32_t wrong = wrong_bit(*vocabulary, matcher);
      if (wrong != -1) REQUIRE(wrong == -1);
      std::vector<int32_t> allowed;
      for (int32_t id = 0; static_cast<size_t>(id) < vocabulary->size(); ++id) {
        if (has_bit(matcher.mask(), id) && !vocabulary->is_end(id)) allowed.push_back(id);
      }
      if (allowed.empty()) break;
      const int32_t token = allowed[below(random, allowed.size())];
      matcher.accept(token);
      text += vocabulary->bytes(token);
    }
  }
  CHECK(steps > 3000);
}

}  // namespace
}  // namespace skald::test
