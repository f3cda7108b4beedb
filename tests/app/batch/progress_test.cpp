#include "app/batch/progress.h"

#include <thread>

#include "app/batch/bounded_queue.h"
#include "tests/catch.h"

namespace skald::test {
namespace {

TEST_CASE("progress shows lines done, speed and time left") {
  BatchCounts counts;
  BatchProgress progress(BatchProgress::Style::Quiet, 100, counts);
  CHECK(progress.line(1) == "0/100 lines, 0 failed, tokens/s: 0.0 in, 0.0 out");
  counts.earlier = 50;
  counts.done = 8;
  counts.failed = 2;
  counts.tokens_in = 5000;
  counts.tokens_out = 25;
  CHECK(progress.line(10) == "60/100 lines, 2 failed, tokens/s: 500 in, 2.5 out, 40 s left");
  CHECK(progress.summary(10) ==
        "8 lines done, 2 failed, 50 done before in 10 s; 5000 tokens in (500/s), 25 out (2.5/s)");
  BatchProgress endless(BatchProgress::Style::Quiet, -1, counts);
  CHECK(endless.line(10) == "60 lines, 2 failed, tokens/s: 500 in, 2.5 out");
  CHECK(duration_text(0) == "0 s");
  CHECK(duration_text(59.2) == "1 min 0 s");
  CHECK(duration_text(7500) == "2 h 5 min");
}

TEST_CASE("a full queue makes writers wait, and abandon() releases them") {
  BoundedQueue<int> queue(2);
  std::thread writer([&] {
    for (int i = 0; i < 100; ++i) queue.push(i);
    queue.close();
  });
  for (int i = 0; i < 100; ++i) CHECK(queue.pop() == i);
  CHECK(!queue.pop());
  CHECK(!queue.push(1));
  writer.join();

  BoundedQueue<int> full(1);
  full.push(1);
  bool pushed = true;
  std::thread waiting([&] { pushed = full.push(2); });
  full.abandon();
  waiting.join();
  CHECK(!pushed);
  CHECK(!full.try_pop());
}

}  // namespace
}  // namespace skald::test
