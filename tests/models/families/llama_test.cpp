// Llama: tensor names, windows, biases, and its GGUF metadata.
#include "engine/cpu/executor.h"
#include "models/families/families.h"
#include "models/files/gguf.h"
#include "models/open.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/golden.h"
#include "tests/small_models.h"

namespace skald::test {
namespace {

TEST_CASE("Hugging Face's tensor names are mapped to GGUF's, and unknown names to nothing") {
  CHECK(kLlama.canonical_name("model.embed_tokens.weight") == "token_embd.weight");
  CHECK(kLlama.canonical_name("lm_head.weight") == "output.weight");
  CHECK(kLlama.canonical_name("model.layers.12.self_attn.o_proj.weight") ==
        "blk.12.attn_output.weight");
  CHECK(kLlama.canonical_name("model.layers.0.mlp.down_proj.bias") == "blk.0.ffn_down.bias");
  for (const char* name : {"", "model.layers.", "model.layers.x.mlp.up_proj.weight",
                           "model.layers.-1.mlp.up_proj.weight", "model.layers.0",
                           "model.layers.99999999999.mlp.up_proj.weight",
                           "model.layers.0.self_attn.rotary_emb.inv_freq",
                           "model.layers.0.mlp.up_proj.weight.extra", "vision.embed.weight"}) {
    CAPTURE(name);
    CHECK(kLlama.canonical_name(name) == "");
  }
}

ModelConfig config_with(const std::string& golden, const std::string& key,
                        const nlohmann::json& value, bool erase = false) {
  TempFolder folder;
  make_folder(folder.path() / "m", golden);
  auto config = read_json(folder.path() / "m/config.json");
  if (erase) {
    config.erase(key);
  } else {
    config[key] = value;
  }
  folder.write("m/config.json", config.dump());
  return open_model(folder.path() / "m").model.config;
}

TEST_CASE("Mistral's window is 4096 by default and none when null") {
  const std::string golden = "mistral-swa-headdim64";
  CHECK(config_with(golden, "sliding_window", 100).window == 100);
  CHECK(config_with(golden, "sliding_window", nullptr).window == 0);
  CHECK(config_with(golden, "sliding_window", 0, true).window == 4096);
  CHECK(config_with("llama-mha", "sliding_window", 100).window == 0);
  CHECK(error_text([&] { config_with(golden, "sliding_window", -1); }) != "");
}

TEST_CASE("the head's dimension may differ from width / heads") {
  const ModelConfig c = open_model(data_dir() / "goldens" / "mistral-swa-headdim64").model.config;
  CHECK(c.head_dim == 64);
  CHECK(c.rope.inv_freq.size() == 32);
  CHECK(!c.rope.interleaved);
}

TEST_CASE("biases and tied heads follow the configuration") {
  const Model biased = open_model(data_dir() / "goldens" / "llama-bias-linear-rope").model;
  CHECK(biased.config.attention_bias);
  CHECK(biased.config.rope_scaling == "linear");
  const Model tied = open_model(data_dir() / "goldens" / "llama3-gqa-tied-ropescale").model;
  CHECK(tied.config.tied);
  CHECK(!tied.weights->find("output.weight"));
  CHECK(tied.program().vocab() == tied.config.vocab);
  CHECK(has(
      error_text([] { config_with("llama3-gqa-tied-ropescale", "tie_word_embeddings", false); }),
      "'output.weight' is missing"));
}

TEST_CASE("a GGUF's heads are interleaved, and wrong metadata is refused") {
  TempFolder folder;
  CHECK(open_model(data_dir() / "gguf" / "kq256.q8_0.gguf").model.config.rope.interleaved);
  const std::string good = flat_gguf({});
  const auto with_u32 = [&](const std::string& key, uint32_t value) {
    std::string file = good;
    const size_t at = file.find(key);
    REQUIRE(at != std::string::npos);
    file.replace(at + key.size() + 4, 4, raw(value));
    return folder.write("model.gguf", file);
  };
  const struct {
    const char* key;
    uint32_t value;
  } cases[] = {
      {"llama.block_count", 0},          {"llama.block_count", 2},
      {"llama.block_count", 4000000000}, {"llama.embedding_length", 0},
      {"llama.embedding_length", 64},    {"llama.feed_forward_length", 4000000000},
      {"llama.attention.head_count", 0}, {"llama.attention.head_count", 3},
      {"llama.context_length", 0},       {"llama.context_length", 4000000000},
  };
  for (const auto& [key, value] : cases) {
    CAPTURE(key, value);
    const auto file = with_u32(key, value);
    const std::string message = error_text([&] { open_model(file); });
    CAPTURE(message);
    CHECK(has(message, "model.gguf: "));
  }
}

}  // namespace
}  // namespace skald::test
