// How the guesses of a step with several texts are shared out.
#include "engine/speculate/share_control.h"

#include <cmath>
#include <numeric>

#include "tests/catch.h"

namespace skald::test {
namespace {

using Sources = std::vector<ShareControl::Source>;

std::vector<int> shared(ShareControl& control, const Sources& sources, int64_t texts,
                        int64_t rows = 256) {
  const auto shares = control.share(sources, {texts, texts, rows});
  for (const bool drafted : {false, true}) {
    bool made = false;
    for (size_t i = 0; i < sources.size(); ++i)
      made |= shares[i] > 0 && sources[i].drafted == drafted;
    if (made) control.made(drafted);
  }
  return {shares.begin(), shares.end()};
}

int64_t rows_of(const std::vector<int>& shares, int64_t texts) {
  return std::accumulate(shares.begin(), shares.end(), texts);
}

// Steps take `fixed` and one for each row. The control sees what its own choices take.
std::vector<int> learned(ShareControl& control, const Sources& sources, int64_t texts,
                         double fixed) {
  std::vector<int> shares;
  for (int i = 0; i < 300; ++i) {
    shares = shared(control, sources, texts);
    const int64_t rows = rows_of(shares, texts);
    control.add_step(rows, fixed + static_cast<double>(rows));
  }
  return shares;
}

TEST_CASE("there are no guesses before the time of steps without guesses is known") {
  ShareControl control(256);
  const Sources sources = {{0.9, 7}};
  for (int i = 0; i < StepTime::kFirstSteps; ++i) {
    CHECK(shared(control, sources, 1) == std::vector<int>{0});
    control.add_step(1, 1);
  }
  CHECK(shared(control, sources, 1)[0] > 0);
}

TEST_CASE("as many guesses are made as give the most tokens a second") {
  for (const double fixed : {10.0, 100.0, 1000.0}) {
    for (const double right : {0.3, 0.7, 0.95}) {
      CAPTURE(fixed, right);
      ShareControl control(256);
      const std::vector<int> got = learned(control, {{right, 7}}, 1, fixed);
      double most = 1 / (fixed + 1);
      int best = 0;
      double tokens = 1;
      for (int guesses = 1; guesses <= 7; ++guesses) {
        tokens += std::pow(right, guesses);
        const double rate = tokens / (fixed + 1 + guesses);
        if (rate > 1.03 * most && rate > most) best = guesses, most = rate;
      }
      CHECK(std::abs(got[0] - best) <= 1);
    }
  }
}

TEST_CASE("the texts that are most often right get the guesses") {
  ShareControl control(256);
  Sources sources(8, {0.05, 7});
  sources[3] = {0.95, 7};
  sources[6] = {0.8, 3};
  const std::vector<int> got = learned(control, sources, 8, 60);
  CHECK(got[3] >= 5);
  CHECK(got[6] >= 2);
  CHECK(got[6] <= 3);
  CHECK(got[3] > got[6]);
  // Beyond 16 rows a step has a multiple of 4 rows, so a few others may get one.
  CHECK(got[0] + got[1] + got[2] + got[4] + got[5] + got[7] <= 3);
}

TEST_CASE("steps have no more rows than they may, and few numbers of rows where they are many") {
  ShareControl control(256);
  const Sources sources(40, {0.9, 7});
  for (int i = 0; i < 50; ++i) {
    const int64_t rows = rows_of(shared(control, sources, 40, 100), 40);
    CHECK(rows <= 100);
    CHECK((rows == 40 || rows % 4 == 0));
    CHECK((rows <= 64 || rows % 16 == 0));
    control.add_step(rows, 1);
  }
  CHECK(rows_of(shared(control, sources, 40, 100), 40) == 96);
  CHECK(rows_of(shared(control, sources, 40, 40), 40) == 40);
  CHECK(rows_of(shared(control, sources, 300, 1000), 300) == 300);
}

TEST_CASE(
    "where guesses do not pay there are soon none, and seldom a few to see whether they pay") {
  ShareControl control(256);
  const Sources sources(32, {0.02, 7});
  int with = 0;
  for (int i = 0; i < 1000; ++i) {
    const int64_t rows = rows_of(shared(control, sources, 32), 32);
    with += rows > 32;
    control.add_step(rows, static_cast<double>(rows));
  }
  CHECK(with > 0);
  CHECK(with <= 8);
}

TEST_CASE("seconds between known numbers of rows are known") {
  ShareControl control(256);
  for (int i = 0; i < 4; ++i) control.add_step(8, 1), control.add_step(16, 100);
  // Each row more than 8 is taken to cost 99 / 8.
  CHECK(rows_of(shared(control, Sources(8, {0.99, 1}), 8), 8) == 8);
  ShareControl cheap(256);
  for (int i = 0; i < 4; ++i) cheap.add_step(8, 1), cheap.add_step(16, 1.1);
  CHECK(rows_of(shared(cheap, Sources(8, {0.99, 1}), 8), 8) == 16);
}

// Steps take `fixed` and one for each row, and a step of the draft model takes `draft`.
std::vector<int> learned_with_draft(ShareControl& control, const Sources& sources, int64_t texts,
                                    double draft) {
  std::vector<int> shares;
  for (int i = 0; i < 300; ++i) {
    shares = shared(control, sources, texts);
    for (int depth = 0; depth < 7; ++depth) {
      int64_t drafted = 0;
      for (size_t j = 0; j < sources.size(); ++j)
        drafted += sources[j].drafted && shares[j] > depth;
      if (drafted > 0) control.add_draft_step(drafted, draft);
    }
    const int64_t rows = rows_of(shares, texts);
    control.add_step(rows, 100 + static_cast<double>(rows));
  }
  return shares;
}

TEST_CASE(
    "a draft model's guesses are made if they pay with its time, and for all texts together") {
  Sources sources;
  for (int64_t text = 0; text < 8; ++text) sources.push_back({0.8, 7, text, true});
  ShareControl quick(256), slow(256);
  const std::vector<int> many = learned_with_draft(quick, sources, 8, 5);
  for (const int share : many) CHECK(share >= 2);
  CHECK(rows_of(learned_with_draft(slow, sources, 8, 200), 8) == 8);
  // What is to be computed before the first guess counts too.
  for (auto& source : sources) source.seconds = 100;
  ShareControl late(256);
  CHECK(rows_of(learned_with_draft(late, sources, 8, 5), 8) == 8);
}

TEST_CASE(
    "a text takes the better of two sources, and those without cost where the draft is slow") {
  const Sources sources = {{0.9, 7, 1}, {0.95, 7, 1, true}, {0.3, 7, 2}, {0.9, 7, 2, true}};
  ShareControl quick(256), slow(256);
  const std::vector<int> both = learned_with_draft(quick, sources, 2, 1);
  CHECK(both[0] > 0);  // hardly worse
  CHECK(both[1] == 0);
  CHECK(both[2] == 0);
  CHECK(both[3] > 0);
  const std::vector<int> free = learned_with_draft(slow, sources, 2, 500);
  CHECK(free[0] > 0);
  CHECK(free[1] + free[3] == 0);
}

TEST_CASE("rows that a wrong guess makes the model compute again count") {
  // Each row takes half as long as the rest of a step.
  const auto guesses = [](double probability, int64_t again) {
    ShareControl control(256);
    return learned(control, {{probability, 7, -1, false, 0, again}}, 1, 2)[0];
  };
  CHECK(guesses(0.9, 1) > 0);
  CHECK(guesses(0.5, 0) > 0);
  CHECK(guesses(0.5, 1) == 0);
}

TEST_CASE("a try is made in each step until its guesses could be made") {
  ShareControl control(256);
  const Sources sources = {{0.1, 7, 1, true}};
  for (int i = 0; i < 4; ++i) control.add_step(1, 1), control.add_step(2, 2);
  int tried = 0;
  for (int i = 0; i < 60; ++i) tried += control.share(sources, {1, 1, 256})[0] > 0;
  CHECK(tried == 60 - 48);
  control.made(true);
  CHECK(control.share(sources, {1, 1, 256})[0] == 0);
}

}  // namespace
}  // namespace skald::test
