#include "app/generate/thinking.h"

#include "tests/catch.h"

namespace skald::test {
namespace {

// Marks thinking with brackets, however many parts it comes in: "[thinking]answer".
std::string parts_of(const std::string& text, size_t step, const std::string& prompt = "") {
  ThinkingSplitter splitter(prompt);
  std::string shown, all;
  bool inside = false;
  const auto add = [&](const std::vector<ThinkingPart>& parts) {
    for (const ThinkingPart& part : parts) {
      if (part.thinking != inside) shown += part.thinking ? "[" : "]";
      inside = part.thinking;
      shown += part.text;
      all += part.text;
    }
  };
  for (size_t at = 0; at < text.size(); at += step) add(splitter.feed(text.substr(at, step)));
  add(splitter.flush());
  CHECK(all == text);  // nothing is lost or moved
  return shown + (inside ? "]" : "");
}

TEST_CASE("thinking stands between tags at the beginning, however the text is cut into pieces") {
  const struct {
    const char *text, *parts;
  } cases[] = {
      {"<think>a</think>b", "[<think>a</think>]b"},
      {"\n<think>\na < b\n</think>\n\nb", "[\n<think>\na < b\n</think>]\n\nb"},
      {"<thinking>a</think></thinking>b", "[<thinking>a</think></thinking>]b"},
      {"[THINK]a[/THINK]b", "[[THINK]a[/THINK]]b"},
      {"<|START_THINKING|>a<|END_THINKING|>b", "[<|START_THINKING|>a<|END_THINKING|>]b"},
      {"<think></think>", "[<think></think>]"},
      {"<think>never ends </thin", "[<think>never ends </thin]"},
      {"<think>a</thi</think>b</think>", "[<think>a</thi</think>]b</think>"},
      {"no tag", "no tag"},
      {"a <think>b</think>", "a <think>b</think>"},
      {"<thin", "<thin"},
      {"<thirst>", "<thirst>"},
      {" ", " "},
      {"", ""},
  };
  for (const auto& [text, parts] : cases) {
    for (const size_t step : {1, 2, 3, 5, 100}) {
      CAPTURE(text, step);
      CHECK(parts_of(text, step) == parts);
    }
  }
}

TEST_CASE("the tag that opens the thinking may stand at the end of the prompt") {
  CHECK(parts_of("a</think>b", 1, "<|assistant|><think>\n") == "[a</think>]b");
  CHECK(parts_of("a</think>b", 1, "<|assistant|><think>\n\n</think>\n\n") == "a</think>b");
  CHECK(parts_of("a</think>b", 1, "what does <think> mean?<|assistant|>") == "a</think>b");
}

TEST_CASE("thinking without its tags has no white space around it") {
  CHECK(without_tags("\n<think>\n a < b\n</think>") == "a < b");
  CHECK(without_tags("a</think>") == "a");  // the prompt has the other tag
  CHECK(without_tags("[THINK]a") == "a");
  CHECK(without_tags("<think>\n\n</think>") == "");
  CHECK(without_tags("") == "");
}

TEST_CASE("feed() returns an answer at once, and holds back thinking that may begin an end tag") {
  ThinkingSplitter splitter;
  CHECK(splitter.feed("<thi").empty());
  CHECK(splitter.feed("nk>a").size() == 2);
  CHECK(splitter.feed("b").at(0).text == "b");
  CHECK(splitter.feed("c </").at(0).text == "c ");
  CHECK(splitter.feed("think>d").size() == 2);
  CHECK(splitter.feed("<").at(0).text == "<");
}

}  // namespace
}  // namespace skald::test
