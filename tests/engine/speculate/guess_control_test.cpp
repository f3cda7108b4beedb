#include "engine/speculate/guess_control.h"

#include <vector>

#include "tests/catch.h"

namespace skald::test {
namespace {

// Steps take 1 and `each` for every row more; of each guess that is computed, `right` of 100 are
// right. Returns the mean number of guesses a step in the end.
double guesses_in_the_end(GuessControl& control, double each, int right) {
  int steps = 0, guesses = 0, at = 0;
  for (int step = 0; step < 2000; ++step) {
    const int count = control.choose(0, 7);
    control.took(count + 1, 1 + each * count);
    int good = 0;
    while (good < count && at++ * 37 % 100 < right) ++good;
    if (count > 0) control.checked(0, count, good);
    if (step < 1000) continue;
    ++steps;
    guesses += count;
  }
  return static_cast<double>(guesses) / steps;
}

TEST_CASE("good guesses get long steps, bad ones none but a probe") {
  GuessControl good(1, 7), middling(1, 7), bad(1, 7);
  CHECK(guesses_in_the_end(good, 0.03, 97) > 6);
  const double some = guesses_in_the_end(middling, 0.1, 60);
  CHECK(some > 1);
  CHECK(some < 5);
  CHECK(guesses_in_the_end(bad, 0.1, 2) < 0.1);
  CHECK(bad.counts().guesses > 0);
  CHECK(good.counts().right > good.counts().guesses * 9 / 10);
}

TEST_CASE("the first steps have no guesses, so that there is a time to compare with") {
  GuessControl control(1, 7);
  control.took(8, 0.01);
  CHECK_FALSE(control.pays(0, 7));
  CHECK(control.choose(0, 7) == 0);
  control.took(1, 0.005);
  CHECK(control.pays(0, 7));
  CHECK(control.choose(0, 7) > 0);
}

TEST_CASE("slow first steps of a number of rows do not end guesses of that number") {
  GuessControl control(1, 7);
  std::vector<int> steps(9);
  for (int step = 0; step < 300; ++step) {
    const int count = control.choose(0, 7), rows = count + 1;
    const bool sets_up = ++steps[static_cast<size_t>(rows)] < 4;  // a GPU's graph, and others
    control.took(rows, 1 + 0.02 * count + (sets_up ? 5 : 0));
    if (count > 0) control.checked(0, count, count);
  }
  CHECK(control.choose(0, 7) == 7);
}

TEST_CASE("a number of rows that stays slow is not taken again") {
  GuessControl control(1, 7);
  for (int step = 0; step < 300; ++step) {
    const int count = control.choose(0, 7);
    control.took(count + 1, count > 3 ? 50 : 1 + 0.02 * count);
    if (count > 0) control.checked(0, count, count);
  }
  CHECK(control.choose(0, 7) == 3);
}

TEST_CASE("guesses that cost more than they bring are not computed") {
  GuessControl dear(1, 7);
  CHECK(guesses_in_the_end(dear, 1, 90) < 0.1);  // a row costs as much as a step
}

TEST_CASE("after a bad time, guesses that are right again are found") {
  GuessControl control(1, 7);
  guesses_in_the_end(control, 0.05, 0);
  CHECK(guesses_in_the_end(control, 0.05, 95) > 4);
}

TEST_CASE("each kind of guess has its own record") {
  GuessControl control(2, 4);
  control.took(1, 1);
  for (int i = 0; i < 100; ++i) control.checked(0, 4, 0);
  CHECK_FALSE(control.pays(0, 4));
  CHECK(control.pays(1, 4));
  CHECK_FALSE(control.pays(1, 0));
  CHECK(control.choose(1, 2) <= 2);
  CHECK(control.choose(1, 99) <= 4);
}

}  // namespace
}  // namespace skald::test
