#include "engine/program/page_layout.h"

#include "tests/catch.h"
#include "tests/engine/random_llama.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

TEST_CASE("the layers of a page follow one another, each with its keys and values") {
  const Program program = random_llama({.layers = 3}).program();
  const int64_t numbers = 2 * 64 * kPageTokens;  // of a layer's keys: heads, dimensions, tokens
  const PageLayout same(program, {CacheType::F16, CacheType::F16});
  CHECK(same.offsets == std::vector<int64_t>{0, 4 * numbers, 8 * numbers});
  CHECK(same.bytes == 12 * numbers);
  const PageLayout mixed(program, {CacheType::Q8_0, CacheType::Q4_0});
  const int64_t layer = numbers * 34 / 32 + numbers * 18 / 32;
  CHECK(mixed.offsets == std::vector<int64_t>{0, layer, 2 * layer});
  CHECK(mixed.bytes == 3 * layer);
  const PageLayout serving(program, {CacheType::FP8, CacheType::F16}, {false, true, false});
  CHECK(serving.offsets == std::vector<int64_t>{0, 3 * numbers, 4 * numbers});
  CHECK(serving.bytes == 7 * numbers);
}

TEST_CASE("types with blocks refuse heads that are no multiple of a block") {
  const Program program = random_llama({.head_dim = 40}).program();
  for (const CacheTypes types :
       {CacheTypes{CacheType::Q8_0, CacheType::F16}, CacheTypes{CacheType::F16, CacheType::Q4_0}}) {
    const std::string text = error_text([&] { PageLayout(program, types); }, Exit::Usage);
    CHECK(has(text, types.keys == CacheType::Q8_0 ? "a KV cache of Q8_0" : "a KV cache of Q4_0"));
    CHECK(has(text, "this model's heads have 40 dimensions; choose fp8, f16 "));
  }
  for (const CacheType type : {CacheType::F32, CacheType::BF16, CacheType::FP8}) {
    CHECK(PageLayout(program, {type, type}).bytes > 0);
  }
  // Keys that serve as values leave the type of values without a use.
  CHECK(PageLayout(program, {CacheType::FP8, CacheType::Q4_0}, {true, true}).bytes ==
        2 * 2 * 40 * kPageTokens);
}

}  // namespace
}  // namespace skald::test
