// skald run with heads that guess: the text stays the same, and what cannot guess says so.
#include <algorithm>

#include "app/files/json.h"
#include "tests/catch.h"
#include "tests/eagle3_folder.h"
#include "tests/paths.h"
#include "tests/process.h"
#include "tests/program_output.h"
#include "tests/recurrent_model.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

using Arguments = std::vector<std::string>;

std::string bundled() { return (source_dir() / "models" / "demo").string(); }

Outcome run_guessing(const std::string& model, const Arguments& more) {
  Arguments all{"run", "--device", "cpu", "-m", model, "-p", "Once upon a time",
                "-n",  "80",       "-s",  "1",  "-t",  "1"};
  all.insert(all.end(), more.begin(), more.end());
  return skald(all);
}

Json head_report(const std::string& model, Arguments more) {
  more.push_back("--json");
  const Outcome outcome = run_guessing(model, more);
  CAPTURE(outcome.err);
  REQUIRE(outcome.code == 0);
  return Json::parse(outcome.out);
}

TEST_CASE("the layer that predicts tokens changes no text") {
  const TempFolder temp;
  const std::string model = temp.write("mtp.gguf", RecurrentGguf().file(true)).string();
  for (const char* temperature : {"0", "0.7"}) {
    const Json plain = head_report(model, {"--temp", temperature});
    for (const char* by : {"mtp", "auto", "ngram"}) {
      CAPTURE(temperature, by);
      const Json guessed = head_report(model, {"--temp", temperature, "--spec", by});
      CHECK(guessed["ids"] == plain["ids"]);
      CHECK(guessed.contains("draft") == (by != std::string("ngram")));
    }
    const Json guessed = head_report(model, {"--temp", temperature, "--spec", "mtp"});
    CHECK(guessed["guesses"]["steps"].get<int>() > 0);
  }
}

TEST_CASE("an EAGLE-3 head changes no text") {
  const TempFolder temp;
  const std::string head = (temp.path() / "head").string();
  Eagle3Folder().write(head);
  for (const char* temperature : {"0", "0.7"}) {
    const Json plain = head_report(bundled(), {"--temp", temperature});
    for (const Arguments& by : {Arguments{}, {"--spec", "eagle"}, {"--spec", "auto"}}) {
      Arguments all{"--temp", temperature, "-md", head};
      all.insert(all.end(), by.begin(), by.end());
      const Json guessed = head_report(bundled(), all);
      CHECK(guessed["ids"] == plain["ids"]);
      CHECK(guessed["draft"]["model"] == head);
      CHECK(guessed["guesses"]["steps"].get<int>() > 0);
    }
  }
}

TEST_CASE("a head that is missing is an error, and one that cannot guess is left out") {
  const TempFolder temp;
  const Outcome none = run_guessing(bundled(), {"--spec", "mtp"});
  CHECK(none.code == 2);
  CHECK(has(none.err, "has no layer that predicts further tokens"));
  CHECK(
      has(run_guessing(bundled(), {"--spec", "eagle"}).err, "--spec eagle needs an EAGLE-3 head"));
  const Outcome model = run_guessing(bundled(), {"--spec", "eagle", "-md", bundled()});
  CHECK(model.code == 2);
  CHECK(has(model.err, "is no EAGLE-3 head"));
  const std::string head = (temp.path() / "head").string();
  Eagle3Folder({.taps_width = 128}).write(head);
  const Outcome broken = run_guessing(bundled(), {"-md", head});
  CHECK(broken.code == 3);
  CHECK(has(broken.err, "'fc.weight' has 128 columns"));
  Eagle3Folder().write(head);
  const Outcome constrained = run_guessing(bundled(), {"-md", head, "--regex", "[a-z ]{10}"});
  CHECK(constrained.code == 0);
  CHECK(has(constrained.err, "going on without the EAGLE-3 head: nothing is guessed where"));
}

}  // namespace
}  // namespace skald::test
