#include "engine/perplexity/protocol.h"

#include <algorithm>
#include <set>
#include <vector>

#include "tests/catch.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

std::string refusal(const std::string& text) {
  return error_text([&] { parse_protocol(text); }, Exit::Usage);
}

TEST_CASE("a protocol prints the name that it was read from") {
  for (const char* name :
       {"llama.cpp", "llama.cpp:512", "hf:1024:512", "gptq:2048", "doc", "doc:64"}) {
    CHECK(parse_protocol(name).name() == name);
  }
  for (const char* name :
       {"", "llama", "hf", "hf:1024", "gptq", "gptq:", "gptq:x", "gptq:-1", "llama.cpp:1:2",
        "doc:0", "hf:1:2:3", "gptq:99999999999999999999", ":"}) {
    CAPTURE(name);
    CHECK(has(refusal(name), "expected llama.cpp"));
  }
  CHECK(has(refusal("hf:8:9"), "tokens would be skipped"));
  CHECK(has(refusal("llama.cpp:2"), "scores nothing"));
}

TEST_CASE("protocol llama.cpp scores the second half of each whole chunk and puts BOS first") {
  const PplSettings settings = parse_protocol("llama.cpp:512");
  CHECK(chunk_count(settings, 1024) == 2);
  CHECK(chunk_count(settings, 2047) == 3);
  const ChunkPlace place = chunk_place(settings, 2047, 2);
  CHECK(place.first == 1024);
  CHECK(place.length == 512);
  CHECK(place.length - place.scored_from == 255);
  CHECK(place.bos_first);
  CHECK(has(error_text([&] { chunk_count(settings, 1023); }, Exit::Failed),
            "the text has 1023 tokens, but llama.cpp:512 needs 1024"));
}

TEST_CASE("protocol gptq scores every token of disjoint windows, except each window's first") {
  const PplSettings settings = parse_protocol("gptq:10");
  CHECK(chunk_count(settings, 39) == 3);
  const ChunkPlace place = chunk_place(settings, 39, 1);
  CHECK(place.first == 10);
  CHECK(place.length == 10);
  CHECK(place.scored_from == 1);
  CHECK(!place.bos_first);
  CHECK(has(error_text([&] { chunk_count(settings, 9); }, Exit::Failed), "needs 10"));
}

TEST_CASE("protocol hf scores every token but the first once, with the longest context that fits") {
  for (const auto& [context, stride] : {std::pair(8, 3), std::pair(8, 7), std::pair(5, 1)}) {
    const PplSettings settings = parse_protocol(concat("hf:", context, ":", stride));
    for (int64_t tokens = 2; tokens < 40; ++tokens) {
      CAPTURE(context, stride, tokens);
      std::multiset<int64_t> scored;
      for (int64_t c = 0; c < chunk_count(settings, tokens); ++c) {
        const ChunkPlace place = chunk_place(settings, tokens, c);
        CHECK(place.length <= context);
        CHECK(place.first + place.length <= tokens);
        for (int64_t i = place.scored_from; i < place.length; ++i) {
          scored.insert(place.first + i);
          const bool first_window = place.first + i < context;
          if (!first_window) CHECK(i >= context - stride);
        }
      }
      CHECK(scored.size() == static_cast<size_t>(tokens - 1));
      CHECK(std::set<int64_t>(scored.begin(), scored.end()).size() == scored.size());
      CHECK(scored.count(0) == 0);
    }
  }
}

TEST_CASE("the windows of a document score each token once, and the last window is full") {
  for (int64_t context = 1; context < 9; ++context) {
    for (int64_t tokens = 0; tokens < 30; ++tokens) {
      CAPTURE(context, tokens);
      std::vector<int64_t> scored;
      for (int64_t w = 0; w < document_windows(context, tokens); ++w) {
        const ChunkPlace place = document_window(context, tokens, w);
        // A window has one more token than rows: the last token is only a target.
        CHECK(place.length <= context + 1);
        if (tokens >= context) CHECK(place.length == context + 1);
        for (int64_t i = place.scored_from; i < place.length; ++i)
          scored.push_back(place.first + i);
        CHECK(place.scored_from >= 1);
      }
      REQUIRE(scored.size() == static_cast<size_t>(tokens));
      for (int64_t i = 0; i < tokens; ++i) CHECK(scored[static_cast<size_t>(i)] == i + 1);
    }
  }
}

}  // namespace
}  // namespace skald::test
