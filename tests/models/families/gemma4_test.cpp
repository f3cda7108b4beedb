// Gemma 4: what its configurations say and what is refused, which ops its layers have, and which
// names a GGUF of it has. The logits of the goldens are in golden_test.cpp.
#include "cuda/cuda.h"
#include "models/convert/gguf_export.h"
#include "models/random/random.h"
#include "tests/exported_gguf.h"
#include "tests/family_golden.h"
#include "tests/gguf_writer.h"

namespace skald::test {
namespace {

using Json = nlohmann::json;

template <class Op>
std::vector<Op> ops_of(const Program& program) {
  std::vector<Op> ops;
  for (const skald::Op& op : program.ops) {
    if (const auto* o = std::get_if<Op>(&op)) ops.push_back(*o);
  }
  return ops;
}

std::string refused(const std::string& golden, const char* key, const Json& value) {
  return golden_refusal(golden, {{std::string("text_config/") + key, value}});
}

}  // namespace

TEST_CASE("layers of Gemma 4 without a window have heads and a rope of their own") {
  if (find_golden("gemma4-dense").empty()) return;
  const ModelConfig c = golden_config("gemma4-dense");
  CHECK(c.architecture == "gemma4");
  CHECK(c.windows == std::vector<int>{16, 16, 16, 16, 16, 0});
  CHECK((c.head_dim == 32 && c.kv_heads == 2));
  CHECK((c.full.head_dim == 64 && c.full.kv_heads == 1 && c.full.values_are_keys));
  CHECK(c.attention_scale == 1);
  CHECK(c.norm_plus == 0);
  CHECK(c.logit_softcap == 5);
  CHECK(c.tied);
  REQUIRE(c.rope.inv_freq.size() == 32);
  CHECK(c.rope.inv_freq[7] > 0);
  CHECK(c.rope.inv_freq[8] == 0);  // a quarter of the pairs turns
  CHECK((c.window_rope.inv_freq.size() == 16 && c.window_rope.inv_freq[15] > 0));
  const ModelConfig by_default =
      golden_config("gemma4-dense", {{"text_config/layer_types", "erase"}});
  CHECK(by_default.windows == c.windows);
}

TEST_CASE("a newer file of Gemma 4 lists what differs between layers") {
  if (find_golden("gemma4-dense").empty()) return;
  const ModelConfig c = golden_config(
      "gemma4-dense",
      {{"text_config/global_head_dim", "erase"},
       {"text_config/num_global_key_value_heads", "erase"},
       {"text_config/per_layer_config", {{"5", {{"head_dim", 64}, {"num_key_value_heads", 1}}}}}});
  CHECK((c.full.head_dim == 64 && c.full.kv_heads == 1));
}

TEST_CASE("a full layer's values are the norm of its keys before they are scaled and turn") {
  if (find_golden("gemma4-dense").empty()) return;
  const Program program = open_model(find_golden("gemma4-dense")).model.program();
  const auto parts = ops_of<HeadPart>(program);
  REQUIRE(parts.size() == 1);
  CHECK((parts[0].heads == 1 && parts[0].cols == 64));
  int without_weights = 0;
  for (const HeadNorm& norm : ops_of<HeadNorm>(program)) {
    without_weights += norm.weight == WeightId::None;
  }
  CHECK(without_weights == 6);
  CHECK(program.kv.size() == 6);
  CHECK(program.kv.back().head_dim == 64);
  // A layer's scale is a number of the file, and belongs to its last sum.
  const auto sums = ops_of<Add>(program);
  REQUIRE(sums.size() == 12);
  CHECK((sums[0].keep == 1 && sums[0].scale == 1));
  CHECK((sums[1].keep == sums[1].scale && sums[1].keep != 1));
}

TEST_CASE("experts of Gemma 4 stand beside the feed-forward, with a router of their own norm") {
  if (find_golden("gemma4-moe").empty()) return;
  const OpenedModel opened = open_model(find_golden("gemma4-moe"));
  const ExpertsConfig& e = opened.model.config.experts;
  CHECK((e.count == 8 && e.used == 2 && e.ffn_dim == 24 && e.normalized && e.expert_scale));
  CHECK(e.router_scale == 0.125f);  // 1 / sqrt(64)
  const auto experts = ops_of<Experts>(opened.model.program());
  REQUIRE(experts.size() == 6);
  CHECK(experts[0].route != experts[0].in);
  CHECK(experts[0].expert_scale != WeightId::None);
}

TEST_CASE("the last layers of a small Gemma 4 keep no keys and values, and are wider") {
  if (find_golden("gemma4-ple").empty()) return;
  const OpenedModel opened = open_model(find_golden("gemma4-ple"));
  const ModelConfig& c = opened.model.config;
  CHECK((c.shared_kv.layers == 4 && c.shared_kv.ffn_dim == 96 && c.ffn_dim == 48));
  CHECK(c.layer_embedding == 16);
  CHECK(!c.full.values_are_keys);
  const Program program = opened.model.program();
  CHECK(program.kv.size() == 5);
  std::vector<int> layers;
  for (const Attention& op : ops_of<Attention>(program)) {
    layers.push_back(op.appends ? op.layer : -op.layer);
  }
  // Full: 2, 5, 8. The last layer of each kind that keeps some is 2 or 4.
  CHECK(layers == std::vector<int>{0, 1, 2, 3, 4, -2, -4, -4, -2});
  CHECK(ops_of<Embed>(program).size() == 2);
}

TEST_CASE("a configuration of Gemma 4 that skald does not compute is refused") {
  if (find_golden("gemma4-ple").empty()) return;
  CHECK(has(refused("gemma4-moe", "hidden_activation", "relu"), "expected 'gelu_pytorch_tanh'"));
  CHECK(has(refused("gemma4-moe", "use_bidirectional_attention", "all"),
            "'use_bidirectional_attention' is 'all', expected 'vision'"));
  CHECK(has(refused("gemma4-moe", "num_global_key_value_heads", 3),
            "4 heads cannot share 3 key-value heads evenly in layers without a window"));
  CHECK(has(refused("gemma4-moe", "global_head_dim", 63), "is 63, expected an even number"));
  CHECK(has(refused("gemma4-moe", "rope_parameters/full_attention/partial_rotary_factor", 2),
            "'partial_rotary_factor' is 2"));
  CHECK(has(refused("gemma4-moe", "rope_parameters/full_attention/rope_type", "default"),
            "'partial_rotary_factor' is 0.25; this architecture rotates whole heads"));
  CHECK(has(refused("gemma4-moe", "rope_parameters/sliding_attention/rope_type", "proportional"),
            "rope type 'proportional' is not supported"));
  CHECK(has(refused("gemma4-ple", "num_kv_shared_layers", 7),
            "layer 2 reads the keys and values of an earlier layer without a window, but none of "
            "the first 2 layers is one"));
  CHECK(has(refused("gemma4-ple", "num_kv_shared_layers", 9), "'num_kv_shared_layers' is 9"));
  CHECK(has(refused("gemma4-ple", "hidden_size_per_layer_input", 8), "expected [512, 72]"));
  CHECK(has(refused("gemma4-moe", "top_k_experts", 9), "'top_k_experts' is 9"));
}

TEST_CASE("a prompt of Gemma 4 gives the same bits at once, in chunks and token by token") {
  for (const char* name : {"gemma4-dense", "gemma4-moe", "gemma4-ple"}) {
    const fs::path folder = find_golden(name);
    if (folder.empty()) continue;
    CAPTURE(name);
    const OpenedModel opened = open_model(folder);
    const auto ids = read_json(folder / "golden.json")["input_ids"].get<std::vector<int32_t>>();
    std::vector<float> whole;
    for (const int rows : {512, 7, 1}) {
      const auto executor = cpu::make_executor(opened.model, {.rows = rows, .threads = 2});
      const std::vector<float> logits = all_logits(*executor, ids);
      if (whole.empty()) whole = logits;
      CHECK(logits == whole);
    }
  }
}

TEST_CASE("a GGUF of Gemma 4 has llama.cpp's keys and names, and no tensor that nobody reads") {
  const fs::path folder = find_golden("gemma4-ple");
  if (folder.empty()) return;
  const GgufExport out = export_gguf(open_model(folder));
  for (const char* key :
       {"attention.sliding_window_pattern", "attention.sliding_window", "attention.key_length",
        "attention.value_length", "attention.key_length_swa", "attention.value_length_swa",
        "attention.head_count_kv", "attention.shared_kv_layers", "feed_forward_length",
        "embedding_length_per_layer_input", "final_logit_softcapping", "rope.freq_base",
        "rope.freq_base_swa", "rope.dimension_count", "rope.dimension_count_swa"}) {
    CAPTURE(key);
    CHECK(out.head.has(concat("gemma4.", key)));
  }
  std::set<std::string> names;
  for (const MadeTensor& tensor : out.tensors) names.insert(tensor.name);
  for (const char* name :
       {"rope_freqs.weight", "per_layer_token_embd.weight", "per_layer_model_proj.weight",
        "per_layer_proj_norm.weight", "blk.8.inp_gate.weight", "blk.8.proj.weight",
        "blk.8.post_norm.weight", "blk.8.layer_output_scale.weight", "blk.8.post_ffw_norm.weight",
        "blk.8.post_attention_norm.weight", "blk.4.attn_k.weight", "blk.8.attn_q_norm.weight"}) {
    CAPTURE(name);
    CHECK(names.contains(name));
  }
  for (const char* name : {"blk.5.attn_k.weight", "blk.6.attn_v.weight", "blk.8.attn_k_norm.weight",
                           "output.weight"}) {
    CAPTURE(name);
    CHECK(!names.contains(name));
  }
}

TEST_CASE("numbers of a GGUF that no Gemma 4 has are refused") {
  if (find_golden("gemma4-ple").empty()) return;
  TempFolder temp;
  const std::string good = gguf_bytes(open_model(find_golden("gemma4-ple")), DType::BF16);
  const auto with = [&](const std::string& key, uint32_t value) {
    std::string bytes = good;
    const std::string entry = gguf_string("gemma4." + key) + raw<uint32_t>(4);
    const size_t at = bytes.find(entry);
    REQUIRE(at != bytes.npos);
    bytes.replace(at + entry.size(), 4, raw(value));
    return temp.write("m.gguf", bytes);
  };
  const auto refused = [&](const std::string& key, uint32_t value) {
    return error_text([&] { open_model(with(key, value)); }, Exit::Model);
  };
  const ModelConfig c = open_model(with("attention.shared_kv_layers", 4)).model.config;
  CHECK((c.shared_kv.layers == 4 && c.shared_kv.ffn_dim == 96 && c.ffn_dim == 48));
  CHECK((c.head_dim == 32 && c.full.head_dim == 64 && c.rope_scaling == "proportional"));
  CHECK(has(refused("attention.shared_kv_layers", 7), "none of the first 2 layers is one"));
  CHECK(has(refused("attention.shared_kv_layers", 4000000000), "none of the first 0 layers"));
  CHECK(has(refused("attention.sliding_window", 0), "'gemma4.attention.sliding_window' is 0"));
  CHECK(has(refused("attention.key_length_swa", 0), "is 0, expected 1 to 1024"));
  CHECK(has(refused("attention.value_length_swa", 16), "is 16, expected 32, which is"));
  CHECK(has(refused("rope.dimension_count_swa", 8), "is 8, expected 32, which is"));
  CHECK(has(refused("attention.key_length", 32), "keys and values of different lengths"));
  CHECK(has(refused("embedding_length_per_layer_input", 8), "expected [512, 72]"));
}

TEST_CASE("an opened Gemma 4 says which parts are not read") {
  if (find_golden("gemma4-ple").empty()) return;
  TempFolder temp;
  const OpenedModel text = open_model(copy_golden(temp, "gemma4-ple"));
  CHECK((!text.has_vision && !text.has_audio));
  const OpenedModel all = open_model(copy_golden(
      temp, "gemma4-ple", {{"vision_config", Json::object()}, {"audio_config", Json::object()}}));
  CHECK((all.has_vision && all.has_audio));
}

TEST_CASE("CUDA runs Gemma 4") {
  CHECK(cuda::model_problem(shape_model("gemma-4-31b", "bf16")) == "");
  CHECK(cuda::model_problem(shape_model("gemma-4-26b-a4b", "q4_k_m")) == "");
}

TEST_CASE("shapes of Gemma 4 have the published sizes") {
  const auto weights = [](const char* shape) {
    const Model model = shape_model(shape, "bf16");
    model.program();
    int64_t count = 0;
    for (const Tensor& tensor : model.weights->tensors()) {
      count += tensor.view.rows * tensor.view.cols;
    }
    return static_cast<double>(count) / 1e9;
  };
  CHECK(weights("gemma-4-31b") == Approx(30.7).margin(0.05));
  CHECK(weights("gemma-4-26b-a4b") == Approx(25.2).margin(0.05));
}

}  // namespace skald::test
