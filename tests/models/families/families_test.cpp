// Tiny models of families and rope scalings, written by scripts/make_goldens.py. Hugging Face
// folders and GGUFs agree with transformers.
#include "tests/family_golden.h"

namespace skald::test {
namespace {

using Json = nlohmann::json;

TEST_CASE("tiny models of more families agree with transformers' logits and greedy tokens") {
  const std::string name =
      GENERATE("nemo", "ministral", "yarn", "dynamic", "granite", "smollm3", "longrope");
  const auto kernels = GENERATE(cpu::KernelSet::Fast, cpu::KernelSet::Reference);
  TempFolder temp;
  check_model(open_model(write_folder(temp, name)).model, name, kernels);
}

TEST_CASE("the GGUFs of these models agree with transformers too") {
  const std::string name = GENERATE("nemo", "yarn", "granite", "smollm3", "longrope");
  const auto kernels = GENERATE(cpu::KernelSet::Fast, cpu::KernelSet::Reference);
  TempFolder temp;
  const OpenedModel gguf = open_model(write_gguf(temp, name));
  CHECK(gguf.family == (name == "granite"    ? "Granite"
                        : name == "smollm3"  ? "SmolLM3"
                        : name == "longrope" ? "Phi-3"
                                             : "Llama"));
  check_model(gguf.model, name, kernels);
}

TEST_CASE("without -c a model with two sets of rotations gets the context of the short ones") {
  TempFolder temp;
  for (const char* name : {"longrope", "dynamic"}) {
    CAPTURE(name);
    const Model model = open_model(write_folder(temp, name)).model;
    CHECK(model.config.short_context == 32);
    CHECK(model.config.context == (name == std::string("dynamic") ? 96 : 128));
    const auto executor = cpu::make_executor(model, {});
    CHECK(executor->context() == 32);
    CHECK(executor->plan().context_by == MemoryPlan::ContextBy::Short);
    CHECK(executor->program().ropes[0].inv_freq == model.config.rope.inv_freq);
    RunOptions longer;
    longer.context = 33;
    const auto other = cpu::make_executor(model, longer);
    CHECK(other->program().ropes[0].inv_freq != model.config.rope.inv_freq);
  }
  CHECK(config_of("yarn").short_context == 0);
  const Json always_short{{"original_max_position_embeddings", 128}};
  const Model model = open_model(write_folder(temp, "longrope", always_short)).model;
  CHECK(cpu::make_executor(model, {})->plan().context_by == MemoryPlan::ContextBy::Model);
}

TEST_CASE("Phi-3's fused matrices are split by rows") {
  TempFolder temp;
  const Model model = open_model(write_folder(temp, "longrope")).model;
  const Program program = model.program();
  const TensorView whole = model.weights->find("blk.1.attn_qkv.weight")->view;
  int64_t rows = 0;
  for (const Weight& weight : program.weights) {
    if (weight.name.rfind("blk.1.attn_qkv.weight[", 0) != 0) continue;
    CHECK(weight.view.data == whole.row(rows));
    rows += weight.view.rows;
  }
  CHECK(rows == whole.rows);
  CHECK(program.ropes[0].inv_freq.size() == 6);  // of 8 pairs, 6 rotate
  CHECK(model.config.window == 21);
  CHECK(model.config.tied);
  CHECK(has(refusal("longrope", {{"num_key_value_heads", 2}}),
            "tensor 'blk.0.attn_qkv.weight' is [64, 32], expected [96, 32]"));
  CHECK(
      has(refusal("longrope", {{"intermediate_size", 16}}), "'blk.0.ffn_gate.weight' is missing"));
}

TEST_CASE("omitted keys of Phi-3's configuration have transformers' defaults") {
  const ModelConfig c = config_of("longrope", {{"original_max_position_embeddings", "erase"},
                                               {"rms_norm_eps", "erase"},
                                               {"sliding_window", nullptr},
                                               {"attention_bias", true}});
  CHECK(c.short_context == 128);  // the default is 4096, but the model has only 128
  CHECK(c.norm_eps == 1e-5f);
  CHECK(c.window == 0);
  CHECK(!c.attention_bias);
  CHECK(has(refusal("longrope", {{"partial_rotary_factor", 0.5}}),
            "rope_scaling: 'short_factor' has 6 values, expected 4"));
  CHECK(has(refusal("longrope", {{"rope_scaling", {{"type", "ntk"}}}}), "rope type 'ntk'"));
  CHECK(has(refusal("longrope", {{"original_max_position_embeddings", 1}}),
            "with scaling 'longrope' gives no usable rotations"));
}

TEST_CASE("Granite's multipliers are read, and must be finite and more than 0") {
  const ModelConfig c = config_of("granite");
  CHECK(c.embedding_scale == 3.5f);
  CHECK(c.attention_scale == 0.17f);
  CHECK(c.residual_scale == 0.35f);
  CHECK(c.logit_scale == 1 / 1.7f);
  const ModelConfig silent = config_of("granite", {{"embedding_multiplier", "erase"},
                                                   {"attention_multiplier", "erase"},
                                                   {"residual_multiplier", "erase"},
                                                   {"logits_scaling", "erase"}});
  CHECK(silent.embedding_scale == 1);
  CHECK(silent.attention_scale == 1);
  CHECK(silent.residual_scale == 1);
  CHECK(silent.logit_scale == 1);
  for (const char* key :
       {"embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling"}) {
    CHECK(has(refusal("granite", {{key, 0}}), "' is 0, expected more than 0"));
    CHECK(has(refusal("granite", {{key, 1e300}}), "expected more than 0"));
    CHECK(has(refusal("granite", {{key, "much"}}), "expected a number"));
  }
}

TEST_CASE("SmolLM3's layers without rope are listed, or every n-th") {
  const auto unrotated = [](const Json& changes) {
    const ModelConfig c = config_of("smollm3", changes);
    std::vector<int> layers;
    for (int layer = 0; layer < c.layers; ++layer) {
      if (!c.rotates(layer)) layers.push_back(layer);
    }
    return layers;
  };
  using Layers = std::vector<int>;
  CHECK(unrotated(Json::object()) == Layers{3});
  CHECK(unrotated({{"no_rope_layers", nullptr}}) == Layers{3});
  CHECK(unrotated({{"no_rope_layers", nullptr}, {"no_rope_layer_interval", 2}}) == Layers{1, 3});
  CHECK(unrotated({{"no_rope_layers", {0, 1, 0, 1, 0}}}) == Layers{0, 2});
  CHECK(has(refusal("smollm3", {{"no_rope_layers", {1, 0}}}), "'no_rope_layers' has 2 values"));
  CHECK(has(refusal("smollm3", {{"no_rope_layers", nullptr}, {"no_rope_layer_interval", 0}}),
            "'no_rope_layer_interval' is 0"));

  CHECK(config_of("smollm3", {{"rope_theta", "erase"}}).rope_base == 2000000);
  CHECK(config_of("smollm3", {{"tie_word_embeddings", "erase"}}).tied);
  CHECK(config_of("smollm3").windows.empty());
  CHECK(config_of("smollm3", {{"use_sliding_window", true}, {"sliding_window", 9}}).windows ==
        std::vector<int>{0, 0, 0, 9});
}

TEST_CASE("Mistral's window applies to all layers, Ministral's to the named ones") {
  const Json all{"sliding_attention", "sliding_attention", "sliding_attention",
                 "sliding_attention"};
  CHECK(config_of("ministral").windows == std::vector<int>{9, 0, 9, 9});
  const ModelConfig silent = config_of("ministral", {{"layer_types", nullptr}});
  CHECK((silent.windows.empty() && silent.window_of(1) == 9));
  CHECK(config_of("nemo").window == 0);
  CHECK(config_of("nemo", {{"sliding_window", "erase"}}).window == 4096);
  CHECK(config_of("nemo", {{"sliding_window", 9}, {"layer_types", all}}).window_of(1) == 9);
  CHECK(has(refusal("nemo", {{"layer_types", all}}), "but there is no 'sliding_window'"));
  CHECK(has(refusal("ministral", {{"model_type", "mistral"}}),
            "'layer_types' says something else than 'sliding_window'"));
  CHECK(has(refusal("ministral", {{"layer_types", {"sliding_attention"}}}),
            "'layer_types' has 1 values"));
  CHECK(
      has(refusal("ministral", {{"layer_types", {"a", "b", "c", "d"}}}), "'layer_types' has 'a'"));
  // transformers gives Mistral no biases, even if the configuration asks for them.
  CHECK(!config_of("nemo", {{"attention_bias", true}}).attention_bias);
}

// Wraps the model as the text part of a model with a vision encoder.
TEST_CASE("a Mistral 3 loads as its text part") {
  TempFolder temp;
  const fs::path folder = write_folder(temp, "nemo");
  Json text = read_json(folder / "config.json");
  check_as_text_part(temp, folder, "mistral3", "nemo");
  text["model_type"] = "mistral9";
  temp.write("m/config.json", Json{{"model_type", "mistral3"}, {"text_config", text}}.dump());
  CHECK(has(error_text([&] { open_model(folder); }),
            "text_config: the architecture 'mistral9' is not supported"));
}

}  // namespace
}  // namespace skald::test
