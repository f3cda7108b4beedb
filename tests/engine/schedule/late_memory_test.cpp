// A device that notices only in the middle of a step that its memory is full.
#include <map>

#include "engine/base/error.h"
#include "engine/schedule/scheduler.h"
#include "tests/catch.h"
#include "tests/engine/schedule/small_executor.h"
#include "tests/engine/wrapped_executor.h"

namespace skald::test {
namespace {

// Has memory for `most` rows in a step; of more it makes the sequences longer before it fails.
class LateExecutor final : public WrappedExecutor {
 public:
  LateExecutor(std::unique_ptr<Executor> inner, size_t most)
      : WrappedExecutor(std::move(inner)), most_(most) {}

  int64_t run(Step step) override {
    size_t rows = 0;
    for (const SeqRows& part : step) rows += part.tokens.size();
    const int64_t done = inner_->run(step);
    if (rows > most_) fail(Exit::Memory, "no memory for ", rows, " rows");
    return done;
  }

 private:
  size_t most_;
};

TEST_CASE("a step that ran out of memory midway leaves no tokens that pass for computed") {
  const auto texts = [](size_t most) {
    LateExecutor executor(small_executor({.sequences = 2}), most);
    Scheduler scheduler(executor, {.sequences = 2});
    std::vector<Generation> all(2);
    for (size_t i = 0; i < all.size(); ++i) {
      for (int32_t token = 0; token < 20; ++token)
        all[i].prompt.push_back(token + 3 * static_cast<int32_t>(i));
      all[i].max_tokens = 8;
      all[i].params.temperature = 0;
      all[i].streams = {i};
      all[i].cancelled = std::make_unique<std::atomic<bool>[]>(1);
      scheduler.add(all[i]);
    }
    std::map<const Generation*, std::vector<int32_t>> tokens;
    for (int step = 0; !scheduler.idle() && step < 1000; ++step) {
      for (const GenerationEvent& event : scheduler.step()) {
        if (event.kind == GenerationEvent::Kind::Token) {
          tokens[event.generation].push_back(event.picked.token);
        }
      }
    }
    CHECK((scheduler.counts().lowered > 0) == (most < 40));
    return std::vector{tokens[&all[0]], tokens[&all[1]]};
  };
  const auto expected = texts(1000);
  CHECK(expected[0].size() == 8);
  for (const size_t most : {11u, 3u, 1u}) CHECK(texts(most) == expected);
}

}  // namespace
}  // namespace skald::test
