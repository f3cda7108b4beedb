// GGUF metadata that programs write in different ways.
#include "models/families/shared/config.h"

#include "models/files/gguf.h"
#include "tests/catch.h"
#include "tests/family_golden.h"
#include "tests/gguf_writer.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

// The configuration of a file that has the required keys and those that `add` writes.
template <class Add>
ModelConfig config_with(Add add) {
  GgufWriter w;
  w.text("general.architecture", "llama");
  w.u32("llama.block_count", 1);
  w.u32("llama.embedding_length", 8);
  w.u32("llama.feed_forward_length", 8);
  w.u32("llama.attention.head_count", 2);
  w.f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  add(w);
  w.tensors.push_back({"token_embd.weight", {8, 4}, 0, std::string(8 * 4 * 4, '\0')});
  TempFolder folder;
  return read_common_gguf(*open_gguf(folder.write("model.gguf", w.file())));
}

TEST_CASE("a window beyond INT32_MAX is a large window, not a negative one") {
  CHECK(config_with([](GgufWriter&) {}).window == 0);
  CHECK(config_with([](GgufWriter& w) { w.u32("llama.attention.sliding_window", 4096); }).window ==
        4096);
  CHECK(config_with([](GgufWriter& w) {
          w.u32("llama.attention.sliding_window", 0xffffffff);
        }).window == INT32_MAX);
}

TEST_CASE("rope scaling of type none ignores the factor, and a factor of 0 means 1") {
  const auto plain = config_with([](GgufWriter&) {}).rope.inv_freq;
  const auto scaled = [](const char* type, float factor) {
    return config_with([&](GgufWriter& w) {
             if (*type) w.text("llama.rope.scaling.type", type);
             w.f32("llama.rope.scaling.factor", factor);
           })
        .rope.inv_freq;
  };
  CHECK(scaled("none", 8) == plain);
  CHECK(scaled("linear", 0) == plain);
  CHECK(scaled("", 1) == plain);
  CHECK(scaled("linear", 4)[1] == plain[1] / 4);
  CHECK(scaled("", 4)[1] == plain[1] / 4);
}

TEST_CASE("a key of a configuration that would change the result is read or refused") {
  // Its norms have rms_norm_eps: another epsilon under another name would be lost.
  CHECK(has(refusal("nemo", {{"layer_norm_eps", 0.25}}), "'layer_norm_eps' is 0.25"));
  const double eps = config_of("nemo").norm_eps;
  const double same = read_json(golden_folder("nemo") / "config.json").at("rms_norm_eps");
  CHECK(config_of("nemo", {{"layer_norm_eps", same}}).norm_eps == static_cast<float>(eps));
  for (const char* key :
       {"logit_scale", "logits_scaling", "embedding_multiplier", "residual_multiplier",
        "attention_multiplier", "final_logit_softcapping", "attn_logit_softcapping"}) {
    CAPTURE(key);
    CHECK(has(refusal("nemo", {{key, 0.5}}), concat("'", key, "' is 0.5")));
    CHECK(config_of("nemo", {{key, nullptr}}).layers > 0);
  }
  CHECK(config_of("nemo", {{"logit_scale", 1}}).logit_scale == 1);
  CHECK(config_of("granite", {{"logits_scaling", 4}}).logit_scale == 0.25f);
  CHECK(has(refusal("granite", {{"logit_scale", 4}}), "architecture 'granite'"));
  CHECK(has(refusal("gemma", {{"final_logit_softcapping", 7}}), "architecture 'gemma'"));
  CHECK(config_of("gemma2", {{"final_logit_softcapping", 7}}).logit_softcap == 7);
}

}  // namespace
}  // namespace skald::test
