#include "app/generate/stop_text.h"

#include <random>

#include "engine/base/error.h"
#include "tests/catch.h"

namespace skald::test {
namespace {

using Strings = std::vector<std::string>;

struct Result {
  std::string text, stop;
};

Result in_pieces(const Strings& stops, const Strings& pieces) {
  StopText stop_text(stops);
  Result result;
  for (const std::string& piece : pieces) result.text += stop_text.feed(piece);
  result.text += stop_text.flush();
  if (stop_text.found()) result.stop = stop_text.stop();
  return result;
}

// The rule, written independently: the stop string that is complete first ends the text; of two
// that end at the same place, the longer.
Result by_rule(const Strings& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    const std::string before = text.substr(0, end);
    std::string best;
    for (const std::string& stop : stops) {
      if (before.ends_with(stop) && stop.size() > best.size()) best = stop;
    }
    if (!best.empty()) return {text.substr(0, end - best.size()), best};
  }
  return {text, ""};
}

TEST_CASE("a stop string ends the text, however the text is cut into pieces") {
  const std::string text = "one two END three";
  for (size_t first = 0; first <= text.size(); ++first) {
    for (size_t second = first; second <= text.size(); ++second) {
      const Result result = in_pieces(
          {"END"},
          {text.substr(0, first), text.substr(first, second - first), text.substr(second)});
      CHECK(result.text == "one two ");
      CHECK(result.stop == "END");
    }
  }
}

TEST_CASE("only text that may belong to a stop string is held back") {
  StopText stop_text({"\n\nUser:", "###"});
  CHECK(stop_text.feed("Hi") == "Hi");
  CHECK(stop_text.feed(" #") == " ");
  CHECK(stop_text.feed("#") == "");
  CHECK(stop_text.feed(" x\n") == "## x");
  CHECK(stop_text.feed("\n") == "");
  CHECK(stop_text.feed("\n") == "\n");  // the last two of three newlines may begin the stop string
  CHECK(stop_text.feed("User") == "");
  CHECK(!stop_text.found());
  CHECK(stop_text.feed(": what") == "");
  CHECK(stop_text.found());
  CHECK(stop_text.stop() == "\n\nUser:");
  CHECK(stop_text.feed("more") == "");
  CHECK(stop_text.flush() == "");
}

TEST_CASE("flush returns the text held back") {
  StopText stop_text({"END"});
  CHECK(stop_text.feed("the EN") == "the ");
  CHECK(stop_text.flush() == "EN");
  CHECK(stop_text.flush() == "");
}

TEST_CASE("without stop strings the text passes unchanged") {
  StopText stop_text({});
  CHECK(stop_text.feed("any\n") == "any\n");
  CHECK(stop_text.flush() == "");
  CHECK(!stop_text.found());
}

TEST_CASE("an empty stop string is an error") { CHECK_THROWS_AS(StopText({"a", ""}), Error); }

TEST_CASE(
    "of several stop strings the first complete one ends the text; of two that end together, the "
    "longer") {
  CHECK(in_pieces({"abcd", "bc"}, {"xabcd"}).text == "xa");
  CHECK(in_pieces({"abc", "bc"}, {"xabc"}).text == "x");
  CHECK(in_pieces({"bc", "abc"}, {"xa", "bc"}).stop == "abc");
  CHECK(in_pieces({"abcx", "abd"}, {"aba", "bd"}).text == "ab");
  CHECK(in_pieces({"aab"}, {"aaaab"}).text == "aa");
}

TEST_CASE("on random texts, cut at random, the stop text follows the rule") {
  std::mt19937 random(7);
  const auto some = [&](size_t most, int letters) {
    std::string text(random() % most + 1, ' ');
    for (char& c : text) c = static_cast<char>('a' + random() % static_cast<unsigned>(letters));
    return text;
  };
  for (int round = 0; round < 5000; ++round) {
    const int letters = 2 + static_cast<int>(random() % 2);
    Strings stops;
    for (size_t i = random() % 4 + 1; i > 0; --i) stops.push_back(some(6, letters));
    const std::string text = some(40, letters);
    Strings pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t size = random() % 5;
      pieces.push_back(text.substr(at, size));
      at += pieces.back().size();
    }
    CAPTURE(text, stops.front(), stops.size());
    const Result expected = by_rule(stops, text);
    const Result result = in_pieces(stops, pieces);
    CHECK(result.text == expected.text);
    CHECK(result.stop == expected.stop);
  }
}

TEST_CASE("the cost of long stop strings that almost match is linear in the text") {
  const Strings stops{std::string(100000, 'a') + "b", std::string(90000, 'a') + "c"};
  StopText stop_text(stops);
  std::string out;
  for (int i = 0; i < 1000000; ++i) out += stop_text.feed("a");
  CHECK(out.size() == 900000);
  CHECK(stop_text.feed("c") == std::string(10000, 'a'));
  CHECK(stop_text.stop().size() == 90001);
}

}  // namespace
}  // namespace skald::test
