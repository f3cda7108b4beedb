// Qwen3-Next and Qwen3.5: what their configurations say and what is refused; a GGUF, in which heads
// have another order, gives the folder's logits. The goldens are in golden_test.cpp.
#include <cmath>

#include "models/convert/gguf_export.h"
#include "tests/family_golden.h"
#include "tests/gguf_writer.h"
#include "tests/recurrent_model.h"

namespace skald::test {
namespace {

using Json = nlohmann::json;

// One tensor of a folder, decoded.
struct Values {
  int64_t rows = 0, cols = 0;
  std::vector<float> floats;
};

Values values_of(const WeightFile& file, const std::string& name) {
  const TensorView& view = file.find(name)->view;
  Values v{view.rows, view.cols, std::vector<float>(static_cast<size_t>(view.rows * view.cols))};
  for (int64_t r = 0; r < view.rows; ++r) {
    info(view.type).decode_row(view.row(r), v.floats.data() + r * view.cols, view.cols);
  }
  return v;
}

// Value heads of `width` rows each, from Hugging Face's order to GGUF's: the heads that share a key
// head no longer follow one another. Rows before `first` stay.
Values reordered(const Values& v, const DeltaSpec& s, int64_t width, int64_t first = 0) {
  Values out = v;
  const int64_t shared = s.value_heads / s.key_heads;
  for (int64_t h = 0; h < s.value_heads; ++h) {
    const int64_t to = h % shared * s.key_heads + h / shared;
    std::copy_n(v.floats.begin() + (first + h * width) * v.cols, width * v.cols,
                out.floats.begin() + (first + to * width) * v.cols);
  }
  return out;
}

Values transposed(const Values& v) {
  Values out{v.cols, v.rows, std::vector<float>(v.floats.size())};
  for (int64_t r = 0; r < v.rows; ++r) {
    for (int64_t c = 0; c < v.cols; ++c) {
      out.floats[static_cast<size_t>(c * v.rows + r)] =
          v.floats[static_cast<size_t>(r * v.cols + c)];
    }
  }
  return out;
}

// What llama.cpp's converter makes of one tensor of Qwen3.5.
Values converted(const std::string& name, Values v, const DeltaSpec& s) {
  const auto is = [&](std::string_view part) { return name.find(part) != name.npos; };
  if (is("_norm.weight") && !is("ssm_norm")) {
    for (float& x : v.floats) x += 1;
  }
  if (is("ssm_a.log")) {
    for (float& x : v.floats) x = -std::exp(x);
  }
  if (is("attn_qkv") || is("ssm_conv1d")) return reordered(v, s, s.value_dim, 2 * s.keys());
  if (is("attn_gate")) return reordered(v, s, s.value_dim);
  if (is("ssm_beta") || is("ssm_alpha")) return reordered(v, s, 1);
  if (is("ssm_a.log") || is("ssm_dt")) return transposed(reordered(transposed(v), s, 1));
  if (is("ssm_out")) return transposed(reordered(transposed(v), s, s.value_dim));
  return v;
}

void add_keys(GgufWriter& w, const ModelConfig& c, const std::string& architecture) {
  const std::string prefix = architecture + ".";
  const auto number = [&](const char* key, int64_t value) {
    w.u32(prefix + key, static_cast<uint32_t>(value));
  };
  w.text("general.architecture", architecture);
  number("block_count", c.layers);
  number("context_length", c.context);
  number("embedding_length", c.dim);
  if (c.experts.count == 0) number("feed_forward_length", c.ffn_dim);
  number("attention.head_count", c.heads);
  number("attention.head_count_kv", c.kv_heads);
  number("attention.key_length", c.head_dim);
  number("attention.value_length", c.head_dim);
  number("rope.dimension_count", 2 * std::ssize(c.rope.inv_freq));
  w.f32(prefix + "rope.freq_base", c.rope_base);
  w.f32(prefix + "attention.layer_norm_rms_epsilon", c.norm_eps);
  const DeltaSpec& s = c.delta.spec;
  number("ssm.conv_kernel", c.delta.taps);
  number("ssm.state_size", s.key_dim);
  number("ssm.group_count", s.key_heads);
  number("ssm.time_step_rank", s.value_heads);
  number("ssm.inner_size", s.values());
  if (c.experts.count == 0) return;
  number("expert_count", c.experts.count);
  number("expert_used_count", c.experts.used);
  number("expert_feed_forward_length", c.experts.ffn_dim);
  number("expert_shared_feed_forward_length", c.experts.shared_dim);
}

std::string gguf_of(const OpenedModel& folder, const std::string& architecture) {
  GgufWriter w;
  const ModelConfig& c = folder.model.config;
  add_keys(w, c, architecture);
  for (const Tensor& tensor : folder.model.weights->tensors()) {
    std::string name = tensor.name;
    const Values v = converted(name, values_of(*folder.model.weights, name), c.delta.spec);
    if (name.ends_with("ssm_a.log")) name.resize(name.size() - 4);
    std::string data(reinterpret_cast<const char*>(v.floats.data()), v.floats.size() * 4);
    std::vector<uint64_t> dims{static_cast<uint64_t>(v.cols)};
    if (tensor.shape.size() == 3 && name.find("exps") != name.npos) {
      dims.push_back(static_cast<uint64_t>(tensor.shape[1]));
      dims.push_back(static_cast<uint64_t>(tensor.shape[0]));
    } else if (v.rows > 1) {
      dims.push_back(static_cast<uint64_t>(v.rows));
    }
    w.tensors.push_back({name, dims, 0, data});
  }
  return w.file();
}

}  // namespace

TEST_CASE("three of four layers of Qwen3.5 have a gated delta net, the fourth a gated attention") {
  if (find_golden("qwen3_5").empty()) return;
  const ModelConfig c = golden_config("qwen3_5", Json::object());
  CHECK(c.delta.layers == std::vector<bool>{true, true, true, false});
  CHECK(c.delta.spec == DeltaSpec{2, 4, 16, 32, HeadOrder::Blocks});
  CHECK(c.delta.taps == 4);
  CHECK(c.attention_gate);
  CHECK(c.norm_plus == 1);
  CHECK(c.rope.inv_freq.size() == 8);  // a quarter of a head
  CHECK(c.experts.count == 0);
  const ModelConfig by_interval = golden_config("qwen3_5", {{"text_config/layer_types", "erase"}});
  CHECK(by_interval.delta.layers == c.delta.layers);
}

TEST_CASE("Qwen3.5 with experts has normalized weights and a gated shared expert") {
  for (const char* name : {"qwen3_5_moe", "qwen3_next"}) {
    if (find_golden(name).empty()) return;
    CAPTURE(name);
    const ModelConfig c = golden_config(name, Json::object());
    CHECK(c.experts.count == 8);
    CHECK(c.experts.used == 3);
    CHECK(c.experts.ffn_dim == 32);
    CHECK(c.experts.shared_dim == 48);
    CHECK(c.experts.shared_gate);
    CHECK(c.experts.normalized);
    CHECK(c.experts.dense.empty());
  }
}

TEST_CASE("a configuration of Qwen3.5 that skald does not compute is refused") {
  if (find_golden("qwen3_5").empty()) return;
  const auto refused = [](const char* key, const Json& value) {
    return golden_refusal("qwen3_5", {{std::string("text_config/") + key, value}});
  };
  CHECK(has(refused("layer_types", Json::array({"linear_attention", "windows"})),
            "'layer_types' has 'windows', expected 'full_attention' or 'linear_attention'"));
  CHECK(has(refused("layer_types", Json::array({"full_attention"})), "has 1 values"));
  CHECK(has(refused("linear_num_key_heads", 3), "4 heads of values cannot share 3 heads of keys"));
  CHECK(has(refused("linear_conv_kernel_dim", 1), "'linear_conv_kernel_dim' is 1"));
  CHECK(has(refused("linear_key_head_dim", 8), "expected [160, 64]"));
  CHECK(has(refused("attn_output_gate", false), "'attn_output_gate' is false, expected true"));
  CHECK(has(refused("hidden_act", "gelu_pytorch_tanh"), "expected 'silu'"));
  CHECK(has(refused("intermediate_size", "erase"), "intermediate_size"));
}

TEST_CASE("a GGUF of Qwen3.5, with heads in turns, gives the folder's logits") {
  for (const std::string name : {"qwen3_5", "qwen3_5_moe"}) {
    const fs::path folder = find_golden(name);
    if (folder.empty()) return;
    CAPTURE(name);
    TempFolder temp;
    const std::string architecture = name == "qwen3_5" ? "qwen35" : "qwen35moe";
    const fs::path path = temp.write("m.gguf", gguf_of(open_model(folder), architecture));
    const OpenedModel opened = open_model(path);
    CHECK(opened.model.config.delta.spec.order == HeadOrder::Turns);
    CHECK(opened.model.config.delta.layers == std::vector<bool>{true, true, true, false});
    for (const auto set : {cpu::KernelSet::Fast, cpu::KernelSet::Reference}) {
      const auto executor = cpu::make_executor(opened.model, {.exact = true}, set);
      check_logits(*executor, folder / "golden.json", folder / "logits.npy");
    }
  }
}

TEST_CASE("skald writes the GGUF of Qwen3.5 that llama.cpp's converter writes") {
  for (const std::string name : {"qwen3_5", "qwen3_5_moe"}) {
    const fs::path folder = find_golden(name);
    if (folder.empty()) return;
    CAPTURE(name);
    const OpenedModel opened = open_model(folder);
    const DeltaSpec& spec = opened.model.config.delta.spec;
    GgufExport out = export_gguf(opened);
    TensorMaker maker(1);
    size_t compared = 0;
    for (const Tensor& tensor : opened.model.weights->tensors()) {
      const std::string both = "ffn_gate_up_exps.weight";  // written as two tensors
      if (tensor.name.ends_with(both)) continue;
      const std::string ending = ".log";
      std::string its_name = tensor.name;
      if (its_name.ends_with(ending)) its_name.resize(its_name.size() - ending.size());
      CAPTURE(its_name);
      const auto made = std::find_if(out.tensors.begin(), out.tensors.end(),
                                     [&](const MadeTensor& t) { return t.name == its_name; });
      REQUIRE(made != out.tensors.end());
      if (made->name.ends_with("conv1d.weight")) {
        CHECK(made->type == DType::F32);
        CHECK(made->shape.size() == 2);
      }
      made->type = DType::F32;
      const Values expected =
          converted(tensor.name, values_of(*opened.model.weights, tensor.name), spec);
      std::vector<float> floats(static_cast<size_t>(made->elements()));
      maker.make(*made, 0, made->rows(), reinterpret_cast<std::byte*>(floats.data()));
      CHECK(floats == expected.floats);
      ++compared;
    }
    CHECK(compared > 40);
    const std::string prefix = name == "qwen3_5" ? "qwen35." : "qwen35moe.";
    for (const char* key :
         {"ssm.conv_kernel", "ssm.state_size", "ssm.group_count", "ssm.time_step_rank",
          "ssm.inner_size", "full_attention_interval", "attention.recurrent_layers",
          "rope.dimension_sections", "rope.dimension_count"}) {
      CHECK(out.head.has(prefix + key));
    }
  }
}

TEST_CASE("a GGUF of Qwen3-Next has queries, keys and values apart from the gates") {
  const fs::path folder = find_golden("qwen3_next");
  if (folder.empty()) return;
  const OpenedModel opened = open_model(folder);
  const GgufExport out = export_gguf(opened);
  const auto shape = [&](const std::string& name) {
    for (const MadeTensor& t : out.tensors) {
      if (t.name == name) return t.shape;
    }
    return std::vector<int64_t>{};
  };
  CHECK(shape("blk.0.attn_qkv.weight") == std::vector<int64_t>{192, 64});
  CHECK(shape("blk.0.attn_gate.weight") == std::vector<int64_t>{128, 64});
  CHECK(shape("blk.0.ssm_ba.weight") == std::vector<int64_t>{8, 64});
  CHECK(shape("blk.0.ssm_in.weight").empty());
  CHECK(shape("blk.0.ffn_gate_exps.weight") == std::vector<int64_t>{8, 32, 64});
  CHECK(shape("blk.0.ffn_gate_inp_shexp.weight") == std::vector<int64_t>{64});

  TempFolder temp;
  const OpenedModel other =
      open_model(copy_golden(temp, "qwen3_next", {{"norm_topk_prob", false}}));
  CHECK(has(error_text([&] { export_gguf(other); }, Exit::Model), "weights are not normalized"));
}

TEST_CASE("numbers of a GGUF that no delta net has are refused") {
  TempFolder temp;
  const std::string good = RecurrentGguf().file();
  CHECK(open_model(temp.write("good.gguf", good)).model.config.delta.layers ==
        std::vector<bool>{true, false, true});
  const auto refused = [&](const std::string& key, uint32_t value) {
    std::string bad = good;
    const std::string entry = gguf_string("qwen35." + key) + raw<uint32_t>(4);
    const size_t at = bad.find(entry);
    REQUIRE(at != bad.npos);
    bad.replace(at + entry.size(), 4, raw(value));
    const fs::path path = temp.write("bad.gguf", bad);
    return error_text([&] { open_model(path); }, Exit::Model);
  };
  CHECK(has(refused("ssm.conv_kernel", 1), "'qwen35.ssm.conv_kernel' is 1, expected 2 to 64"));
  CHECK(has(refused("ssm.group_count", 0), "'qwen35.ssm.group_count' is 0"));
  CHECK(has(refused("ssm.group_count", 3), "4 heads of values cannot share 3"));
  CHECK(has(refused("ssm.inner_size", 81), "expected a multiple of the 4 heads"));
  CHECK(has(refused("ssm.state_size", 16), "expected ["));
}

}  // namespace skald::test
