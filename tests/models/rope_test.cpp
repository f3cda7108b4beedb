#include "models/rope.h"

#include <cmath>

#include "models/hf_config.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

HfRope read(const std::string& text) {
  TempFolder folder;
  return read_hf_rope(HfConfig::read(folder.write("config.json", text)), 10000);
}

TEST_CASE("frequencies fall from 1 by powers of the base") {
  const auto f = rope_frequencies(10000, 8, {});
  REQUIRE(f.size() == 4);
  for (int i = 0; i < 4; ++i) {
    CHECK(f[static_cast<size_t>(i)] == Approx(std::pow(10000.0, -i / 4.0)).epsilon(1e-6));
  }
  RopeScaling linear;
  linear.type = "linear";
  linear.factor = 4;
  CHECK(rope_frequencies(10000, 8, linear)[1] == f[1] / 4);
}

TEST_CASE("llama3's scaling keeps short waves, stretches long ones and blends between") {
  const RopeScaling scaling{"llama3", 8, 1, 4, 8192};
  const auto plain = rope_frequencies(500000, 128, {});
  const auto scaled = rope_frequencies(500000, 128, scaling);
  int kept = 0, stretched = 0, blended = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    const double wave = 2 * M_PI / double{plain[i]};
    if (wave < 8192 / 4.0) {
      CHECK(scaled[i] == plain[i]);
      ++kept;
    } else if (wave > 8192) {
      CHECK(scaled[i] == plain[i] / 8);
      ++stretched;
    } else {
      const double smooth = (8192 / wave - 1) / 3;
      CHECK(scaled[i] == Approx((1 - smooth) * plain[i] / 8 + smooth * plain[i]).epsilon(1e-5));
      ++blended;
    }
  }
  CHECK((kept > 20 && stretched > 20 && blended > 2));
}

TEST_CASE("both spellings of the configuration mean the same") {
  CHECK(read("{}").base == 10000);
  CHECK(read(R"({"rope_theta": 5e5})").base == 5e5);
  CHECK(read(R"({"rope_theta": 1, "rope_parameters": {"rope_theta": 5e5}})").base == 5e5);
  for (const char* text : {
           R"({"rope_scaling": {"type": "linear", "factor": 2}})",
           R"({"rope_scaling": {"rope_type": "linear", "factor": 2.0}})",
           R"({"rope_parameters": {"rope_type": "linear", "factor": 2}})",
       }) {
    CHECK(read(text).scaling.type == "linear");
    CHECK(read(text).scaling.factor == 2);
  }
  CHECK(read(R"({"rope_scaling": null})").scaling.type == "none");
  CHECK(read(R"({"rope_parameters": {"rope_type": "default"}})").scaling.type == "none");
}

TEST_CASE("what would change the result in an unknown way is an error") {
  const struct {
    const char* text;
    const char* says;
  } cases[] = {
      {R"({"rope_theta": 0})", "'rope_theta' is 0, expected more than 0"},
      {R"({"rope_theta": -1})", "'rope_theta' is -1"},
      {R"({"rope_scaling": {"type": "yarn", "factor": 2}})", "rope type 'yarn' is not supported"},
      {R"({"rope_scaling": {"type": "dynamic", "factor": 2}})", "rope type 'dynamic'"},
      {R"({"rope_scaling": {"type": "linear"}})", "rope_scaling: 'factor' is missing"},
      {R"({"rope_scaling": {"type": "linear", "factor": 0}})", "'factor' is 0"},
      {R"({"rope_scaling": {"type": 5}})", "'type' is 5"},
      {R"({"rope_scaling": []})", "'rope_scaling' is missing or no object"},
      {R"({"rope_scaling": {"rope_type": "llama3", "factor": 8}})", "'low_freq_factor'"},
      {R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4,
           "high_freq_factor": 1, "original_max_position_embeddings": 8192}})",
       "'high_freq_factor' is 1, expected more than 'low_freq_factor', 4"},
  };
  for (const auto& [text, says] : cases) {
    CAPTURE(text);
    const std::string message = error_text([&] { read(text); });
    CAPTURE(message);
    CHECK(has(message, says));
  }
}

}  // namespace
}  // namespace skald::test
