#include "engine/speculate/guess_control.h"

#include <cmath>
#include <vector>

#include "tests/catch.h"

namespace skald::test {
namespace {

int choose(const GuessControl& control, int kind, int available) {
  const Offer offer{kind, available};
  return control.choose({&offer, 1}).count;
}

// Adds steps without guesses, each of 1 second, until their time is believed.
void know_plain_steps(GuessControl& control) {
  for (int i = 0; i < 4; ++i) control.add_step(1, 1);
}

void skip(GuessControl& control, int kind, int steps = 1) {
  const Offer offer{kind, 1};
  for (int step = 0; step < steps; ++step) control.skipped({&offer, 1});
}

// A step takes 1 second, and `each` for every row more. `right` of 100 guesses are right, and a
// guess takes `each_guess` to make. Returns the mean number of guesses a step in the end.
double guesses_in_the_end(GuessControl& control, double each, int right, double each_guess = 0) {
  int steps = 0, guesses = 0, at = 0;
  for (int step = 0; step < 2000; ++step) {
    const int count = choose(control, 0, 7);
    control.add_step(count + 1, 1 + each * count);
    int good = 0;
    while (good < count && at++ * 37 % 100 < right) ++good;
    if (count > 0) {
      control.made(0, count, each_guess * count);
      control.checked(0, count, good);
    } else {
      skip(control, 0);
    }
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

// The number of guesses varies by the last measured probability. Where it should be 0, few are
// tried.
bool near_table(double guesses, int table) {
  return table == 0 ? guesses < 0.1 : std::abs(guesses - table) < 1.6;
}

TEST_CASE("the control chooses what the README's table says") {
  struct Line {
    double row;  // the time of a further row, in steps
    int free[4], drafted[4];
  };
  constexpr int kRight[] = {30, 50, 70, 90};
  for (const Line& line : {Line{0.01, {3, 5, 7, 7}, {1, 2, 3, 7}},
                           {0.03, {2, 4, 7, 7}, {1, 2, 3, 7}},
                           {0.075, {1, 3, 5, 7}, {1, 1, 3, 6}},
                           {0.3, {0, 1, 2, 5}, {0, 1, 1, 3}},
                           {1.0, {0, 0, 0, 0}, {0, 0, 0, 0}}}) {
    for (size_t i = 0; i < 4; ++i) {
      CAPTURE(line.row, kRight[i]);
      GuessControl free(1, 7), drafted(1, 7);
      CHECK(near_table(guesses_in_the_end(free, line.row, kRight[i]), line.free[i]));
      CHECK(near_table(guesses_in_the_end(drafted, line.row, kRight[i], 0.15), line.drafted[i]));
    }
  }
}

TEST_CASE("the first steps have no guesses, so that there is a time to compare with") {
  GuessControl control(1, 7);
  control.add_step(8, 0.01);
  // The first step sets things up. Compared with its time, any guess would look good.
  for (const double seconds : {0.5, 0.005, 0.006, 0.005}) {
    CHECK(choose(control, 0, 7) == 0);
    control.add_step(1, seconds);
  }
  CHECK(choose(control, 0, 7) > 0);
}

TEST_CASE("slow first steps of a number of rows do not end guesses of that number") {
  GuessControl control(1, 7);
  std::vector<int> steps(9);
  for (int step = 0; step < 300; ++step) {
    const int count = choose(control, 0, 7), rows = count + 1;
    const bool sets_up = ++steps[static_cast<size_t>(rows)] < 4;  // a GPU's graph, and others
    control.add_step(rows, 1 + 0.02 * count + (sets_up ? 5 : 0));
    if (count > 0) control.checked(0, count, count);
  }
  CHECK(choose(control, 0, 7) == 7);
}

TEST_CASE("a number of rows that stays slow is not taken again") {
  GuessControl control(1, 7);
  for (int step = 0; step < 300; ++step) {
    const int count = choose(control, 0, 7);
    control.add_step(count + 1, count > 3 ? 50 : 1 + 0.02 * count);
    if (count > 0) control.checked(0, count, count);
  }
  CHECK(choose(control, 0, 7) == 3);
}

TEST_CASE("guesses that cost more than they bring are not computed") {
  GuessControl dear(1, 7);
  CHECK(guesses_in_the_end(dear, 1, 90) < 0.1);  // a row costs as much as a step
}

TEST_CASE("the time to make guesses counts") {
  GuessControl quick(1, 7), slow(1, 7), slower(1, 7);
  const double many = guesses_in_the_end(quick, 0.03, 80, 0.02);
  const double few = guesses_in_the_end(slow, 0.03, 80, 0.3);
  CHECK(many > 3);
  CHECK(few > 0.5);
  CHECK(few < many - 1);
  CHECK(guesses_in_the_end(slower, 0.03, 99, 1) < 0.1);  // a guess costs as much as a step
  CHECK(slower.counts().guesses > 0);                    // probes
}

TEST_CASE("guesses that have become quicker to make are found") {
  GuessControl control(1, 7);
  CHECK(guesses_in_the_end(control, 0.03, 90, 2) < 0.1);
  CHECK(guesses_in_the_end(control, 0.03, 90, 0.05) > 3);
}

TEST_CASE("guesses that do not pay are tried again more and more seldom") {
  GuessControl control(1, 7);
  know_plain_steps(control);
  for (int i = 0; i < 100; ++i) control.checked(0, 7, 0);
  std::vector<int> waits;
  for (int tries = 0; tries < 6; ++tries) {
    waits.push_back(0);
    for (; choose(control, 0, 7) == 0; ++waits.back()) skip(control, 0);
    control.checked(0, choose(control, 0, 7), 0);
  }
  CHECK(waits == std::vector<int>{48, 96, 192, 384, 384, 384});
}

TEST_CASE("after a bad time, guesses that are right again are found") {
  GuessControl control(1, 7);
  guesses_in_the_end(control, 0.05, 0);
  CHECK(guesses_in_the_end(control, 0.05, 95) > 4);
}

TEST_CASE("each kind of guess has its own record") {
  GuessControl control(2, 4);
  know_plain_steps(control);
  for (int i = 0; i < 100; ++i) control.checked(0, 4, 0);
  CHECK(choose(control, 0, 4) == 0);
  CHECK(choose(control, 1, 4) > 0);
  CHECK(choose(control, 1, 0) == 0);
  CHECK(choose(control, 1, 2) <= 2);
  CHECK(choose(control, 1, 99) <= 4);
}

TEST_CASE("of several offers, the one with the most tokens per second is taken") {
  GuessControl control(2, 4);
  know_plain_steps(control);
  const Offer both[] = {{0, 4}, {1, 4}}, second[] = {{0, 0}, {1, 4}};
  CHECK(control.choose(both).offer == 0);  // equal so far: the first
  CHECK(control.choose(second).offer == 1);
  CHECK(control.choose(second).count == 4);
  for (int i = 0; i < 4; ++i) control.made(0, 1, 0.5);
  CHECK(control.choose(both).offer == 1);  // as likely, and sooner there
  for (int i = 0; i < 100; ++i) control.checked(1, 4, 0);
  for (int i = 0; i < 100; ++i) control.checked(0, 4, 4);
  CHECK(control.choose(both).offer == 0);  // slower, but right
  for (int i = 0; i < 100; ++i) control.checked(0, 4, 0);
  CHECK(control.choose(both).count == 0);
  skip(control, 1, 100);
  CHECK(control.choose(both).offer == 1);  // to see whether it pays again
  CHECK(control.choose(both).count > 0);
}

}  // namespace
}  // namespace skald::test
