#include "app/files/json.h"

#include <chrono>

#include "tests/catch.h"

namespace skald::test {
namespace {

TEST_CASE("a parsed text is what the library's own parser gives") {
  std::string many = "{";
  for (int i = 0; i < 100; ++i)
    many += "\"k" + std::to_string(i % 70) + "\":" + std::to_string(i) + ",";
  many +=
      "\"end\":[{\"a\":1,\"a\":2,\"b\":{}},[],-1,1.5,1e300,null,true,\"\\u00e9\","
      "18446744073709551615]}";
  for (const std::string& text : {many, std::string("3"), std::string("\"a\""), std::string("[]"),
                                  std::string(" {\"z\":1,\"a\":2} ")}) {
    CAPTURE(text);
    CHECK(parse_json(text).dump() == Json::parse(text).dump());
  }
  const std::string nul(1, '\0');
  for (const std::string& bad :
       {std::string(), std::string("{"), std::string("{\"a\":1,}"), std::string("[1]]"),
        std::string("1e999"), std::string("\"\xff\""), "{}" + nul, "[1]" + nul + "x", nul}) {
    CHECK_THROWS_AS(parse_json(bad), Json::exception);
    CHECK(parse_json_or_null(bad).is_null());
  }
  const auto shallow = [](int depth) {
    if (depth > 2) throw std::runtime_error("deep");
  };
  CHECK_NOTHROW(parse_json("[[[1]],{}]", shallow));
  CHECK_THROWS_AS(parse_json("[[[[]]]]", shallow), std::runtime_error);
}

TEST_CASE("an object of very many keys is read in time proportional to their number") {
  std::string keys;
  for (int i = 0; i < 100000; ++i) keys += (i ? ",\"k" : "\"k") + std::to_string(i) + "\":1";
  const auto start = std::chrono::steady_clock::now();
  CHECK(parse_json("{" + keys + "}").size() == 100000);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  CHECK(seconds.count() < 5);  // it was 13 s, where this is a tenth of one
}

}  // namespace
}  // namespace skald::test
