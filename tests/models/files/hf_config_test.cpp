#include "models/files/hf_config.h"

#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

struct ConfigFile {
  explicit ConfigFile(std::string_view text) { folder.write("config.json", text); }
  HfConfig read() const { return HfConfig::read(folder.path() / "config.json"); }

  TempFolder folder;
};

TEST_CASE("a value is looked up with its type and bounds") {
  const HfConfig config =
      ConfigFile(R"({"i": 5, "f": 1e-6, "whole": 3.0, "b": true, "s": "text", "n": null,
                     "o": {"inner": 7}, "list": [1, 2], "big": 1e300, "neg": -3})")
          .read();
  CHECK(config.integer("i", 0, 10) == 5);
  CHECK(config.integer("whole", 0, 10) == 3);
  CHECK(config.integer_or("none", 9, 0, 10) == 9);
  CHECK(config.integer_or("n", 9, 0, 10) == 9);
  CHECK(config.number("f") == 1e-6);
  CHECK(config.number("i") == 5);
  CHECK(config.boolean_or("b", false));
  CHECK(config.text("s") == "text");
  CHECK(config.text_or("none", "other") == "other");
  CHECK(config.object("o").integer("inner", 0, 10) == 7);
  CHECK(config.integers("list") == std::vector<int64_t>{1, 2});
  CHECK(config.integers("i") == std::vector<int64_t>{5});
  CHECK(config.mentions("n"));
  CHECK(!config.has("n"));
  CHECK(!config.mentions("none"));

  const auto says = [&](const std::function<void()>& lookup) { return error_text(lookup); };
  CHECK(has(says([&] { config.integer("none", 0, 1); }), "config.json: 'none' is missing"));
  CHECK(has(says([&] { config.integer("i", 0, 4); }),
            "'i' is 5, expected a whole number from 0 to 4"));
  CHECK(has(says([&] { config.integer("neg", 0, 4); }), "'neg' is -3"));
  CHECK(has(says([&] { config.integer("f", 0, 4); }), "'f' is 1e-06"));
  CHECK(has(says([&] { config.integer("big", 0, INT64_MAX); }), "'big' is 1e+300"));
  CHECK(has(says([&] { config.integer("s", 0, 4); }), "'s' is \"text\""));
  CHECK(has(says([&] { config.number("s"); }), "expected a number"));
  CHECK(has(says([&] { config.boolean_or("i", true); }), "expected true or false"));
  CHECK(has(says([&] { config.text("i"); }), "expected a string"));
  CHECK(has(says([&] { config.object("i"); }), "'i' is missing or not an object"));
  CHECK(has(says([&] { config.object("o").integer("x", 0, 1); }), "config.json: o: 'x'"));
}

TEST_CASE("a list of ids must be whole numbers within 64 bits") {
  for (const char* text :
       {R"({"x": [1, "a"]})", R"({"x": "a"})", R"({"x": 1.5})", R"({"x": [18446744073709551615]})",
        R"({"x": {"a": 1}})", R"({"x": true})"}) {
    CAPTURE(text);
    const ConfigFile file(text);
    CHECK(has(error_text([&] { file.read().integers("x"); }), "expected whole numbers"));
  }
}

TEST_CASE("Python's infinities are the largest numbers") {
  const HfConfig config =
      ConfigFile(R"({"limit": [0.0, Infinity], "low": -Infinity, "t": "Infinity \" Infinity"})")
          .read();
  CHECK(config.floats("limit") == std::vector<float>{0, 3e38f});
  CHECK(config.number_or("low", 0) == -3e38);
  CHECK(config.text("t") == "Infinity \" Infinity");
}

TEST_CASE("a configuration with numbers beyond 64 bits is refused") {
  for (const char* text : {R"({"x": 9223372036854775808})", R"({"x": 18446744073709551615})",
                           R"({"x": 9.3e18})", R"({"x": -9223372036854775809})"}) {
    CAPTURE(text);
    const ConfigFile file(text);
    CHECK(error_text([&] { file.read().integer("x", 0, INT64_MAX); }) != "");
  }
}

TEST_CASE("a file that is not a JSON object is refused with a short message") {
  const std::string deep = R"({"a":)" + std::string(100000, '[');
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("5"), std::string("{} x"),
        deep, std::string("{\"a\": \xff}"), std::string("\0\0\0", 3)}) {
    CAPTURE(text.substr(0, 20));
    const ConfigFile file(text);
    const std::string message = error_text([&] { file.read(); });
    CHECK(has(message, "config.json: is not"));
    CHECK(message.size() < 500);
    CHECK(message.find('\n') == std::string::npos);
  }
  CHECK(has(error_text([] { HfConfig::read("/nothing/config.json"); }), "cannot be read"));
}

TEST_CASE("a message shortens long values and escapes control characters") {
  const std::string wild = R"({"x": ")" + std::string(1000000, 'y') + R"(", "e": "\u001b[2J"})";
  const ConfigFile file(wild);
  CHECK(error_text([&] { file.read().number("x"); }).size() < 1000);
  CHECK(error_text([&] { file.read().number("e"); }).find('\x1b') == std::string::npos);
}

}  // namespace
}  // namespace skald::test
