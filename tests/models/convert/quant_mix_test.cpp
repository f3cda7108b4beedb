#include "models/convert/quant_mix.h"

#include "tests/catch.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

std::string type_of(std::string_view mix, const std::string& tensor, int64_t cols = 4096,
                    MixedModel model = {32, false, false}) {
  return std::string(name(choose_type(find_quant_mix(mix), model, tensor, cols).type));
}

// A digit for each layer: 4, 5, 6 for Q4_K, Q5_K, Q6_K.
std::string layers(std::string_view mix, const std::string& part, MixedModel model) {
  std::string out;
  for (int i = 0; i < model.layers; ++i) {
    out += type_of(mix, concat("blk.", i, ".", part, ".weight"), 4096, model)[1];
  }
  return out;
}

}  // namespace

TEST_CASE("a mix gives more bits to the output and to some layers") {
  CHECK(type_of("q4_k_m", "token_embd.weight") == "Q4_K");
  CHECK(type_of("q4_k_m", "output.weight") == "Q6_K");
  CHECK(type_of("q4_k_m", "token_embd.weight", 4096, {32, true, false}) == "Q6_K");
  CHECK(type_of("q4_0", "output.weight") == "Q6_K");
  CHECK(type_of("q8_0", "output.weight") == "Q8_0");
  CHECK(type_of("f16", "output.weight") == "F16");
  CHECK(type_of("q4_k_m", "blk.9.attn_qkv.weight") == "Q5_K");
  CHECK(type_of("q5_k_m", "blk.9.attn_qkv.weight") == "Q6_K");
  for (const char* part : {"attn_q", "attn_k", "attn_output", "ffn_gate", "ffn_up"}) {
    CHECK(layers("q4_k_m", part, {32, false, false}) == std::string(32, '4'));
  }
  // More bits for the first eighth of the layers, the last eighth, and every third layer between.
  const std::string medium =
      "6666"
      "446446446446446446446446"
      "6666";
  CHECK(layers("q4_k_m", "attn_v", {32, false, false}) == medium);
  CHECK(layers("q4_k_m", "ffn_down", {32, false, false}) == medium);
}

TEST_CASE("the small mix gives five bits to the first layers") {
  CHECK(layers("q4_k_s", "attn_v", {16, false, false}) == "5555444444444444");
  CHECK(layers("q4_k_s", "ffn_down", {16, false, false}) == "5544444444444444");
  CHECK(layers("q5_k_s", "ffn_down", {16, false, false}) == std::string(16, '5'));
}

TEST_CASE("the mixes of IQ4 give five bits to some values and to the first eighth of the layers") {
  for (const char* mix : {"iq4_nl", "iq4_xs"}) {
    CHECK(layers(mix, "ffn_down", {16, false, false}) == "55" + std::string(14, 'Q'));
    CHECK(layers(mix, "attn_v", {16, false, false}) == std::string(16, 'Q'));
    CHECK(layers(mix, "attn_v", {16, false, false, false, true}) == std::string(16, '5'));
    CHECK(type_of(mix, "output.weight") == "Q6_K");
    CHECK(type_of(mix, "blk.9.attn_output.weight", 4096, {32, false, false, true}) == "Q5_K");
  }
  CHECK(type_of("iq4_nl", "blk.9.ffn_up.weight") == "IQ4_NL");
  CHECK(type_of("iq4_xs", "blk.9.ffn_up.weight") == "IQ4_XS");
  CHECK(type_of("iq4_xs", "blk.9.ffn_up.weight", 320) == "IQ4_NL");
  ModelConfig c;
  c.heads = 32;
  c.kv_heads = 8;
  CHECK(mixed_model(c).few_key_heads);
  c.kv_heads = 16;
  CHECK_FALSE(mixed_model(c).few_key_heads);
}

TEST_CASE(
    "the mixes of Q2_K give more bits to what a layer's attention and feed-forward end with") {
  const MixedModel few{16, false, false, false, true};
  CHECK(layers("q2_k", "ffn_down", {16, false, false}) == std::string(16, '3'));
  CHECK(layers("q2_k", "attn_output", {16, false, false}) == std::string(16, '3'));
  CHECK(layers("q2_k", "attn_v", {16, false, false}) == std::string(16, '3'));
  CHECK(layers("q2_k", "attn_v", few) == std::string(16, '4'));
  CHECK(layers("q2_k", "attn_v", {16, false, true}) == std::string(16, '5'));
  CHECK(layers("q2_k", "ffn_up", few) == std::string(16, '2'));
  CHECK(layers("q2_k_s", "ffn_down", {16, false, false}) == "44" + std::string(14, '2'));
  CHECK(layers("q2_k_s", "attn_output", {16, false, false}) == std::string(16, '2'));
  CHECK(layers("q2_k_s", "attn_v", {16, false, false}) == std::string(16, '2'));
  CHECK(layers("q2_k_s", "attn_v", few) == std::string(16, '4'));
  CHECK(type_of("q2_k", "blk.9.attn_output.weight", 4096, {32, false, false, true}) == "Q5_K");
  CHECK(type_of("q2_k", "blk.9.attn_v.weight", 4096, {32, false, false, true}) == "Q8_0");
  CHECK(type_of("q2_k", "output.weight") == "Q6_K");
  CHECK(type_of("q2_k", "blk.9.ffn_up.weight", 320) == "IQ4_NL");
}

TEST_CASE("importances change the formats of the first layers' ffn_down") {
  const MixedModel model{16, false, false, false, false, true};
  CHECK(type_of("q4_0", "blk.1.ffn_down.weight", 4096, model) == "Q4_1");
  CHECK(type_of("q5_0", "blk.1.ffn_down.weight", 4096, model) == "Q5_1");
  CHECK(type_of("q4_0", "blk.2.ffn_down.weight", 4096, model) == "Q4_0");
  CHECK(type_of("q4_0", "blk.1.ffn_down.weight", 4096, {16, false, false}) == "Q4_0");
  CHECK(type_of("iq4_xs", "blk.1.ffn_down.weight", 4096, model) == "IQ4_XS");
  CHECK(type_of("q4_k_s", "blk.1.ffn_down.weight", 4096, model) == "Q5_K");
}

TEST_CASE("attn_v gets five bits in large models with few key heads") {
  ModelConfig c;
  c.architecture = "llama";
  c.layers = 80;
  c.heads = 64;
  c.kv_heads = 8;
  CHECK(mixed_model(c).small_values);
  CHECK(type_of("q4_k_s", "blk.40.attn_v.weight", 8192, mixed_model(c)) == "Q5_K");
  CHECK(type_of("q4_0", "blk.40.attn_v.weight", 8192, mixed_model(c)) == "Q4_0");
  c.kv_heads = 64;
  CHECK_FALSE(mixed_model(c).small_values);
  c.architecture = "qwen2";
  CHECK(mixed_model(c).small_values);
  c.layers = 79;
  CHECK_FALSE(mixed_model(c).small_values);
}

TEST_CASE(
    "experts get the formats of a feed-forward, and attention beside eight experts gets more "
    "bits") {
  const MixedModel eight{32, false, false, true}, more{32, false, false, false};
  for (const char* part : {"ffn_down", "ffn_down_exps", "ffn_down.7"}) {
    CHECK(layers("q4_k_m", part, eight) == layers("q4_k_m", "ffn_down", {32, false, false}));
  }
  CHECK(layers("q4_k_m", "ffn_up_exps", eight) == std::string(32, '4'));
  for (const char* mix : {"q4_k_m", "q4_k_s", "q5_k_m", "q4_0", "q6_k"}) {
    CHECK(type_of(mix, "blk.9.attn_v.weight", 4096, eight) == "Q8_0");
    CHECK(type_of(mix, "blk.9.attn_k.weight", 4096, eight) == "Q8_0");
  }
  CHECK(type_of("f16", "blk.9.attn_k.weight", 4096, eight) == "F16");
  CHECK(type_of("q4_k_m", "blk.9.attn_output.weight", 4096, eight) == "Q5_K");
  CHECK(type_of("q4_k_s", "blk.9.attn_output.weight", 4096, eight) == "Q5_K");
  CHECK(type_of("q5_k_m", "blk.9.attn_output.weight", 4096, eight) == "Q5_K");
  CHECK(type_of("q6_k", "blk.9.attn_output.weight", 4096, eight) == "Q6_K");
  CHECK(type_of("q4_0", "blk.9.attn_output.weight", 4096, eight) == "Q4_0");
  CHECK(type_of("q4_k_m", "blk.9.attn_k.weight", 4096, more) == "Q4_K");

  ModelConfig c;
  c.experts.count = 8;
  CHECK(mixed_model(c).small_attention);
  c.experts.count = 128;
  CHECK_FALSE(mixed_model(c).small_attention);
}

TEST_CASE("rows that are not whole blocks get another format") {
  CHECK(type_of("q4_k_m", "blk.9.ffn_up.weight", 320) == "Q5_0");
  CHECK(type_of("q5_k_m", "blk.9.ffn_up.weight", 320) == "Q5_1");
  CHECK(type_of("q6_k", "blk.9.ffn_up.weight", 320) == "Q8_0");
  CHECK(type_of("q4_0", "output.weight", 320) == "Q8_0");
  CHECK(type_of("q4_0", "blk.9.ffn_up.weight", 100) == "F16");
  CHECK(type_of("q4_k_m", "blk.9.ffn_up.weight", 100) == "F16");
  CHECK(type_of("bf16", "blk.9.ffn_up.weight", 1) == "BF16");
  const QuantMix& mix = find_quant_mix("Q4_K_M");
  CHECK(choose_type(mix, {32, false, false}, "blk.9.ffn_up.weight", 320).other_rows);
  CHECK_FALSE(choose_type(mix, {32, false, false}, "blk.9.ffn_up.weight", 512).other_rows);
}

TEST_CASE("a user's choice overrides the rules, unless the rows do not fit") {
  const TypeOverride by_user = [](std::string_view name) -> std::optional<DType> {
    if (name == "output.weight") return DType::Q4_K;
    return std::nullopt;
  };
  const QuantMix& mix = find_quant_mix("q8_0");
  CHECK(choose_type(mix, {2, false, false}, "output.weight", 512, by_user).type == DType::Q4_K);
  CHECK(choose_type(mix, {2, false, false}, "output.weight", 64, by_user).type == DType::Q5_0);
  CHECK(choose_type(mix, {2, false, false}, "token_embd.weight", 64, by_user).type == DType::Q8_0);
}

TEST_CASE("vectors, norms, biases and routers are not quantized") {
  CHECK(is_quantizable("blk.0.attn_q.weight", 64, 2));
  CHECK(is_quantizable("blk.0.ffn_up_exps.weight", 64, 3));
  CHECK_FALSE(is_quantizable("blk.0.attn_q.bias", 64, 2));
  CHECK_FALSE(is_quantizable("blk.0.attn_norm.weight", 1, 1));
  CHECK_FALSE(is_quantizable("blk.0.attn_q_norm.weight", 8, 2));
  CHECK_FALSE(is_quantizable("blk.0.ffn_gate_inp.weight", 8, 2));
  CHECK_FALSE(is_quantizable("per_layer_model_proj.weight", 8, 2));
  CHECK_FALSE(is_quantizable("blk.0.ssm_conv1d.weight", 64, 2));
  CHECK_FALSE(is_quantizable("blk.0.shortconv.conv.weight", 64, 2));
  CHECK(is_quantizable("blk.0.shortconv.in_proj.weight", 64, 2));
}

TEST_CASE("an unknown type is an error that lists the known ones") {
  const std::string text = error_text([] { find_quant_mix("q4_x"); }, Exit::Usage);
  CHECK(has(text, "'q4_x'"));
  CHECK(has(text, "q4_k_m"));
}

}  // namespace skald::test
