// Hostile templates: each must end soon, in one clear line.
#include <chrono>

#include "tests/catch.h"
#include "tests/error_text.h"
#include "tokenizer/jinja/template.h"

namespace skald::test {
namespace {

std::string repeated(const std::string& part, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += part;
  return all;
}

// The error of the run; "" without an error.
std::string run(const std::string& text, const jinja::Limits& limits = {}) {
  jinja::RenderOptions options;
  options.limits = limits;
  return error_text([&] { jinja::Template("t", text).render({}, options); }, Exit::Failed);
}

std::string parse(const std::string& text) {
  return error_text([&] { jinja::Template("t", text); });
}

const jinja::Limits kSmall = {100'000, 1'000'000, 64'000'000, 600};

TEST_CASE("endless work stops at the limit of steps, and the error gives the line") {
  CHECK(run("\n{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}") ==
        "t: line 2: the template takes more than 20000000 steps; it may loop without end");
  for (const char* text : {
           "{% set ns = namespace(s='x') %}{% for i in range(99999) %}"
           "{% set ns.s = ns.s ~ ns.s[:1] %}{% endfor %}",
           "{% set x = ('x' * 90000) %}{% for i in range(99999) %}"
           "{% set y = x.replace('x', 'y') %}{% endfor %}",
           "{% set x = range(9999) %}{% for i in x %}{{ x | sort | length }}{% endfor %}",
           "{% set x = range(9999) | list %}{% for i in x %}{{ '' if -1 in x }}{% endfor %}",
           "{% for i in range(99999) %}{{ range(99999) | last }}{% endfor %}",
       }) {
    CAPTURE(text);
    CHECK(has(run(text, kSmall), "steps"));
  }
}

TEST_CASE("a text or list that is too large is refused before it is made") {
  CHECK(has(run("{{ 'x' * 9000000000 }}"), "a string of more than 67108864 bytes"));
  CHECK(has(run("{{ [1] * 9000000000 }}"), "bytes of memory"));
  CHECK(has(run("{{ [1, 2, 3] * 9223372036854775807 }}"), "bytes of memory"));
  CHECK(has(run("{{ 'ab' * 9223372036854775807 }}"), "bytes; the template"));
  CHECK(has(run("{{ range(100001) }}"), "range() of more than 100000 numbers"));
  CHECK(has(run("{{ 'x'.ljust(9000000000) }}{{ 1 | tojson(indent=9000000000) }}"), "bytes"));
  CHECK(has(run("{{ [1] | tojson(indent=9000000000) }}"), "bytes"));
  CHECK(has(run("{{ 'x' | indent(9000000000, true) }}"), "bytes"));
  CHECK(has(run("{{ '%9999999d' % 1 }}"), "width"));
  CHECK(has(run("{{ '{:9999999}'.format(1) }}"), "width"));
  CHECK(has(run("{{ [1] | batch(9000000000, 0) | list }}"), "bytes of memory"));
  CHECK(has(run("{{ [1] | slice(9000000000) | list }}"), "bytes of memory"));
  CHECK(has(run("{{ ('a' * 60000).replace('', 'b' * 60000) }}"), "bytes; the template"));
  CHECK(
      has(run("{% for i in range(99999) %}{{ 'x' * 99999 }}{% endfor %}"), "bytes; the template"));
  CHECK(has(run("{% set ns = namespace(l=[]) %}{% for i in range(99999) %}"
                "{% set ns.l = ns.l + ['x' * 99999 ~ i] %}{% endfor %}",
                {20'000'000, 1 << 20, 4 << 20, 600}),
            "bytes of memory"));
}

TEST_CASE("lists that share parts do not blow up when printed, compared or written as JSON") {
  const std::string bomb =
      "{% set ns = namespace(a=[1, 1], b=[1, 1]) %}{% for i in range(60) %}"
      "{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}{% endfor %}";
  for (const char* use :
       {"{{ ns.a }}", "{{ ns.a | tojson }}", "{{ ns.a == ns.b }}", "{{ ns.a < ns.b }}",
        "{{ ns.b in [ns.a] }}", "{{ [ns.a] | unique }}", "{{ '%s' % [ns.a] }}"}) {
    CAPTURE(use);
    CHECK(run(bomb + use, kSmall) != "");
  }
}

TEST_CASE("values nested too deeply are refused") {
  CHECK(has(run("{% set ns = namespace(a=[]) %}{% for i in range(99999) %}"
                "{% set ns.a = [ns.a] %}{% endfor %}"),
            "nested more than"));
  CHECK(has(run("{% set ns = namespace(a={}) %}{% for i in range(99999) %}"
                "{% set ns.a = {'a': ns.a} %}{% endfor %}"),
            "nested more than"));
  CHECK(has(run("{% set ns = namespace(a='x') %}{% for i in range(99999) %}"
                "{% set ns.a = [[ns.a].count] %}{% endfor %}"),
            "nested more than"));
  const std::string deep = repeated("[", 100'000) + repeated("]", 100'000);
  CHECK(has(error_text([&] { jinja::from_json(deep, "j"); }, Exit::Usage), "nested more than"));
}

TEST_CASE("a value that contains itself can be made and is freed") {
  CHECK(run("{% set ns = namespace() %}{% set ns.self = ns %}{% set ns.l = [ns] %}"
            "{% macro m() %}{{ ns.self.self.l | length }}{% endmacro %}{% set ns.m = m %}{{ m() "
            "}}") == "");
  CHECK(has(run("{% set ns = namespace() %}{% set ns.self = ns %}{{ ns }}"), "nested more than"));
  CHECK(run("{% set ns = namespace() %}{% for i in 'ab' %}{% set ns.l = loop %}{% endfor %}"
            "{{ ns.l.index }}{{ ns.l.last }}{{ ns.l.nextitem }}") == "");
}

TEST_CASE("endless recursion of macros is stopped") {
  CHECK(has(run("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), "a macro may call itself"));
  CHECK(has(run("{% macro m() %}{% call m() %}{% endcall %}{{ caller }}{% endmacro %}{{ m() }}"),
            "a macro may call itself"));
  CHECK(has(run("{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ [1] | map('string') | "
                "join(a()) }}{% endmacro %}{{ a() }}"),
            "a macro may call itself"));
}

TEST_CASE("a template nested too deeply is refused") {
  constexpr std::pair<const char*, const char*> kPairs[] = {
      {"(", ")"},    {"[", "]"}, {"{1:", "}"}, {"a[", "]"},         {"a(", ")"},
      {"a|b(", ")"}, {"-", ""},  {"not ", ""}, {"a if b else ", ""}};
  for (const auto& [open, close] : kPairs) {
    CAPTURE(open);
    const std::string text = repeated(open, 50'000) + "1" + repeated(close, 50'000);
    CHECK(has(parse("{{ " + text + " }}"), "nested more than 200 deep"));
  }
  for (const std::string part : {"1 + ", "1 ** ", "1 and ", "1 or ", "1 * "}) {
    CHECK(has(parse("{{ " + repeated(part, 5'000) + "1 }}"), "nested more than 200 deep"));
  }
  for (const std::string part : {"|upper", ".a", "[0]", "()", " is defined"}) {
    CHECK(parse("{{ a" + repeated(part, 5'000) + " }}") != "");
  }
  for (const std::string part : {"{% if 1 %}", "{% for a in b %}", "{% set x %}", "{% with %}",
                                 "{% macro m() %}", "{% call a() %}", "{% filter upper %}"}) {
    CHECK(has(parse(repeated(part, 20'000)), "nested more than 200 deep"));
  }
  CHECK(parse("{% for " + repeated("(", 50'000)) != "");
  // Long chains are not deep.
  CHECK(run("{{ 1 " + repeated("~ 1 ", 5'000) + "}}") == "");
  CHECK(run("{% if 0 %}" + repeated("{% elif 0 %}", 5'000) + "{% endif %}") == "");
  CHECK(run("{{ " + repeated("1 if 0 else ", 40) + "1 }}") == "");
}

TEST_CASE("a template that is not UTF-8 or too long is refused") {
  CHECK(parse("\xff\xfe") == "t: is not valid UTF-8; save it as UTF-8");
  CHECK(has(parse(std::string(2 << 20, 'x')), "at most 1048576"));
  CHECK(parse(std::string("a\0b", 3)) == "");
}

TEST_CASE("a template with numbers beyond 64 bits is refused") {
  CHECK(has(parse("{{ 9223372036854775808 }}"), "too large"));
  for (const char* text :
       {"{{ 9223372036854775807 + 1 }}", "{{ 9223372036854775807 * 2 }}", "{{ 2 ** 64 }}",
        "{{ -(-9223372036854775807 - 1) }}", "{{ (-9223372036854775807 - 1) // -1 }}",
        "{{ (-9223372036854775807 - 1) | abs }}", "{{ 1e30 | int }}"}) {
    CAPTURE(text);
    CHECK(has(run(text), "64 bits"));
  }
  CHECK(run("{{ (-9223372036854775807 - 1) % -1 }}{{ 2 ** 62 }}{{ 0 ** 9223372036854775807 }}") ==
        "");
  const auto json = [](const char* text) {
    return error_text([&] { jinja::from_json(text, "j"); }, Exit::Usage);
  };
  CHECK(json("[9223372036854775807, -9223372036854775808, 1e300, 1.5]") == "");
  CHECK(has(json("18446744073709551616"), "beyond 64 bits"));
  CHECK(has(json("9223372036854775808"), "beyond 64 bits"));
  CHECK(has(json("{\"a\": \"\xff\"}"), "not valid JSON at byte"));
}

TEST_CASE("templates can reach data only, neither files nor the interpreter") {
  for (const char* text :
       {"{{ ''.__class__.__mro__ }}", "{{ messages.__init__.__globals__ }}",
        "{{ namespace.__init__ }}{{ namespace.__init__.x }}", "{{ range.__self__.x }}",
        "{{ (1).__class__.x }}", "{{ ''['__class__'].x }}", "{{ '' | attr('__class__') + 1 }}",
        "{% include 'file' %}", "{% import 'os' as os %}", "{% extends 'x' %}",
        "{{ '{0.__class__}'.format(1) }}", "{{ self.x }}", "{{ lipsum.x }}", "{{ open('x') }}"}) {
    CAPTURE(text);
    CHECK(run(text) + parse(text) != "");
  }
}

}  // namespace
}  // namespace skald::test
