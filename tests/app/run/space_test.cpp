// A model with a state space, experts without gates, attention and a feed-forward in the program's
// commands.
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/process.h"
#include "tests/space_model.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

struct SpaceModel {
  TempFolder folder;
  std::string gguf = folder.write("space.gguf", SpaceGguf().file()).string();

  std::string text(const std::vector<std::string>& more) const {
    std::vector<std::string> all{"run", "-m", gguf, "A fox and a hare", "--temp",
                                 "0",   "-n", "24", "--ignore-eos"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = skald(all);
    CAPTURE(outcome.err);
    CHECK(outcome.code == 0);
    return outcome.out;
  }
};

}  // namespace

TEST_CASE("a state space writes the same text with chunks of any size, guesses and ranks") {
  const SpaceModel model;
  const std::string text = model.text({"--exact"});
  CHECK(!text.empty());
  CHECK(model.text({"--exact", "--rows", "3"}) == text);
  CHECK(model.text({"--exact", "--spec", "ngram"}) == text);
  CHECK(model.text({"--exact", "--device", "cpu", "--tp", "2"}) == text);
}

TEST_CASE("inspect says which layers have a state space") {
  const SpaceModel model;
  const Outcome text = skald({"inspect", model.gguf});
  CHECK(text.code == 0);
  CHECK(has(text.out, "state space 6 states of 10 x 12, 2 groups in 1 of 4 layers\n"));
  const auto json = nlohmann::json::parse(skald({"inspect", model.gguf, "--json"}).out);
  const auto& config = json.at("config");
  CHECK(config.at("state_space_layers") == nlohmann::json({0}));
  CHECK(config.at("state_space_heads") == 6);
  CHECK(config.at("activation") == "squared_relu");
}

TEST_CASE("a GPU's plan names the kernels of a state space") {
  const TempFolder folder;
  for (const bool fast : {false, true}) {
    const SpaceGguf model = fast ? SpaceGguf(kFastSpace) : SpaceGguf();
    const std::string gguf = folder.write("space.gguf", SpaceGguf(model).file()).string();
    const Outcome plan = skald({"plan", "-m", gguf, "--gpu", "sm_90:132:80G", "--kernels"});
    CHECK(plan.code == 0);
    CHECK(has(plan.out, fast ? "space_decode" : "space_plain"));
    CHECK(has(plan.out, "space_rows") == fast);
    CHECK(has(plan.out, fast ? "4 heads, 2 k, 32 x 64" : "6 heads, 2 k, 10 x 12"));
  }
}

TEST_CASE("quantize writes a model with state spaces in smaller formats") {
  const SpaceModel model;
  const std::string out = (model.folder.path() / "q8.gguf").string();
  REQUIRE(skald({"quantize", model.gguf, out, "--type", "q8_0"}).code == 0);
  const Outcome text = skald({"run", "-m", out, "A fox", "--temp", "0", "-n", "4", "--ignore-eos"});
  CHECK(text.code == 0);
}

}  // namespace skald::test
