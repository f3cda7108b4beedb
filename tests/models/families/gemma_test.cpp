// Gemma 1, 2 and 3: tiny models against transformers, and the defaults of their configurations.
#include <cmath>

#include "models/families/families.h"
#include "models/files/hf_config.h"
#include "tests/family_golden.h"

namespace skald::test {
namespace {

using Json = nlohmann::json;

TEST_CASE("tiny Gemmas agree with transformers' logits and greedy tokens") {
  const std::string name = GENERATE("gemma", "gemma2", "gemma3");
  const auto kernels = GENERATE(cpu::KernelSet::Fast, cpu::KernelSet::Reference);
  TempFolder temp;
  const OpenedModel folder = open_model(write_folder(temp, name));
  const OpenedModel gguf = open_model(write_gguf(temp, name));
  CHECK(folder.family == (name == "gemma" ? "Gemma" : name == "gemma2" ? "Gemma 2" : "Gemma 3"));
  CHECK(gguf.family == folder.family);
  check_model(folder.model, name, kernels);
  check_model(gguf.model, name, kernels);
}

TEST_CASE(
    "a Gemma scales its embeddings, and 1 is added to its norms' weights in folders but not in "
    "GGUFs") {
  for (const std::string name : {"gemma", "gemma2", "gemma3"}) {
    CAPTURE(name);
    TempFolder temp;
    const ModelConfig folder = open_model(write_folder(temp, name)).model.config;
    const ModelConfig gguf = open_model(write_gguf(temp, name)).model.config;
    CHECK(folder.norm_plus == 1);
    CHECK(gguf.norm_plus == 0);
    for (const ModelConfig& c : {folder, gguf}) {
      CHECK(c.embedding_scale == 4);  // the square root of the width, 16
      CHECK(c.activation == Activation::GeluTanh);
      CHECK(c.tied);
      CHECK(!c.rope.interleaved);
    }
    CHECK(gguf.windows == folder.windows);
    CHECK(gguf.rope.inv_freq == folder.rope.inv_freq);
    CHECK(gguf.window_rope.inv_freq == folder.window_rope.inv_freq);
    CHECK(gguf.attention_softcap == folder.attention_softcap);
    CHECK(gguf.logit_softcap == folder.logit_softcap);
  }
}

TEST_CASE("a Gemma's activation is the approximate GELU, under each of its names") {
  for (const char* name : {"gelu", "gelu_pytorch_tanh"}) {
    const Json changes{{"hidden_act", name}, {"hidden_activation", "erase"}};
    CHECK(config_of("gemma", changes).activation == Activation::GeluTanh);
  }
  const Json silent{{"hidden_act", "erase"}, {"hidden_activation", nullptr}};
  CHECK(config_of("gemma", silent).activation == Activation::GeluTanh);
  CHECK(has(refusal("gemma", {{"hidden_act", "silu"}}), "activation 'silu' is not supported"));
  CHECK(has(refusal("gemma2", {{"hidden_activation", "relu"}}), "activation 'relu'"));
}

TEST_CASE("omitted keys of a Gemma's configuration have transformers' defaults") {
  // The weights do not fit the default head dimension of 256, so the message shows it.
  CHECK(has(refusal("gemma", {{"head_dim", "erase"}}), "expected [512, 16]"));
  const ModelConfig c = config_of("gemma2", {{"query_pre_attn_scalar", "erase"},
                                             {"sliding_window", "erase"},
                                             {"attn_logit_softcapping", "erase"},
                                             {"final_logit_softcapping", "erase"},
                                             {"rms_norm_eps", "erase"},
                                             {"max_position_embeddings", "erase"}});
  CHECK(c.attention_scale == 1 / 16.0f);
  CHECK(c.windows == std::vector<int>{4096, 0, 4096});
  CHECK(c.attention_softcap == 50);
  CHECK(c.logit_softcap == 30);
  CHECK(c.norm_eps == 1e-6f);
  CHECK(c.context == 8192);
  CHECK(config_of("gemma").attention_scale == 0);
}

TEST_CASE("Gemma 2 may have no caps, and may list its windows") {
  const ModelConfig c = config_of(
      "gemma2", {{"attn_logit_softcapping", nullptr},
                 {"final_logit_softcapping", nullptr},
                 {"query_pre_attn_scalar", 40},
                 {"layer_types", {"full_attention", "sliding_attention", "sliding_attention"}}});
  CHECK(c.attention_softcap == 0);
  CHECK(c.logit_softcap == 0);
  CHECK(c.attention_scale == Approx(1 / std::sqrt(40.0)));
  CHECK(c.windows == std::vector<int>{0, 7, 7});
  CHECK(config_of("gemma2", {{"sliding_window", nullptr}}).windows == std::vector<int>{0, 0, 0});
  for (double scalar : {0.0, -1.0, 1e300, 1e-300}) {
    CHECK(has(refusal("gemma2", {{"query_pre_attn_scalar", scalar}}), "expected more than 0"));
  }
  CHECK(has(refusal("gemma2", {{"attn_logit_softcapping", 1e300}}), "expected 0 or more"));
  CHECK(has(refusal("gemma2", {{"final_logit_softcapping", -1}}),
            "'final_logit_softcapping' is -1, expected 0 or more"));
  CHECK(has(refusal("gemma2", {{"use_bidirectional_attention", true}}),
            "'use_bidirectional_attention' is true"));
}

TEST_CASE("Gemma 3 has two ropes, in the old and in the new form of the configuration") {
  const ModelConfig old = config_of("gemma3");
  CHECK(old.windows == std::vector<int>{7, 7, 0, 7});
  CHECK(old.rope_base == 1000000);
  CHECK(old.rope_scaling == "linear");
  CHECK(old.window_rope.inv_freq[1] == Approx(std::pow(10000.0, -0.25)));
  CHECK(old.rope.inv_freq[1] == Approx(std::pow(1000000.0, -0.25) / 8));
  const Json full{{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 1000000.0}};
  const Json sliding{{"rope_type", "default"}, {"rope_theta", 10000.0}};
  const auto spelled_newly = [&](const Json& a, const Json& b) {
    return Json{
        {"rope_parameters", {{"full_attention", a}, {"sliding_attention", b}}},
        {"rope_theta", "erase"},
        {"rope_scaling", "erase"},
        {"rope_local_base_freq", "erase"},
        {"sliding_window_pattern", "erase"},
        {"layer_types",
         {"sliding_attention", "sliding_attention", "full_attention", "sliding_attention"}}};
  };
  const ModelConfig now = config_of("gemma3", spelled_newly(full, sliding));
  CHECK(now.windows == old.windows);
  CHECK(now.rope_base == old.rope_base);
  CHECK(now.rope.inv_freq == old.rope.inv_freq);
  CHECK(now.window_rope.inv_freq == old.window_rope.inv_freq);
  // Without rope_theta the defaults apply.
  const Json plain{{"rope_type", "default"}};
  const ModelConfig silent = config_of("gemma3", spelled_newly(plain, plain));
  CHECK(silent.rope_base == 1000000);
  CHECK(silent.window_rope.inv_freq == old.window_rope.inv_freq);
  CHECK(has(refusal("gemma3", spelled_newly(full, full)),
            "rope type 'linear' is not supported for layers with a window"));
  CHECK(has(refusal("gemma3", {{"rope_parameters", {{"full_attention", full}}}}),
            "'full_attention' is not known"));
  for (double base : {0.0, -1.0, 1e-300}) {
    CHECK(has(refusal("gemma3", {{"rope_local_base_freq", base}}),
              "the rope base of layers with a window is "));
  }
}

TEST_CASE("every sixth layer of a Gemma 3 has no window, unless the configuration says otherwise") {
  CHECK(config_of("gemma3", {{"sliding_window_pattern", "erase"}}).windows ==
        std::vector<int>{7, 7, 7, 7});
  CHECK(config_of("gemma3", {{"sliding_window_pattern", 1}}).windows ==
        std::vector<int>{0, 0, 0, 0});
  CHECK(has(refusal("gemma3", {{"sliding_window_pattern", 0}}), "'sliding_window_pattern' is 0"));
  CHECK(has(refusal("gemma3", {{"sliding_window", 0}}), "'sliding_window' is 0"));
  CHECK(has(refusal("gemma3", {{"attn_logit_softcapping", 50.0}}),
            "'attn_logit_softcapping' is not supported"));
  CHECK(config_of("gemma3", {{"final_logit_softcapping", 30.0}}).logit_softcap == 30);
}

TEST_CASE(
    "a Gemma 3 with a vision part loads as its text part, whose configuration omits most keys") {
  TempFolder temp;
  const fs::path folder = write_folder(temp, "gemma3");
  check_as_text_part(temp, folder, "gemma3", "gemma3");
  CHECK(open_model(folder).model.config.architecture == "gemma3");
  // The text_config of gemma-3-4b-it.
  const Json text = {{"model_type", "gemma3_text"},
                     {"hidden_size", 2560},
                     {"intermediate_size", 10240},
                     {"num_hidden_layers", 34},
                     {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}},
                     {"sliding_window", 1024}};
  temp.write("m/config.json", Json{{"model_type", "gemma3"}, {"text_config", text}}.dump());
  CHECK(has(error_text([&] { open_model(folder); }),
            "'token_embd.weight' is [48, 16], expected [262208, 2560]"));
  const HfConfig config = HfConfig::read(folder / "config.json");
  const ModelConfig c = kGemma3.from_hf(config);
  CHECK(c.heads == 8);
  CHECK(c.kv_heads == 4);
  CHECK(c.head_dim == 256);
  CHECK(c.context == 131072);
  CHECK(c.rope_base == 1000000);
  CHECK(c.tied);
  CHECK(c.windows.size() == 34);
  CHECK((c.windows[5] == 0 && c.windows[4] == 1024 && c.windows[6] == 1024));
  CHECK(c.attention_scale == 1 / 16.0f);
  temp.write(
      "m/config.json",
      Json{{"model_type", "gemma3"}, {"text_config", text}, {"quantization_config", {{"a", 1}}}}
          .dump());
  CHECK(has(error_text([&] { open_model(folder); }), "'quant_method' is missing"));
}

// GGUF has no key for the scale of scores. The largest models have another scale than the rest, and
// are recognized by their number of layers.
TEST_CASE("a GGUF of the largest Gemma gets the known scale of this size") {
  struct Size {
    const char* name;
    uint32_t layers;
    float scale;
  };
  for (const auto& [name, layers, scale] :
       {Size{"gemma2", 46, 1 / std::sqrt(8.0f)}, Size{"gemma3", 62, 1 / std::sqrt(8.0f)},
        Size{"gemma2", 3, 0}}) {
    CAPTURE(name, layers);
    TempFolder temp;
    std::string file = read_file(write_gguf(temp, name));
    const std::string key = concat(name, ".block_count");
    const size_t at = file.find(key);
    REQUIRE(at != std::string::npos);
    std::memcpy(file.data() + at + key.size() + 4, &layers, sizeof layers);
    const auto gguf = open_gguf(temp.write("changed.gguf", file));
    const ModelConfig c = (std::string(name) == "gemma2" ? kGemma2 : kGemma3).from_gguf(*gguf);
    CHECK(c.attention_scale == Approx(scale));
    CHECK(c.windows.size() == layers);
  }
}

}  // namespace
}  // namespace skald::test
