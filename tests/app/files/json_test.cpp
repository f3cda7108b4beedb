#include "app/files/json.h"

#include "app/files/key_places.h"
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

struct CountedEqual {
  static inline size_t count = 0;
  bool operator()(const std::string& a, const std::string& b) const {
    ++count;
    return a == b;
  }
};

TEST_CASE("an object of very many keys is read with about one comparison for each of them") {
  constexpr size_t kKeys = 100'000;
  KeyPlaces<CountedEqual> places;
  std::string text = "{";
  for (size_t i = 0; i < 2 * kKeys; ++i) {
    const std::string key = std::to_string(i % kKeys);
    const auto [place, added] = places.add(key);
    REQUIRE((place == i % kKeys && added == (i < kKeys)));
    text += (i > 0 ? ",\"" : "\"") + key + "\":" + std::to_string(i);
  }
  CHECK(CountedEqual::count < 3 * kKeys);
  const Json json = parse_json(text + "}");
  REQUIRE(json.size() == kKeys);
  size_t right = 0, at = 0;
  for (const auto& [key, value] : json.items()) {
    right += key == std::to_string(at) && value == at + kKeys;
    ++at;
  }
  CHECK(right == kKeys);
}

}  // namespace
}  // namespace skald::test
