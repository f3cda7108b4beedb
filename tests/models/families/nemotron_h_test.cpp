// Nemotron-H: what its configurations say, what is refused, and the golden with experts. The golden
// without experts is in golden_test.cpp.
#include "engine/cpu/executor.h"
#include "models/convert/gguf_export.h"
#include "models/convert/quantized.h"
#include "tests/exported_gguf.h"
#include "tests/family_golden.h"

namespace skald::test {
namespace {

using Json = nlohmann::json;

const std::string kWithExperts = "nemotron_h-moe";
const Json kStepsOfGolden = golden_changes(kWithExperts);

}  // namespace

TEST_CASE("a Nemotron-H with experts agrees with Hugging Face's, also on several ranks") {
  TempFolder temp;
  const fs::path golden = find_golden(kWithExperts);
  if (golden.empty()) return;
  const fs::path folder = copy_golden(temp, kWithExperts, kStepsOfGolden);
  const Model model = made_model(open_model(folder).model, {});
  for (const auto kernels : {cpu::KernelSet::Fast, cpu::KernelSet::Reference}) {
    const auto executor = cpu::make_executor(model, {.exact = true}, kernels);
    check_logits(*executor, golden / "golden.json", golden / "logits.npy");
    const Json json = read_json(golden / "golden.json");
    if (json.contains("greedy_ids")) check_greedy(*executor, json);
  }
  for (const int ranks : {2, 3, 4, 8}) {
    CAPTURE(ranks);
    const auto group = cpu::make_group(model, {.exact = true}, ranks);
    check_logits(*group, golden / "golden.json", golden / "logits.npy");
  }
}

TEST_CASE("each layer of Nemotron-H is of one kind") {
  if (find_golden(kWithExperts).empty()) return;
  const ModelConfig c = golden_config(kWithExperts);
  CHECK(c.space.layers == std::vector<bool>{true, false, true, false, false, true});
  CHECK(c.space.spec == SpaceSpec{4, 32, 2, 16});
  CHECK(c.space.taps == 4);
  CHECK(c.space.conv_bias);
  CHECK(c.experts.dense == std::vector<bool>{true, false, true, true, false, true});
  CHECK(c.experts.shared_dim == 40);
  CHECK(c.experts.scale == 2.5f);
  CHECK(!c.gated_mlp);
  CHECK(!c.rotates(3));
  const Program program = open_model(find_golden(kWithExperts)).model.program();
  CHECK(program.kv.size() == 1);
  CHECK(program.states.size() == 6);  // of three convolutions and three matrices
  CHECK(golden_config(kWithExperts, kStepsOfGolden).space.spec.least_step == 0.001f);
}

TEST_CASE("a configuration of Nemotron-H that skald does not compute is refused") {
  if (find_golden(kWithExperts).empty()) return;
  const auto refused = [](const Json& changes) { return golden_refusal(kWithExperts, changes); };
  CHECK(has(refused({{"hybrid_override_pattern", "MEM*E"}}),
            "has 5 letters, expected one for each of 6 layers"));
  CHECK(has(refused({{"hybrid_override_pattern", "MEM*EX"}}),
            "has 'X', expected M, *, - or E for each layer"));
  CHECK(has(refused({{"mlp_hidden_act", "silu"}}), "'mlp_hidden_act'"));
  CHECK(has(refused({{"use_bias", true}}), "'use_bias' is true, expected false"));
  CHECK(has(refused({{"n_groups", 3}}), "4 heads of a state space cannot share 3 groups evenly"));
  CHECK(has(refused({{"moe_latent_size", 32}}), "'moe_latent_size'"));
  CHECK(has(refused({{"time_step_limit", {1, 0}}}), "'time_step_limit' must have two numbers"));
  CHECK(has(refused({{"ssm_state_size", 8}}), "tensor 'blk.0.ssm_in.weight' is [324, 64]"));
}

TEST_CASE("a GGUF of Nemotron-H says which layers have attention and which a feed-forward") {
  const fs::path folder = find_golden("nemotron_h");
  if (folder.empty()) return;
  TempFolder temp;
  const OpenedModel back =
      open_model(temp.write("m.gguf", gguf_bytes(open_model(folder), DType::F32)));
  const GgufMetadata& m = back.gguf->metadata();
  CHECK(m.ints("nemotron_h.attention.head_count_kv") == std::vector<int64_t>{0, 0, 0, 2, 0, 0});
  CHECK(m.ints("nemotron_h.feed_forward_length") == std::vector<int64_t>{0, 128, 0, 0, 128, 0});
  CHECK(m.uint("nemotron_h.ssm.inner_size") == 128);
  CHECK(back.gguf->find("blk.0.ssm_norm.weight")->shape == std::vector<int64_t>{2, 64});
  CHECK(back.gguf->find("blk.0.ssm_a")->shape == std::vector<int64_t>{4, 1});
  const fs::path bounded = copy_golden(temp, "nemotron_h", kStepsOfGolden);
  CHECK(has(error_text([&] { gguf_bytes(open_model(bounded), DType::F32); }),
            "cannot say this model's state spaces"));
}

}  // namespace skald::test
