// EXAONE 4: what its configuration says, and what is refused. The golden is in golden_test.cpp.
#include "tests/family_golden.h"

namespace skald::test {
namespace {

using Json = nlohmann::json;

ModelConfig exaone(const Json& changes) { return golden_config("exaone4", changes); }

}  // namespace

TEST_CASE("EXAONE 4 rotates in layers with a window, or in all layers of a model without windows") {
  if (find_golden("exaone4").empty()) return;
  const ModelConfig c = exaone(Json::object());
  CHECK(c.windows == std::vector<int>{16, 16, 16, 0});
  CHECK(c.unrotated == std::vector<bool>{false, false, false, true});
  CHECK(c.qk_norm == QkNorm::Heads);

  const ModelConfig two = exaone({{"layer_types", "erase"}, {"sliding_window_pattern", 2}});
  CHECK(two.windows == std::vector<int>{16, 0, 16, 0});
  CHECK(two.unrotated == std::vector<bool>{false, true, false, true});
  const ModelConfig silent = exaone(
      {{"layer_types", "erase"}, {"sliding_window_pattern", "erase"}, {"sliding_window", "erase"}});
  CHECK(silent.windows == std::vector<int>{4096, 4096, 4096, 0});

  const Json full = {"full_attention", "full_attention", "full_attention", "full_attention"};
  const ModelConfig none = exaone({{"sliding_window", nullptr}, {"layer_types", full}});
  CHECK(none.windows.empty());
  CHECK(none.unrotated.empty());
}

TEST_CASE("the norms of EXAONE 4 stand after attention and feed-forward") {
  if (find_golden("exaone4").empty()) return;
  TempFolder temp;
  const Program program = open_model(copy_golden(temp, "exaone4")).model.program();
  std::string layer;
  for (size_t i = 1; i <= 16; ++i) layer += std::string(op_name(program.ops[i])) + " ";
  CHECK(layer ==
        "linear linear linear head_norm head_norm rope rope attention linear rms_norm add "
        "linear linear gated_act linear rms_norm ");
}

}  // namespace skald::test
