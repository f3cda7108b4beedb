#include "app/jobs/progress.h"

#include "tests/catch.h"

namespace skald::test {
namespace {

TEST_CASE("progress shows lines done, speed and time left") {
  JobCounts counts;
  JobProgress progress(Progress::Style::Quiet, 100, counts);
  CHECK(progress.line(1) == "0/100 lines, 0 failed, tokens/s: 0.0 in, 0.0 out");
  counts.earlier = 50;
  counts.done = 8;
  counts.failed = 2;
  counts.tokens_in = 5000;
  counts.tokens_out = 25;
  CHECK(progress.line(10) == "60/100 lines, 2 failed, 40 s left, tokens/s: 500 in, 2.5 out");
  CHECK(progress.summary(10) ==
        "8 lines done, 2 failed, 50 done before in 10 s; 5000 tokens in (500/s), 25 out (2.5/s)");
  JobProgress endless(Progress::Style::Quiet, -1, counts);
  CHECK(endless.line(10) == "60 lines, 2 failed, tokens/s: 500 in, 2.5 out");
  JobProgress one(Progress::Style::Quiet, 1, counts);
  CHECK(one.line(10).starts_with("60/1 line, 2 failed"));
  CHECK(duration_text(0) == "0 s");
  CHECK(duration_text(59.2) == "1 min 0 s");
  CHECK(duration_text(7500) == "2 h 5 min");
}

}  // namespace
}  // namespace skald::test
