#include "engine/schedule/swap_times.h"

#include "tests/catch.h"

namespace skald::test {
namespace {

TEST_CASE("a copy is chosen while times are unknown, and then if it takes less time both ways") {
  SwapTimes times;
  CHECK(times.copy_is_faster(1 << 30, 1));
  times.ran(100, 100, 1.0);
  CHECK(times.copy_is_faster(1 << 30, 1));  // the device may not have finished
  times.finished(1.0);                      // 0.02 s a row
  CHECK(times.copy_is_faster(1 << 30, 1));
  times.copied_out(1000, 0.5);  // 0.5 ms a byte, and as much back
  CHECK(times.copy_is_faster(1000, 51));
  CHECK(!times.copy_is_faster(1000, 49));
  times.copied_back(1000, 1.5);
  CHECK(times.copy_is_faster(1000, 101));
  CHECK(!times.copy_is_faster(1000, 99));
}

TEST_CASE("rows of prompts have their share of a step's time, and steps in decode do not count") {
  SwapTimes times;
  times.copied_out(1000, 1.0);  // 2 s for both ways
  times.ran(1000, 0, 100);      // decode
  times.finished(0);
  CHECK(times.copy_is_faster(1000, 1));  // nothing is known of prompts
  times.ran(20, 10, 2.0);                // 0.1 s a row
  times.finished(0);
  CHECK(times.copy_is_faster(1000, 21));
  CHECK(!times.copy_is_faster(1000, 19));
  times.ran(30, 30, 0);  // enqueued, and waited for with the next step
  times.ran(10, 0, 0.8);
  times.finished(0);  // 0.02 s a row: of all prompts, 1.6 s for 40 rows
  CHECK(times.copy_is_faster(1000, 51));
  CHECK(!times.copy_is_faster(1000, 49));
}

TEST_CASE("one slow copy does not decide for ever") {
  SwapTimes times;
  times.ran(10, 10, 1.0);
  times.finished(0);
  times.copied_out(10, 1e6);
  for (int i = 0; i < SwapTimes::kTryAgain; ++i) CHECK(!times.copy_is_faster(10, 10));
  CHECK(times.copy_is_faster(10, 10));
  CHECK(!times.copy_is_faster(10, 10));
}

}  // namespace
}  // namespace skald::test
