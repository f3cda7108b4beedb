// Qwen2: biases, windows, and a GGUF without Llama's permutation of heads.
#include <cstring>
#include <vector>

#include "engine/cpu/executor.h"
#include "models/files/gguf.h"
#include "models/open.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/golden.h"
#include "tests/golden_check.h"
#include "tests/small_models.h"

namespace skald::test {
namespace {

namespace fs = std::filesystem;

// A Llama with all biases, renamed Qwen2. Qwen2 ignores the biases of output and MLP.
fs::path write_biased_folder(const TempFolder& temp,
                             const nlohmann::json& changes = nlohmann::json::object(),
                             const std::string& golden = "llama-bias-linear-rope") {
  const fs::path folder = temp.path() / "m";
  fs::remove_all(folder);
  make_folder(folder, golden);
  auto config = read_json(folder / "config.json");
  config.erase("rope_scaling");
  config["model_type"] = "qwen2";
  config.update(changes);
  temp.write("m/config.json", config.dump());
  return folder;
}

uint32_t gguf_type(DType type) {
  if (type == DType::F32) return 0;
  if (type == DType::F16) return 1;
  check(type == DType::BF16, "a type of the goldens");
  return 30;
}

// A GGUF as converters write it: vectors in f32, no permutation, no keys about biases or a tied
// head.
GgufWriter gguf_of(const Model& model) {
  const ModelConfig& c = model.config;
  GgufWriter w;
  w.text("general.architecture", "qwen2");
  w.u32("qwen2.block_count", static_cast<uint32_t>(c.layers));
  w.u32("qwen2.context_length", static_cast<uint32_t>(c.context));
  w.u32("qwen2.embedding_length", static_cast<uint32_t>(c.dim));
  w.u32("qwen2.feed_forward_length", static_cast<uint32_t>(c.ffn_dim));
  w.u32("qwen2.attention.head_count", static_cast<uint32_t>(c.heads));
  w.u32("qwen2.attention.head_count_kv", static_cast<uint32_t>(c.kv_heads));
  w.f32("qwen2.attention.layer_norm_rms_epsilon", c.norm_eps);
  w.f32("qwen2.rope.freq_base", c.rope_base);
  for (const Tensor& tensor : model.weights->tensors()) {
    const bool bias = tensor.name.ends_with(".bias");
    const bool qkv = tensor.name.ends_with("attn_q.bias") || tensor.name.ends_with("attn_k.bias") ||
                     tensor.name.ends_with("attn_v.bias");
    if (bias && !qkv) continue;
    const TensorView& view = tensor.view;
    std::string bytes(static_cast<size_t>(view.bytes()), '\0');
    std::memcpy(bytes.data(), view.data, bytes.size());
    std::vector<uint64_t> dims{static_cast<uint64_t>(view.cols)};
    uint32_t type = gguf_type(view.type);
    if (tensor.shape.size() == 1) {
      std::vector<float> values(static_cast<size_t>(view.cols));
      info(view.type).decode_row(view.data, values.data(), view.cols);
      bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
      type = gguf_type(DType::F32);
    } else {
      dims.push_back(static_cast<uint64_t>(view.rows));
    }
    w.tensors.push_back({tensor.name, dims, type, bytes});
  }
  return w;
}

std::vector<float> logits_of(const Model& model, cpu::KernelSet kernels) {
  const std::vector<int32_t> ids{1, 282, 503, 222, 23, 108, 65, 407, 239, 104, 493, 124};
  const auto executor = cpu::make_executor(model, {.exact = true}, kernels);
  return all_logits(*executor, ids);
}

TEST_CASE("a Qwen2 GGUF gives the logits of its Hugging Face folder") {
  TempFolder temp;
  const bool tied = GENERATE(false, true);
  const auto kernels = GENERATE(cpu::KernelSet::Fast, cpu::KernelSet::Reference);
  const fs::path folder = tied ? find_golden("qwen2-bias-tied") : write_biased_folder(temp);
  if (folder.empty()) return;
  CAPTURE(tied, kernels == cpu::KernelSet::Fast);
  const OpenedModel hf = open_model(folder);
  const OpenedModel gguf = open_model(temp.write("model.gguf", gguf_of(hf.model).file()));
  CHECK(gguf.family == "Qwen2");
  CHECK(gguf.model.config.tied == tied);
  CHECK(gguf.model.config.norm_eps == hf.model.config.norm_eps);
  CHECK(gguf.model.config.rope.inv_freq == hf.model.config.rope.inv_freq);
  CHECK(logits_of(gguf.model, kernels) == logits_of(hf.model, kernels));
}

TEST_CASE("Qwen2 has biases of query, key and value, and no others") {
  TempFolder temp;
  for (const bool said : {false, true}) {
    const Model model =
        open_model(write_biased_folder(temp, {{"attention_bias", said}, {"mlp_bias", said}})).model;
    int biased = 0;
    const Program program = model.program();
    for (const Op& op : program.ops) {
      const Linear* linear = std::get_if<Linear>(&op);
      biased += linear && linear->bias != WeightId::None;
    }
    CHECK(biased == 3 * model.config.layers);
  }
  CHECK(has(error_text([&] {
              open_model(write_biased_folder(temp, nlohmann::json::object(), "llama-mha"));
            }),
            "tensor 'blk.0.attn_q.bias' is missing"));
}

TEST_CASE("Qwen2's windows apply only where the configuration uses them") {
  TempFolder temp;
  using Windows = std::vector<int>;
  const auto windows = [&](const nlohmann::json& changes) {
    const ModelConfig c = open_model(write_biased_folder(temp, changes)).model.config;
    return Windows{c.window_of(0), c.window_of(1)};
  };
  const nlohmann::json used{{"use_sliding_window", true}};
  const auto with = [&](nlohmann::json changes) {
    changes.update(used);
    return changes;
  };
  CHECK(windows({{"use_sliding_window", false}, {"sliding_window", 32}}) == Windows{0, 0});
  CHECK(windows({{"sliding_window", 32}, {"max_window_layers", 0}}) == Windows{0, 0});
  CHECK(windows(with({{"sliding_window", 32}, {"max_window_layers", 2}})) == Windows{0, 0});
  CHECK(windows(with({{"sliding_window", 32}, {"max_window_layers", 1}})) == Windows{0, 32});
  CHECK(windows(with({{"sliding_window", 32}})) == Windows{0, 0});  // by default from layer 28 on
  CHECK(windows(with({{"max_window_layers", 0}})) == Windows{4096, 4096});
  CHECK(windows(with({{"sliding_window", nullptr}, {"max_window_layers", 0}})) == Windows{0, 0});
  CHECK(windows(with({{"sliding_window", 32},
                      {"max_window_layers", 0},
                      {"layer_types", {"sliding_attention", "full_attention"}}})) ==
        Windows{32, 0});
  const struct {
    nlohmann::json changes;
    const char* message;
  } cases[] = {
      {{{"layer_types", {"full_attention", "sliding_attention"}}},
       "'layer_types' has 'sliding_attention', but there is no 'sliding_window'"},
      {{{"layer_types", {"full_attention", "linear_attention"}}},
       "'layer_types' has 'linear_attention'"},
      {{{"layer_types", "full_attention"}}, "'layer_types' is \"full_attention\", expected a list"},
      {{{"layer_types", {"full_attention", 1}}}, "expected a list of strings"},
      {{{"use_sliding_window", 1}}, "'use_sliding_window' is 1, expected true or false"},
      {{{"rope_scaling", {{"type", "ntk"}, {"factor", 4}}}}, "rope type 'ntk' is not supported"},
  };
  for (const auto& wrong : cases) {
    const std::string said = error_text([&] { windows(wrong.changes); });
    CAPTURE(wrong.changes.dump(), said);
    CHECK(has(said, wrong.message));
  }
}

TEST_CASE("a Qwen2 GGUF with an unsupported property that would change the result is refused") {
  TempFolder temp;
  const Model model = open_model(write_biased_folder(temp)).model;
  const auto open = [&](const auto& change) {
    GgufWriter w = gguf_of(model);
    change(w);
    return open_model(temp.write("model.gguf", w.file())).model.config;
  };
  const auto window = [&](uint32_t size) {
    return open([&](GgufWriter& w) { w.u32("qwen2.attention.sliding_window", size); }).window;
  };
  CHECK(window(0) == 0);
  CHECK(window(512) == 0);
  CHECK(has(error_text([&] { window(511); }), "'qwen2.attention.sliding_window' is 511"));
  for (const std::string name : {"output.bias", "rope_freqs.weight"}) {
    const std::string said = error_text([&] {
      open([&](GgufWriter& w) { w.tensors.push_back({name, {1}, 0, raw(0.0f)}); });
    });
    CHECK(has(said, "tensor '" + name + "' is not supported"));
  }
  const std::string said = error_text([&] {
    open([](GgufWriter& w) {
      std::erase_if(w.tensors, [](const auto& t) { return t.name == "blk.1.attn_k.bias"; });
    });
  });
  CHECK(has(said, "tensor 'blk.1.attn_k.bias' is missing"));
}

}  // namespace
}  // namespace skald::test
