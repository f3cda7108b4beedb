// DeepSeek V3 and Mistral 4: what their configurations say and what is refused. The goldens are in
// golden_test.cpp.
#include <cmath>

#include "app/model/loading.h"
#include "cuda/cuda.h"
#include "tests/exported_gguf.h"
#include "tests/family_golden.h"

namespace skald::test {

using Json = nlohmann::json;

TEST_CASE("DeepSeek V3 caches latents, and chooses experts from groups") {
  const fs::path folder = find_golden("deepseek_v3");
  if (folder.empty()) return;
  const OpenedModel opened = open_model(folder);
  const ModelConfig& c = opened.model.config;
  CHECK(c.layers == 4);  // the fifth predicts further tokens
  const LatentConfig& l = c.latent;
  CHECK((l.rank == 32 && l.query_rank == 48 && l.rope_dim == 16));
  CHECK((l.key_dim == 32 && l.value_dim == 32));
  CHECK((c.kv_heads == 1 && c.head_dim == 48));
  CHECK(c.rope.interleaved);
  CHECK(c.rope.scale == 1);
  const double more = 1 + 0.1 * std::log(40.0);
  CHECK(c.attention_scale == Approx(more * more / std::sqrt(48.0)).epsilon(1e-6));
  CHECK((c.experts.groups == 4 && c.experts.used_groups == 2));
  CHECK((c.experts.gating == Gating::Sigmoid && c.experts.choice_bias && c.experts.normalized));
  CHECK(c.experts.scale == 2.5f);
  CHECK(c.experts.dense == std::vector<bool>{true, false, false, false});
  const Program program = opened.model.program();
  CHECK(program.kv.size() == 4);
  CHECK((program.kv[0].kv_heads == 1 && program.kv[0].head_dim == 48));
}

TEST_CASE("Mistral 4 stands inside Mistral 3, and its queries grow") {
  if (find_golden("mistral4").empty()) return;
  const ModelConfig c = golden_config("mistral4");
  CHECK((c.experts.gating == Gating::Softmax && !c.experts.choice_bias));
  CHECK(c.experts.groups == 1);
  CHECK(c.experts.dense.empty());
  CHECK((c.query_growth.rate == 0.1f && c.query_growth.length == 16));
  CHECK(c.rope.inv_freq.size() == 8);
}

TEST_CASE("a configuration of DeepSeek that skald does not compute is refused") {
  if (find_golden("deepseek_v3").empty()) return;
  const auto refused = [](const char* key, const Json& value) {
    return golden_refusal("deepseek_v3", {{key, value}});
  };
  CHECK(has(refused("topk_method", "greedy"), "expected 'noaux_tc'"));
  CHECK(has(refused("scoring_func", "softmax"), "expected 'sigmoid'"));
  CHECK(has(refused("attention_bias", true), "'attention_bias' is true"));
  CHECK(has(refused("moe_layer_freq", 2), "'moe_layer_freq' is not 1"));
  CHECK(has(refused("n_group", 3), "3 of 8 experts cannot be chosen from 2 of 3 groups"));
  CHECK(has(refused("num_experts_per_tok", 5), "5 of 8 experts cannot be chosen from 2 of 4"));
  CHECK(has(refused("topk_group", 5), "'topk_group' is 5"));
  CHECK(has(refused("v_head_dim", 16), "expected ["));
  CHECK(has(refused("kv_lora_rank", 16), "expected ["));
}

TEST_CASE("a GGUF of DeepSeek has keys transposed in each head, and values") {
  const fs::path folder = find_golden("deepseek_v3");
  if (folder.empty()) return;
  TempFolder temp;
  const OpenedModel back =
      open_model(temp.write("m.gguf", gguf_bytes(open_model(folder), DType::F32)));
  const GgufMetadata& m = back.gguf->metadata();
  CHECK(m.uint("deepseek2.attention.key_length") == 48);
  CHECK(m.uint("deepseek2.attention.value_length") == 32);
  CHECK(m.uint("deepseek2.attention.key_length_mla") == 48);
  CHECK(m.uint("deepseek2.attention.head_count_kv") == 1);
  CHECK(m.uint("deepseek2.expert_group_used_count") == 2);
  CHECK(m.number("deepseek2.rope.scaling.yarn_log_multiplier") == Approx(0.1));
  CHECK(back.gguf->find("blk.0.attn_k_b.weight")->shape == std::vector<int64_t>{4, 32, 32});
  CHECK(back.gguf->find("blk.0.attn_kv_b.weight") == nullptr);
}

// transformers gives GLM-4.7-Flash the attention and the router of DeepSeek V3.
TEST_CASE("GLM-4.7-Flash is computed like DeepSeek V3") {
  const fs::path folder = find_golden("deepseek_v3");
  if (folder.empty()) return;
  TempFolder temp;
  Json config = read_json(folder / "config.json");
  config["model_type"] = "glm4_moe_lite";
  config["architectures"] = {"Glm4MoeLiteForCausalLM"};
  config["partial_rotary_factor"] = 1.0;
  config.erase("first_k_dense_replace");
  const auto opened = [&](const Json& types) {
    config["mlp_layer_types"] = types;
    temp.write("config.json", config.dump());
    temp.write("model.safetensors", read_file(folder / "model.safetensors"));
    return open_model(temp.path());
  };
  const OpenedModel glm = opened({"dense", "sparse", "sparse", "sparse"});
  const auto logits = [](const Model& model) {
    RunOptions options;
    options.exact = true;
    const auto executor = cpu::make_executor(make_weights(model, 1), options);
    Sequence sequence = executor->new_sequence();
    const std::vector<int32_t> tokens = {1, 50, 400, 3, 3, 77};
    const SeqRows rows{&sequence, tokens, Want::LastRow};
    executor->run({&rows, 1});
    const auto values = executor->logits(0);
    return std::vector<float>(values.begin(), values.end());
  };
  CHECK(logits(glm.model) == logits(open_model(folder).model));
  for (const Json& types : {Json{"dense", "sparse", "dense", "sparse"}, Json{"dense", "sparse"},
                            Json{"dense", "other", "sparse", "sparse"}}) {
    CHECK(
        has(error_text([&] { opened(types); }), "'mlp_layer_types' is not 'dense' for the first"));
  }
}

TEST_CASE("GPUs take attention to latents") {
  for (const char* name : {"deepseek_v3", "mistral4"}) {
    if (find_golden(name).empty()) return;
    CAPTURE(name);
    CHECK(cuda::model_problem(open_model(find_golden(name)).model).empty());
  }
}

}  // namespace skald::test
