#include "app/chat/transcript.h"

#include "tests/catch.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

TEST_CASE("a transcript read back has the same messages") {
  const std::vector<Message> messages{
      {"system", "Be \"brief\".\n"}, {"user", "\u00e4\t\\"}, {"assistant", ""}};
  const std::string json = transcript(messages);
  CHECK(json.ends_with("}\n"));
  const std::vector<Message> again = read_transcript(json, "x");
  REQUIRE(again.size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(again[i].role == messages[i].role);
    CHECK(again[i].content == messages[i].content);
  }
  CHECK(read_transcript(R"([{"role": "user", "content": "a", "more": 1}])", "x").size() == 1);
  CHECK(read_transcript("[]", "x").empty());
  CHECK(read_transcript(transcript({}), "x").empty());
}

TEST_CASE("a file without a dialogue is refused in one line that names the file") {
  const std::pair<const char*, const char*> cases[] = {
      {"{", "f: is not valid JSON"},
      {"3", "f: expected a list of messages"},
      {"{\"messages\": {}}", "f: expected a list"},
      {"[1]", "f: message 1: expected a text as \"role\""},
      {R"([{"role": "user"}])", "f: message 1: expected a text as \"content\""},
      {R"([{"role": "user", "content": ["a"]}])", "expected a text as \"content\""},
      {R"([{"role": "user", "content": "a"}, {"role": "system", "content": "b"}])",
       "f: message 2: role 'system', expected user or assistant"},
      {R"([{"role": "tool\u001b", "content": "a"}])", "role 'tool\\x1b'"},
  };
  for (const auto& [json, says] : cases) {
    const std::string text =
        error_text([&text_of = json] { read_transcript(text_of, "f"); }, Exit::Failed);
    CAPTURE(json, text);
    CHECK(has(text, says));
    CHECK(!has(text, "\n"));
  }
  const std::string deep = std::string(100000, '[');
  CHECK(has(error_text([&] { read_transcript(deep, "f"); }, Exit::Failed), "nested too deep"));
}

}  // namespace
}  // namespace skald::test
