// Keywords of JSON Schema: which instances each allows.
#include "app/files/json.h"
#include "app/schema/json_schema.h"
#include "engine/base/error.h"
#include "tests/catch.h"
#include "tests/engine/grammar/grammar_tools.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

struct KeywordCase {
  const char* schema;
  std::vector<const char*> good, bad;
};

void check(const KeywordCase& c, SchemaOptions options = {}) {
  CAPTURE(c.schema);
  const SchemaRules rules = json_schema_rules(parse_user_json(c.schema, "s"), "s", options);
  CHECK(rules.notes.empty());
  for (const char* text : c.good) {
    CAPTURE(text);
    CHECK(read(rules.rules, text).whole);
  }
  for (const char* text : c.bad) {
    CAPTURE(text);
    CHECK(!read(rules.rules, text).whole);
  }
}

TEST_CASE("members and items that no keyword has checked are restricted through allOf and $ref") {
  const KeywordCase cases[] = {
      {R"({"$ref": "#/$defs/A", "required": ["p"], "properties": {"p": {"type": "integer"}},
           "$defs": {"A": {"unevaluatedProperties": false}}})",
       {"1"},
       {R"({"p":-5})", "{}"}},
      {R"({"type": "object", "allOf": [{"properties": {"foo": {"type": "integer"}}},
           {"unevaluatedProperties": false}]})",
       {"{}"},
       {R"({"foo":-5})"}},
      {R"({"type": "object", "properties": {"a": true}, "anyOf": [{"properties": {"b": {"type": "null"}}, "required": ["b"]},
           {"patternProperties": {"^c": {"type": "integer"}}}], "unevaluatedProperties": {"type": "boolean"}})",
       {R"({"a": 1, "b": null})", R"({"a": 1, "c": 5})", R"({"b": null, "c": 3, "x": true})"},
       {R"({"a": 1, "x": 5})", R"({"b": 1, "c": true})"}},
      {R"({"allOf": [{"prefixItems": [{"minimum": 3}]}], "items": {"minimum": 5}})",
       {"[5]", "[5, 6]", R"(["x"])"},
       {"[3,5]", "[3]"}},
      {R"({"type": "array", "allOf": [{"prefixItems": [true]}, {"unevaluatedItems": false}]})",
       {"[]"},
       {"[1]"}},
      {R"({"type": "array", "allOf": [{"prefixItems": [true]}], "unevaluatedItems": false})",
       {"[]", "[1]"},
       {"[1, 2]"}},
      {R"({"type": "array", "contains": {"type": "string"}, "unevaluatedItems": {"type": "null"}})",
       {R"(["a", null, "b"])"},
       {"[null]", R"(["a", 1])"}},
  };
  for (const KeywordCase& c : cases) check(c);
}

TEST_CASE("a keyword restricts only values of its type") {
  const KeywordCase cases[] = {
      {R"({"minimum": 1})", {R"("x")", "null", "1", "[0]"}, {"0"}},
      {R"({"maxLength": 1})", {"12", R"("x")"}, {R"("xx")"}},
      {R"({"required": ["a"]})", {"[]", R"({"a": 1})"}, {"{}"}},
      {R"({"type": "object", "properties": {}})", {"{}", R"({"a": 1})"}, {"1"}},
      {R"({"type": "integer"})", {"1", "1.0", "-7.00"}, {"1.5", "1."}},
      {R"({"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"})",
       {"1"},
       {"1.0"}},
      {R"({"minimum": 0, "type": "number"})", {"0", "1e5", "2.5E-3"}, {"-1"}},
      {R"({"const": {"a": 1}})",
       {R"({"a":1})", R"({"a": 1})", R"({"a": 1.0})"},
       {R"({"a": 2})", "{}"}},
      {R"({"const": 3})", {"3", "3.0"}, {"3.1", R"("3")"}},
      {R"({"enum": [[1, "x"], {"k": null}]})",
       {R"([1, "x"])", R"({ "k": null })"},
       {R"([1])", R"({"k": null, "l": 1})"}},
      {R"({"const": 12.50})", {"12.5", "12.50"}, {"12.51"}},
  };
  for (const KeywordCase& c : cases) check(c);
}

TEST_CASE("schemas are inverted, chosen between and made dependent") {
  const KeywordCase cases[] = {
      {R"({"not": {"type": "string"}})", {"1", "{}"}, {R"("x")"}},
      {R"({"type": "string", "not": {"enum": ["a", "bc"]}})",
       {R"("b")", R"("")", R"("bcd")"},
       {R"("a")", R"("bc")"}},
      {R"({"type": "number", "not": {"const": 5}})", {"4", "5.5", "50"}, {"5", "5.0"}},
      {R"({"type": "string", "not": {"pattern": "^a.*z$"}})",
       {R"("az!")", R"("a")"},
       {R"("az")", R"("abz")"}},
      {R"({"type": "integer", "not": {"minimum": 3, "maximum": 5}})", {"2", "6"}, {"3", "5"}},
      {R"({"type": "object", "not": {"required": ["a", "b"]}})",
       {"{}", R"({"a": 1})", R"({"b": 1})"},
       {R"({"a": 1, "b": 2})"}},
      {R"({"type": "object", "not": {"properties": {"a": {"const": 1}}}})",
       {R"({"a": 2})"},
       {"{}", R"({"a": 1})"}},
      {R"({"type": "array", "not": {"items": {"type": "integer"}}})",
       {R"([1, "a"])"},
       {"[]", "[1, 2]"}},
      {R"({"not": {"const": {"a": 1}}})",
       {R"({"a": 2})", R"({"a": 1, "b": 1})", "{}", "3"},
       {R"({"a": 1})"}},
      {R"({"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 2}]})",
       {"1", "2.5"},
       {"3", "1.5"}},
      {R"({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]})",
       {R"({"a": 1})", R"({"b": 1})"},
       {"{}", R"({"a": 1, "b": 1})"}},
      {R"({"type": "object", "properties": {"k": {"enum": ["x", "y"]}, "v": true}, "required": ["k"],
           "if": {"properties": {"k": {"const": "x"}}}, "then": {"required": ["v"]}, "else": {"properties": {"v": {"type": "null"}}}})",
       {R"({"k": "x", "v": 1})", R"({"k": "y"})", R"({"k": "y", "v": null})"},
       {R"({"k": "x"})", R"({"k": "y", "v": 1})"}},
      {R"({"type": "object", "properties": {"a": true, "b": true}, "dependentRequired": {"a": ["b"]}})",
       {"{}", R"({"b": 1})", R"({"a": 1, "b": 1})"},
       {R"({"a": 1})"}},
      {R"({"type": "object", "properties": {"a": true, "b": true}, "dependentSchemas": {"a": {"properties": {"b": {"type": "null"}}}}})",
       {R"({"a": 1})", R"({"a": 1, "b": null})", R"({"b": 1})"},
       {R"({"a": 1, "b": 1})"}},
      {R"({"type": "object", "dependencies": {"a": ["b"], "c": {"required": ["d"]}}})",
       {"{}", R"({"a": 1, "b": 1})", R"({"c": 1, "d": 1})"},
       {R"({"a": 1})", R"({"c": 1})"}},
  };
  for (const KeywordCase& c : cases) check(c);
}

TEST_CASE("members and items are counted and compared") {
  const KeywordCase cases[] = {
      {R"({"type": "object", "properties": {"a": true, "b": true, "c": true}, "minProperties": 2, "additionalProperties": false})",
       {R"({"a": 1, "b": 1})", R"({"b": 1, "c": 1})"},
       {"{}", R"({"b": 1})"}},
      {R"({"type": "object", "properties": {"a": true}, "maxProperties": 1})",
       {"{}", R"({"a": 1})", R"({"z": 1})"},
       {R"({"a": 1, "z": 1})"}},
      {R"({"type": "object", "minProperties": 1})", {R"({"a": 1})"}, {"{}"}},
      {R"({"type": "array", "uniqueItems": true, "items": {"enum": ["a", "b", 3]}})",
       {"[]", R"(["b", "a"])", R"([3, "a", "b"])"},
       {R"(["a", "a"])", "[3, 3.0]"}},
      {R"({"type": "array", "uniqueItems": true, "maxItems": 2, "items": {"enum": ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"]}})",
       {"[]", R"(["l", "a"])", R"(["b"])"},
       {R"(["l", "l"])", R"(["a", "b", "c"])"}},
      {R"({"type": "array", "uniqueItems": true, "items": {"type": "boolean"}, "minItems": 2})",
       {"[true, false]"},
       {"[true]", "[true, true]", "[true, false, true]"}},
      {R"({"type": "array", "contains": {"type": "integer"}, "minContains": 2, "maxContains": 3})",
       {"[1, 2]", R"([1, "a", 2, null, 3])"},
       {"[1]", "[1, 2, 3, 4]", R"(["a"])"}},
      {R"({"type": "array", "contains": {"const": 1}})", {"[1]", "[2, 1]"}, {"[]", "[2]"}},
      {R"({"type": "number", "multipleOf": 0.01})",
       {"0", "1.25", "-3.1", "2.500"},
       {"0.001", "1.255"}},
      {R"({"type": "integer", "multipleOf": 7, "minimum": 10, "maximum": 40})",
       {"14", "35", "21.0"},
       {"7", "15", "42"}},
      {R"({"type": "number", "not": {"multipleOf": 2}})", {"1", "2.5"}, {"4", "-6.0"}},
  };
  for (const KeywordCase& c : cases) check(c);
}

TEST_CASE("patterns have lengths, anchors anywhere, and stand beside each other") {
  const KeywordCase cases[] = {
      {R"({"type": "string", "pattern": "a*b*", "maxLength": 3})",
       {R"("aab")", R"("")"},
       {R"("aabb")"}},
      {R"({"type": "string", "pattern": "^[a-z]+(-[a-z]+)*$", "minLength": 3, "maxLength": 5})",
       {R"("a-b")", R"("abcde")", R"("a-b-c")"},
       {R"("ab")", R"("abcdef")", R"("a--b")"}},
      {R"s({"type": "string", "pattern": "(^a|b$)"})s",
       {R"("ax")", R"("xb")"},
       {R"("xa")", R"("bx")"}},
      {R"({"type": "string", "pattern": "^(?!foo)[a-z]+$"})",
       {R"("fob")"},
       {R"("foo")", R"("foobar")"}},
      {R"({"type": "string", "allOf": [{"pattern": "a"}, {"pattern": "^[ab]{2}$"}]})",
       {R"("ab")", R"("aa")"},
       {R"("bb")", R"("abb")"}},
      {R"({"type": "string", "pattern": "^\\p{Lu}[\\p{L}\\p{Zs}]*$", "maxLength": 8})",
       {"\"Ärger im\"", "\"Жук\""},
       {"\"ärger\"", R"("A1")", "\"Ärger im Haus\""}},
      {R"({"type": "object", "patternProperties": {"^\\p{Script=Greek}+$": {"type": "null"}}, "additionalProperties": {"type": "boolean"}})",
       {"{\"αβ\": null, \"a\": true}"},
       {"{\"αβ\": true}", "{\"a\": null}"}},
      {R"({"type": "string", "pattern": "^\\S+$"})", {R"("ab")"}, {"\"a\xC2\xA0\"", R"("a b")"}},
      {R"({"type": "object", "properties": {"x_a": {"type": "integer"}}, "patternProperties": {"^x_": {"minimum": 3}, "b$": {"type": "string"}},
           "additionalProperties": {"type": "null"}})",
       {R"({"x_a": 3})", R"({"x_": 4, "b": "s", "q": null})", R"({"x_b": "s"})"},
       {R"({"x_a": 2})", R"({"x_a": "s"})", R"({"x_": 1})", R"({"b": null})", R"({"q": 1})",
        R"({"x_b": 4})"}},
      {R"({"type": "object", "properties": {"ab": true}, "propertyNames": {"maxLength": 2}})",
       {R"({"ab": 1, "x": 2})"},
       {R"({"abc": 1})"}},
  };
  for (const KeywordCase& c : cases) check(c);
}

TEST_CASE("formats have the width of their standards; an unknown one is a note for people") {
  const struct {
    const char* format;
    std::vector<const char*> good, bad;
  } cases[] = {
      {"duration", {"P1DT2H", "PT5M", "P3Y6M4DT12H30M5S", "P2W"}, {"P", "PT", "1D", "P1D2H"}},
      {"uri",
       {"http://a.org/x%20y", "https://localhost:8080/a?b=c#d", "mailto:a@b.c", "urn:isbn:045",
        "ftp://[::1]/x", "http://x.y/~a/(b)"},
       {"a b", "//x", "http://a b", "http://x/%2"}},
      {"email",
       {"a@b.c", "a.b.c@d.org", "x+y@sub.example.com", R"(\"joe b\"@x.com)", "a@[IPv6:::1]"},
       {"a", "a@", "@b", "a..b@c.d", "joe b@x.com", "a@[::1]"}},
      {"ipv6",
       {"::1", "::", "1::8", "2001:db8::ff00:42:8329", "::ffff:1.2.3.4"},
       {":::", "1:2:3", "1::2::3", "12345::"}},
      {"hostname",
       {"xn--bcher-kva.example", "a-b.c", "localhost", "a", "ab", "abc", "a-c", "abcd", "a--d",
        "ab-d", "abcde", "ab-de", "a--de", "a-cdefg", "XN--a"},
       {"-a", "a-", "a..b", "a_b", "ab--cd", "ab--c", "xn--", "xn--a-", "ab-", "abc-"}},
      {"uuid",
       {"123E4567-E89B-12D3-A456-426614174000", "123e4567-e89b-12d3-a456-426614174000"},
       {"123e4567"}},
      {"time", {"23:59:60Z", "10:00:00+01:00", "10:00:00.25z"}, {"24:00:00Z", "10:00:60Z"}},
      {"date-time", {"1998-12-31T23:59:60Z", "2020-02-29t00:00:00Z"}, {"2021-02-29T00:00:00Z"}},
      {"iri", {"http://bücher.example/日?ä#ö", "urn:x"}, {"not-an-iri", "http://a b", "日:x"}},
      {"iri-reference", {"日/x", "//ü", "#é"}, {"a b", "%zz"}},
      {"uri-template",
       {"http://x.org/{a}/{?b,c*}", "{+path:10}/é", "plain", "{a.b}"},
       {"http://x/{", "{}", "a}", "{a b}", "{a:0}", "%1"}},
      {"idn-email", {"jürgen@b.c", "a@b.c"}, {"a b@c.d", "@b"}},
      {"idn-hostname", {"xn--bcher-kva.example"}, {"-a"}},
      {"regex", {"[a"}, {}},
      {"klingon", {"anything"}, {}},
  };
  for (const auto& c : cases) {
    const std::string schema = std::string(R"({"type": "string", "format": ")") + c.format + "\"}";
    CAPTURE(c.format);
    const grammar::Rules rules = json_schema_rules(parse_user_json(schema, "s"), "s").rules;
    for (const char* text : c.good) {
      CAPTURE(text);
      CHECK(read(rules, "\"" + std::string(text) + "\"").whole);
    }
    for (const char* text : c.bad) {
      CAPTURE(text);
      CHECK(!read(rules, "\"" + std::string(text) + "\"").whole);
    }
  }
}

TEST_CASE("the format regex is a note, since no expression describes it") {
  const auto notes_of = [](const char* text) {
    return json_schema_rules(parse_user_json(text, "s"), "s").notes;
  };
  const auto notes = notes_of(R"({"properties": {"r": {"type": "string", "format": "regex"}}})");
  REQUIRE(notes.size() == 1);
  CHECK(has(notes[0], "the format regex is not kept"));
  CHECK(notes_of(R"({"type": "string", "format": "klingon"})").empty());
}

TEST_CASE("references reach by pointer, by $id and by $anchor") {
  const KeywordCase cases[] = {
      {R"({"$id": "http://x.org/a/b/root.json", "$defs": {"up": {"$id": "../c.json", "type": "integer"}, "same": {"$id": "./d.json", "type": "null"}},
           "anyOf": [{"$ref": "./../c.json"}, {"$ref": "http://x.org/a/b/d.json"}, {"$ref": "/a/b/../../a/c.json"}]})",
       {"1", "null"},
       {R"("x")"}},
      {R"({"$id": "a/b.json", "$defs": {"c": {"$id": "../c.json", "type": "integer"}}, "$ref": "./../c.json"})",
       {"1"},
       {R"("x")"}},
      {R"({"$id": "http://x.org/root.json", "$defs": {"A": {"$id": "a.json", "$defs": {"n": {"$anchor": "num", "type": "integer"}}}},
           "anyOf": [{"$ref": "a.json#num"}, {"$ref": "http://x.org/a.json#/$defs/n"}]})",
       {"1"},
       {R"("x")"}},
      {R"({"$defs": {"tree": {"type": "object", "properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
           "required": ["v"], "additionalProperties": false}}, "allOf": [{"$ref": "#/$defs/tree"}, {"properties": {"v": {"minimum": 1}}}]})",
       {R"({"v": 1, "kids": [{"v": -1, "kids": []}]})"},
       {R"({"v": 0})", R"({"v": 1, "kids": [{}]})"}},
  };
  for (const KeywordCase& c : cases) check(c);
}

TEST_CASE("members may come in any order on request") {
  const KeywordCase c{
      R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": true}, "required": ["a"],
                          "additionalProperties": {"type": "null"}})",
      {R"({"a": 1, "b": 2})", R"({"b": 2, "a": 1})", R"({"z": null, "a": 1})"},
      {R"({"b": 2})", R"({"b": 2, "a": 1, "b": 3})", R"({"z": 1, "a": 1})"}};
  check(c, {.any_order = true});
}

TEST_CASE("an enum of 50,000 texts is compiled in well under a second") {
  Json schema{{"enum", Json::array()}};
  for (int i = 0; i < 50'000; ++i) schema["enum"].push_back("entry/" + std::to_string(i * 7919));
  const grammar::Rules rules = json_schema_rules(schema, "s").rules;
  CHECK(read(rules, "\"entry/7919\"").whole);
  CHECK(!read(rules, "\"entry/7918\"").whole);
}

}  // namespace
}  // namespace skald::test
