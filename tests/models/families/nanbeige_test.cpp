// Nanbeige 4.2: its layers run several times. The golden is scripts/make_looped_golden.py's.
#include "tests/family_golden.h"

namespace skald::test {

using Json = nlohmann::json;

TEST_CASE("a looped model has the logits and greedy tokens of a forward pass in float64") {
  const auto kernels = GENERATE(cpu::KernelSet::Fast, cpu::KernelSet::Reference);
  const bool folder = GENERATE(true, false);
  TempFolder temp;
  const OpenedModel opened =
      open_model(folder ? write_folder(temp, "nanbeige") : write_gguf(temp, "nanbeige"));
  CHECK(opened.family == "Nanbeige");
  CHECK(opened.model.config.loops == 2);
  CHECK(opened.model.config.loop_norm);
  check_model(opened.model, "nanbeige", kernels);
}

TEST_CASE("each run of a layer has a cache of its own, and all runs share the layer's weights") {
  TempFolder temp;
  const Model looped = open_model(write_folder(temp, "nanbeige")).model;
  const Program twice = looped.program();
  const Program once =
      open_model(write_folder(temp, "nanbeige", {{"num_loops", 1}})).model.program();
  CHECK(once.kv.size() == 4);
  CHECK(twice.kv.size() == 8);
  CHECK(twice.weights.size() == once.weights.size());
  CHECK(twice.ops.size() == 2 * once.ops.size() - 2);  // embed, and the norm and logits at the end
}

TEST_CASE("Nanbeige's number of runs is that of a key, or follows from another") {
  const auto config = [](const Json& changes) { return config_of("nanbeige", changes); };
  CHECK(config({{"num_loops", "erase"}}).loops == 1);
  CHECK(!config({{"num_loops", 1}}).loop_norm);
  CHECK(config({{"num_loops", 3}}).loops == 3);
  CHECK(config({{"loop_loss_weights", {0.25, 0.25}}}).loops == 3);
  CHECK(config({{"loop_loss_weights", nullptr}}).loops == 2);
  CHECK(!config({{"skip_loop_final_norm", true}}).loop_norm);
  CHECK(has(refusal("nanbeige", {{"num_loops", 0}}), "'num_loops' is 0"));
}

TEST_CASE("a GGUF of Nanbeige says the number of runs, and whether a norm stands between them") {
  TempFolder temp;
  const std::string gguf = read_file(write_gguf(temp, "nanbeige"));
  const auto with = [&](const std::string& key, char value) {
    constexpr size_t kTypeBytes = 4;
    std::string changed = gguf;
    changed.at(changed.find(key) + key.size() + kTypeBytes) = value;
    return open_model(temp.write("changed.gguf", changed)).model.config;
  };
  CHECK(with("nanbeige.num_loops", 5).loops == 5);
  CHECK(!with("nanbeige.skip_loop_final_norm", 1).loop_norm);
  CHECK(has(error_text([&] { with("nanbeige.num_loops", 0); }), "'nanbeige.num_loops' is 0"));
  CHECK(has(error_text([&] { with("nanbeige.num_loops", 65); }), "expected 1 to 64"));
}

TEST_CASE("parts of Nanbeige's architecture that no published model has are refused") {
  for (const char* key : {"enable_double_loop_split", "loop_share_kv", "enable_hyper_connection",
                          "enable_depth_attention", "qk_layernorm"}) {
    CHECK(has(refusal("nanbeige", {{key, true}}), concat("'", key, "' is true")));
    CHECK(config_of("nanbeige", {{key, false}}).loops == 2);
  }
  CHECK(has(refusal("nanbeige", {{"emb_neighbor_num", 3}}), "'emb_neighbor_num' is set"));
  CHECK(config_of("nanbeige", {{"emb_neighbor_num", nullptr}}).loops == 2);
}

}  // namespace skald::test
