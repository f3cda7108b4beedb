#include "app/schema/json_schema.h"

#include "app/files/json.h"
#include "app/schema/parts.h"
#include "engine/base/error.h"
#include "tests/app/schema/schema_validator.h"
#include "tests/catch.h"
#include "tests/engine/grammar/grammar_tools.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

grammar::Rules rules_of(const char* schema) {
  return json_schema_rules(parse_user_json(schema, "schema"), "schema").rules;
}

struct SchemaCase {
  const char* schema;
  std::vector<const char*> good, bad;
};

const SchemaCase kCases[] = {
    {R"({"type": "string", "pattern": "[a-c]{16}-?"})",
     {R"("abcabcabcabcabca")", R"("xyz\"\nabcabcabcabcabca-\\ é")",
      R"("abcabcabcabcabcXabcabcabcabcabcabcabc")"},
     {R"("")", R"("abcabcabcabcabc")", R"("abcabcabcabcabcXabcabc")"}},
    {R"({"type": "string", "pattern": "^(?:\\S+\\s+){0,20}\\S+$"})",
     {R"("a")", R"("a b  c\nd")", R"("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21")"},
     {R"("")", R"(" a")", R"("a ")",
      R"("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22")"}},
    {R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"},
         "c": {"type": "boolean"}}, "required": ["b"]})",
     {R"({"b":""})", R"({"a": 1, "b": "x"})", R"({"a":-3,"b":"x","c":true})",
      "{\n  \"b\": \"é\\n\"\n}"},
     {"{}", R"({"a": 1})", R"({"b": "x", "a": 1})", R"({"a": 1.5, "b": ""})",
      R"({"a": 01, "b": ""})", R"({"b": ""} )", R"({"b": "",})", R"({,"b": ""})"}},
    {R"({"properties": {"a": {}, "b": {}}})",
     {"{}", R"({"a":1})", R"({"b":1})", R"({"a":1,"b":[{}]})"},
     {R"({"b":1,"a":1})"}},
    {R"({"type": "object", "properties": {"ab": {"type": "integer"}, "a\"": {"const": 1}},
         "additionalProperties": {"type": "string"}})",
     {R"({"ab": 1, "abc": "x", "": "y"})", R"({"a": "x"})", R"({"b": "x", "b\u0061": "y"})",
      R"({"a\"":1})"},
     {R"({"ab": "x"})", R"({"\u0061b": "x"})", R"({"a\u0062": "x"})", R"({"x": 1})",
      R"({"a\"":"x"})"}},
    {R"({"type": "object", "patternProperties": {"^x_[a-z]+$": {"type": "integer"}}})",
     {"{}", R"({"x_a": 1, "x_bc": 2})", R"({"y": 1})"},
     {R"({"x_a": "s"})"}},
    {R"({"type": "object", "required": ["k"], "additionalProperties": {"type": "null"}})",
     {R"({"k": null})", R"({"k": null, "j": null})"},
     {"{}", R"({"j": null})", R"({"k": 1})"}},
    {R"({"type": "object", "propertyNames": {"pattern": "^[a-c]$"}, "maxProperties": 2})",
     {"{}", R"({"a": 1, "b": {"x": 1}})"},
     {R"({"d": 1})", R"({"a":1,"b":1,"c":1})"}},
    {R"({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3})",
     {"[1]", "[1,2, 3]", "[ 1 ]"},
     {"[]", "[1,2,3,4]", "[\"a\"]", "[1,]"}},
    {R"({"prefixItems": [{"type": "integer"}, {"type": "string"}], "items": {"type": "null"}, "minItems": 1})",
     {"[1]", R"([1, "a"])", R"([1, "a", null, null])"},
     {"[]", R"(["a"])", R"([1, "a", 2])", "[1,]"}},
    {R"({"prefixItems": [{"type": "integer"}, {"type": "string"}], "items": false})",
     {"[]", "[1]", R"([1, "a"])"},
     {R"([1, "a", 1])"}},
    {R"({"type": "array", "minItems": 2})", {"[1, {}]"}, {"[1]"}},
    {R"({"type": "string", "minLength": 2, "maxLength": 3})",
     {R"("ab")", R"("日本語")", R"("\n\u00e9")", R"("\ud83d\ude00a")", "\"\xF0\x9F\x98\x80q\""},
     {R"("a")", R"("abcd")", R"("\ud83d")", R"("a\ud83d")", "\"a\nb\"", R"("\ude00a")"}},
    {R"({"type": "string", "pattern": "^[A-Z][a-z]*$", "maxLength": 4})",
     {R"("A")", R"("Abcd")"},
     {R"("Abcde")", R"("a")", R"("")"}},
    {R"({"type": "string", "pattern": "b\"c"})",
     {R"("b\"c")", R"("xxb\"cyy\\")"},
     {R"("bc")", R"("b\"")"}},
    {R"({"type": "string", "format": "date"})",
     {R"("2024-02-29")", R"("1999-12-31")"},
     {R"("2023-02-29")", R"("2024-13-01")", R"("2024-04-31")", R"("24-01-01")"}},
    {R"({"type": "string", "format": "date-time"})",
     {R"("2024-02-29T23:59:59Z")", R"("1999-12-31T00:00:00.5+05:30")"},
     {R"("2024-02-29 23:59:59Z")"}},
    {R"({"type": "string", "format": "uuid"})",
     {R"("123e4567-e89b-12d3-a456-426614174000")"},
     {R"("123e4567")"}},
    {R"({"type": "string", "format": "ipv4"})",
     {R"("192.168.0.255")"},
     {R"("256.1.1.1")", R"("01.1.1.1")"}},
    {R"({"enum": ["a", 1, null, {"x": [1]}, "q\"é"]})",
     {R"("a")", "1", "null", R"({"x":[1]})", R"("q\"é")"},
     {R"("b")", "2"}},
    {R"({"enum": ["a", 1, null, "bcd"], "type": ["string", "null"], "maxLength": 2})",
     {R"("a")", "null"},
     {"1", R"("bcd")"}},
    {R"({"const": {"a": 1}})", {R"({"a":1})"}, {R"({"a":2})"}},
    {R"({"type": ["string", "null"]})", {R"("a")", "null"}, {"1"}},
    {R"({"type": "string", "nullable": true})", {R"("a")", "null"}, {"1"}},
    {R"({"anyOf": [{"type": "integer"}, {"type": "boolean"}]})", {"1", "true"}, {"1.5", "null"}},
    {R"({"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"],
         "anyOf": [{"properties": {"k": {"const": "a"}}}, {"properties": {"k": {"maxLength": 1}, "v": {"type": "integer"}}, "required": ["v"]}]})",
     {R"({"k":"a"})", R"({"k":"b","v":1})"},
     {R"({"k":"b"})", R"({"k":"bb","v":1})"}},
    {R"({"allOf": [{"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}}, "required": ["a"]},
                   {"properties": {"a": {"maximum": 5}, "b": {"type": "null"}}, "required": ["b"]}]})",
     {R"({"a":3,"b":null})", R"({"a":5,"b":null})"},
     {R"({"a":2,"b":null})", R"({"a":6,"b":null})", R"({"a":3})"}},
    {R"({"$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer"},
         "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["v", "next"]}}, "$ref": "#/$defs/node"})",
     {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":null}})"},
     {R"({"v":1})", R"({"v":1,"next":{}})"}},
    {R"({"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}}})",
     {"{}", R"({"kids":[{},{"kids":[]}]})"},
     {R"({"kids":[1]})"}},
    {R"({"type": "object", "properties": {"a/b": {"type": "null"}, "c": {"$ref": "#/properties/a~1b"}}})",
     {R"({"a/b":null,"c":null})"},
     {R"({"c":1})"}},
    {R"({"type": "object", "properties": {"a": false, "b": true}})",
     {"{}", R"({"b":[1]})"},
     {R"({"a":1})"}},
    {"true",
     {"1", "[null]", R"({"a":{}})", "\n\"x\""},
     {"", "x", "01", "1.", "1e", "1e400", "[1", "nul"}},
    {R"({"name": "answer", "strict": true, "schema": {"type": "integer"}})", {"12"}, {"true"}},
    {R"({"type": "number", "minimum": -1, "maximum": 1.25})",
     {"0", "-1", "1.25", "-0.5", "1.2499", "-0.999", "0.0", "1.250"},
     {"-1.01", "1.26", "1.2501", "2", "-2", "-1.0001"}},
    {R"({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1})",
     {"0.5", "0.001", "0.999"},
     {"0", "1", "0.0", "1.0", "-0.5", "-0"}},
    {R"({"type": "integer", "minimum": -7, "exclusiveMaximum": 12})",
     {"-7", "0", "11", "-1"},
     {"-8", "12", "110", "-70"}},
    {R"({"type": "object"})", {"{}", R"({"a":{"b":[1,"x",null]}})"}, {"[]", "1"}},
    {R"({"type": "array"})", {"[]", "[1,[2]]"}, {"{}"}},
};

TEST_CASE("a schema accepts every valid text and no invalid one") {
  for (const SchemaCase& c : kCases) {
    CAPTURE(c.schema);
    const grammar::Rules rules = rules_of(c.schema);
    for (const char* text : c.good) {
      CAPTURE(text);
      CHECK(read(rules, text).whole);
    }
    for (const char* text : c.bad) {
      CAPTURE(text);
      CHECK(!read(rules, text).whole);
    }
  }
}

TEST_CASE("a schema with bounds accepts exactly the integers between them") {
  Random random(1);
  size_t count = 0;
  for (int i = 0; i < 150; ++i) {
    const int64_t range = i < 100 ? 130 : 12'000;
    const auto pick = [&] { return static_cast<int64_t>(below(random, 2 * range)) - range; };
    const int64_t a = pick(), b = pick();
    const int64_t low = std::min(a, b), high = std::max(a, b);
    const bool open = below(random, 2);
    Json schema{{"type", "integer"}};
    schema[open ? "exclusiveMinimum" : "minimum"] = low - open;
    schema["maximum"] = high;
    const grammar::Rules rules = json_schema_rules(schema, "s").rules;
    grammar::Matcher start(make_masks(rules, make_vocabulary({})));
    for (int64_t n = -range - 10; n <= range + 10; ++n) {
      grammar::Matcher matcher = start;
      const bool taken = matcher.accept(std::to_string(n)) && matcher.may_end();
      if (taken != (n >= low && n <= high)) {
        CAPTURE(low, high, n, taken);
        REQUIRE(false);
      }
      count += taken;
    }
  }
  CHECK(count > 50'000);
}

TEST_CASE("a schema with bounds accepts exactly the fractions between them") {
  Random random(2);
  size_t count = 0;
  const double steps[] = {0.5, 0.25, 0.125, 1, 0.001, 3.7};
  for (int i = 0; i < 100; ++i) {
    const double step = steps[below(random, std::size(steps))];
    const auto pick = [&] { return (static_cast<double>(below(random, 81)) - 40) * step; };
    double low = pick(), high = pick();
    if (low > high) std::swap(low, high);
    const bool open_low = below(random, 2), open_high = below(random, 2);
    Json schema{{"type", "number"}};
    schema[open_low ? "exclusiveMinimum" : "minimum"] = low;
    schema[open_high ? "exclusiveMaximum" : "maximum"] = high;
    if (low == high && (open_low || open_high)) continue;
    const grammar::Rules rules = json_schema_rules(schema, "s").rules;
    grammar::Matcher start(make_masks(rules, make_vocabulary({})));
    std::vector<std::string> texts{Json(low).dump(), Json(high).dump()};
    for (int j = 0; j < 200; ++j) {
      std::string text = below(random, 2) ? "-" : "";
      text += std::to_string(below(random, 150) / (1 + below(random, 50)));
      if (below(random, 3)) {
        text += ".";
        for (size_t n = 1 + below(random, 4); n > 0; --n) text += "0123456789"[below(random, 10)];
      }
      texts.push_back(text);
    }
    for (const std::string& text : texts) {
      const double x = std::stod(text);
      if (x == 0 && text[0] == '-') continue;  // "-0" is refused, although it equals 0
      if (text.find('e') != std::string::npos) continue;
      const bool within = (open_low ? x > low : x >= low) && (open_high ? x < high : x <= high);
      grammar::Matcher matcher = start;
      const bool taken = matcher.accept(text) && matcher.may_end();
      if (taken != within) {
        CAPTURE(low, high, open_low, open_high, text, taken);
        REQUIRE(false);
      }
      count += taken;
    }
  }
  CHECK(count > 1000);
}

TEST_CASE("an unsupported or wrong part of a schema is an error that names its place") {
  const struct {
    const char* schema;
    const char* says;
  } cases[] = {
      {R"({"type": "strin"})", "#/type: unknown type 'strin', did you mean 'string'?"},
      {R"({"type": 3})", "#/type: expected a type"},
      {R"({"type": "string", "pattern": "(?<=a)b"})", "#/pattern: line 1, column 1: lookbehind"},
      {R"({"type": "string", "pattern": "((?=a)b)*"})", "lookahead is supported only at the top"},
      {R"({"$ref": "http://x/y"})", "refers to another document"},
      {R"({"$ref": "#/$defs/x"})", "$ref '#/$defs/x' refers to a place"},
      {R"({"$ref": "#"})", "can never end"},
      {R"({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"})",
       "can never end"},
      {R"({"$ref": "#", "minimum": 3})", "circle"},
      {R"({"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]})",
       "can never end"},
      {R"({"type": "number", "multipleOf": 0})", "#/multipleOf: expected a number above 0"},
      {R"({"enum": [1, 2], "type": "string"})", "can never end"},
      {R"({"type": "integer", "minimum": 5, "maximum": 4})", "can never end"},
      {R"({"anyOf": []})", "#/anyOf: expected an array of schemas"},
      {R"({"properties": []})", "#/properties: expected an object"},
      {R"({"required": "a"})", "#/required: expected an array of names"},
      {R"({"minLength": -1})", "#/minLength: expected a whole number"},
      {R"({"minItems": 1.5})", "#/minItems: expected a whole number"},
      {R"({"minimum": "a"})", "#/minimum: expected a number"},
      {R"({"properties": {"a": 3}})", "#/properties/a: expected a schema"},
      {R"(3)", "#: expected a schema"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.schema);
    const std::string said =
        error_text([&] { grammar::Automaton automaton(rules_of(c.schema)); }, Exit::Usage);
    CAPTURE(said);
    CHECK(has(said, c.says));
    CHECK(has(said, "schema"));
  }
  CHECK(has(error_text([] { parse_user_json("{\"a\": }", "file.json"); }, Exit::Usage),
            "file.json: not valid JSON: line 1, column "));
  CHECK(has(error_text([] { parse_user_json(std::string(100'000, '['), "f"); }, Exit::Usage),
            "nests more than 200 levels deep"));
}

TEST_CASE("a line says which keywords are read less strictly or have no meaning") {
  const auto notes = [](const char* schema) {
    return json_schema_rules(parse_user_json(schema, "s"), "s").notes;
  };
  CHECK(notes(R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})").empty());
  CHECK(notes(R"({"type": "integer", "x-y": 1, "title": "t"})").empty());
  auto said = notes(R"({"type": "array", "readonly": true, "items": {"minimun": 3}})");
  REQUIRE(said.size() == 1);
  CHECK(said[0] == "s: keywords without a meaning are ignored: 'readonly', 'minimun'");
  said = notes(R"({"type": "array", "uniqueItems": true})");
  REQUIRE(said.size() == 1);
  CHECK(has(said[0], "s: #: uniqueItems is kept only for items of few values"));

  const auto refused = [](const char* schema) {
    return error_text(
        [&] { json_schema_rules(parse_user_json(schema, "s"), "s", {.strict = true}); },
        Exit::Usage);
  };
  CHECK(has(refused(R"({"type": "integer", "readonly": true})"), "'readonly'; refused because"));
  CHECK(has(refused(R"({"type": "array", "uniqueItems": true})"), "--strict-schema"));
}

// Read as it is written, such a pattern is at up to 100 places of its count at once.
TEST_CASE("a count that may begin anywhere in a string is at one place at a time") {
  const auto masks = make_masks(rules_of(R"({"type": "string", "pattern": "[a-z]{100}"})"),
                                byte_vocabulary({"ab", "a-", "a\""}));
  Matcher matcher(masks);
  REQUIRE(matcher.accept("\"x-"));
  for (int i = 0; i < 100; ++i) {
    CHECK(!has_bit(matcher.mask(), '"'));
    REQUIRE(matcher.accept("a"));
  }
  CHECK(has_bit(matcher.mask(), '"'));
  CHECK(masks->stacks().bytes() < 500'000);
}

TEST_CASE("a request's response_format is text, any object, or a schema") {
  const auto rules = [](const char* text) {
    return response_format_rules(parse_user_json(text, "f"), "f");
  };
  CHECK(!rules(R"({"type": "text"})"));
  CHECK(read(rules(R"({"type": "json_object"})")->rules, R"({"a": 1})").whole);
  CHECK(!read(rules(R"({"type": "json_object"})")->rules, "[]").alive);
  const auto schema = rules(R"({"type": "json_schema", "json_schema": {"name": "n", "strict": true,
      "schema": {"type": "integer"}}})");
  CHECK(read(schema->rules, "1").whole);
  for (const char* bad : {"3", "{}", R"({"type": "xml"})", R"({"type": "json_schema"})"}) {
    CHECK(has(error_text([&] { rules(bad); }, Exit::Usage), "f: "));
  }
}

}  // namespace
}  // namespace skald::test
