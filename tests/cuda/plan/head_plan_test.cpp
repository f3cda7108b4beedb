// Checks how the CUDA planner fuses heads that guess, and what such a head reads of its model.
#include "models/heads/heads.h"
#include "tests/catch.h"
#include "tests/cuda/plan/plans.h"
#include "tests/eagle3_folder.h"
#include "tests/error_text.h"
#include "tests/paths.h"
#include "tests/recurrent_model.h"
#include "tests/temp_folder.h"

namespace skald::test {

TEST_CASE("CUDA has kernels for the layer that predicts a token") {
  const TempFolder temp;
  const OpenedModel model = open_model(temp.write("mtp.gguf", RecurrentGguf().file(true)));
  const auto head = open_mtp(model);
  REQUIRE(head);
  CHECK(fused_text(head->opened.model.program()) ==
        "embed norm given norm linear linear norm+linear norm+linear attention gated_act linear "
        "norm+linear linear norm+linear");
  const cuda::FusedProgram fused = cuda::fuse_program(head->opened.model.program());
  const auto linears = ops_of<cuda::FusedLinear>(fused);
  CHECK(linears[0].out == fused.hidden);
  CHECK(linears[0].epilogue == cuda::Epilogue::Floats);
  CHECK(linears[1].epilogue == cuda::Epilogue::AddTo);
  CHECK(sizes_of(head->opened.model).step.given_cols == RecurrentGguf::kDim);
  CHECK(has(kernels(head->opened.model, 1), "[48]: copy_part"));
}

TEST_CASE("CUDA has kernels for EAGLE-3 heads, whose model may have another type") {
  const TempFolder temp;
  const OpenedModel model = open_model(source_dir() / "models" / "demo");
  for (const bool before : {false, true}) {
    CAPTURE(before);
    Eagle3Folder(Eagle3Changes::norm_before(before)).write(temp.path() / "head");
    const OpenedHead head = open_eagle3(temp.path() / "head", model);
    const std::string norm = before ? " norm" : "";
    const cuda::FusedProgram fused = cuda::fuse_program(head.opened.model.program());
    CHECK(fused_text(head.opened.model.program()) ==
          "embed norm given given linear norm part part" + norm +
              " linear attention linear norm+linear linear norm+linear");
    CHECK(fused.type == DType::BF16);
    CHECK(fused.program.given_cols() == 4 * Eagle3Folder::kDim);
    const auto given = ops_of<Given>(fused);
    REQUIRE(given.size() == 2);
    CHECK(fused.type_of(given[0].out) == DType::F32);
    CHECK(fused.type_of(given[1].out) == DType::BF16);
  }
}

TEST_CASE("taps are float32 and change no other op of a model") {
  Model model = open_model(source_dir() / "models" / "demo").model;
  std::string plain = fused_text(model.program());
  model.taps = {2, 4, 5};
  std::string tapped = fused_text(model.program());
  for (int i = 0; i < 3; ++i) {
    const size_t at = tapped.find(" part");
    REQUIRE(at != tapped.npos);
    tapped.erase(at, 5);
  }
  CHECK(tapped == plain);
  const cuda::FusedProgram fused = cuda::fuse_program(model.program());
  CHECK(fused.type_of(*fused.program.taps) == DType::F32);
}

}  // namespace skald::test
