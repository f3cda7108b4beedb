// Mixtral and Qwen3-MoE: folders and GGUFs, with stacked and with single experts, against
// transformers; and errors in their files.
#include <cmath>
#include <map>

#include "models/convert/gguf_export.h"
#include "models/convert/quantized.h"
#include "models/families/shared/names.h"
#include "tests/family_golden.h"
#include "tests/gguf_writer.h"

namespace skald::test {
namespace {

using Json = nlohmann::json;

constexpr char kMoe[] = "qwen3moe", kDense[] = "qwen3moe-dense";

// Changes to a GGUF. `single` cuts stacks of experts into single tensors.
struct Changes {
  bool single = false;
  std::map<std::string, uint32_t> numbers = {};  // replace the file's keys; 1 << 31 removes a key
  std::string renamed = {};                      // gets the name x
};

std::string gguf_of(const OpenedModel& opened, const Changes& changes) {
  constexpr uint32_t kNone = uint32_t{1} << 31;
  GgufWriter writer;
  for (const GgufValue& value : opened.gguf->metadata().values()) {
    if (changes.numbers.contains(std::string(value.key))) continue;
    const std::string bytes(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
    if (value.is_array()) continue;
    writer.entry(value.key, static_cast<uint32_t>(value.type),
                 value.type == GgufType::String ? gguf_string(bytes) : bytes);
  }
  for (const auto& [key, number] : changes.numbers) {
    if (number != kNone) writer.u32(key, number);
  }
  for (const Tensor& tensor : opened.gguf->tensors()) {
    const std::string name = tensor.name == changes.renamed ? "x" : tensor.name;
    const auto id = static_cast<uint32_t>(info(tensor.view.type).gguf_id);
    const std::string bytes(reinterpret_cast<const char*>(tensor.view.data),
                            static_cast<size_t>(tensor.view.bytes()));
    std::vector<uint64_t> dims(tensor.shape.rbegin(), tensor.shape.rend());
    const size_t stack = name.find("_exps.");
    if (!changes.single || stack == name.npos) {
      writer.tensors.push_back({name, dims, id, bytes});
      continue;
    }
    const uint64_t count = dims.back(), size = bytes.size() / count;
    dims.pop_back();
    for (uint64_t e = 0; e < count; ++e) {
      const std::string one = concat(name.substr(0, stack), ".", e, name.substr(stack + 5));
      writer.tensors.push_back(
          {one == changes.renamed ? "x" : one, dims, id, bytes.substr(e * size, size)});
    }
  }
  return writer.file();
}

std::string gguf_refusal(const Changes& changes) {
  TempFolder temp, other;
  const OpenedModel gguf = open_model(write_gguf(temp, kMoe));
  const std::string text =
      error_text([&] { open_model(other.write("changed.gguf", gguf_of(gguf, changes))); });
  CHECK(text.find('\n') == text.npos);
  return text;
}

}  // namespace

TEST_CASE("tiny mixtures of experts agree with transformers' logits and greedy tokens") {
  const std::string name = GENERATE("mixtral", "qwen3moe", "qwen3moe-dense");
  const auto kernels = GENERATE(cpu::KernelSet::Fast, cpu::KernelSet::Reference);
  TempFolder temp;
  const OpenedModel folder = open_model(write_folder(temp, name));
  CHECK(folder.family == (name == "mixtral" ? "Mixtral" : "Qwen3-MoE"));
  check_model(folder.model, name, kernels);
}

TEST_CASE("a Mixtral agrees with Hugging Face's logits and greedy tokens") {
  const auto kernels = GENERATE(cpu::KernelSet::Fast, cpu::KernelSet::Reference);
  const fs::path folder = find_golden("mixtral-moe");
  if (folder.empty()) return;
  const OpenedModel opened = open_model(folder);
  const auto executor = cpu::make_executor(opened.model, {.exact = true}, kernels);
  check_logits(*executor, folder / "golden.json", folder / "logits.npy");
  check_greedy(*executor, read_json(folder / "golden.json"));
}

TEST_CASE(
    "a GGUF gives the same logits with stacked experts and with single ones, as in older files") {
  const auto kernels = GENERATE(cpu::KernelSet::Fast, cpu::KernelSet::Reference);
  TempFolder temp;
  const OpenedModel gguf = open_model(write_gguf(temp, kMoe));
  CHECK(gguf.family == "Qwen3-MoE");
  check_model(gguf.model, kMoe, kernels);
  CHECK(gguf.gguf->find("blk.0.ffn_up_exps.weight")->shape == std::vector<int64_t>{4, 8, 16});
  const OpenedModel single = open_model(temp.write("single.gguf", gguf_of(gguf, {.single = true})));
  REQUIRE(single.gguf->find("blk.0.ffn_up.3.weight"));
  check_model(single.model, kMoe, kernels);
}

TEST_CASE("the experts of a stack lie one after the other in memory") {
  TempFolder temp;
  const Model model = open_model(write_gguf(temp, kMoe)).model;
  const Program program = model.program();
  size_t layers = 0;
  for (const Op& op : program.ops) {
    const auto* experts = std::get_if<Experts>(&op);
    if (!experts) continue;
    const std::string stack = concat("blk.", layers++, ".ffn_down_exps.weight");
    const TensorView whole = model.weights->find(stack)->view;
    for (int e = 0; e < 4; ++e) {
      const Weight& weight = program.weight(experts->of(experts->down, e));
      CHECK(weight.name == concat(stack, "[", e, "]"));
      CHECK(weight.view.data == whole.row(e * 16));
      CHECK(weight.view.rows == 16);
    }
    CHECK(experts->spec == ExpertsSpec{4, 2, true, Activation::Silu});
  }
  CHECK(layers == 2);
}

TEST_CASE("Hugging Face's tensor names of experts are recognized in both families") {
  TempFolder temp;
  for (const char* name : {"mixtral", kMoe}) {
    const Model model = open_model(write_folder(temp, name)).model;
    CHECK(model.weights->find("blk.0.ffn_gate_inp.weight"));
    for (const char* part : {"gate", "up", "down"}) {
      CHECK(model.weights->find(concat("blk.0.ffn_", part, ".3.weight")));
    }
  }
  constexpr NamePart kParts[] = {{"w1", "ffn_gate"}};
  const auto name = [&](std::string_view hf) {
    return expert_tensor_name(hf, ".moe.experts.", kParts);
  };
  CHECK(name("model.layers.12.moe.experts.7.w1.weight") == "blk.12.ffn_gate.7.weight");
  for (const char* other :
       {"model.layers.12.moe.experts.7.w1.bias", "model.layers.12.moe.experts.7.w2.weight",
        "model.layers.12.moe.experts.-7.w1.weight", "model.layers.12.moe.experts.w1.weight",
        "model.layers.12.moe.experts.7w1.weight", "model.layers..moe.experts.7.w1.weight",
        "model.layers.12.moe.experts.99999999999.w1.weight", "layers.12.moe.experts.7.w1.weight",
        ""}) {
    CHECK(name(other) == "");
  }
}

TEST_CASE("omitted keys of a mixture's configuration have transformers' defaults") {
  const ModelConfig c = config_of(kMoe);
  CHECK(c.experts.count == 4);
  CHECK(c.experts.used == 2);
  CHECK(c.experts.ffn_dim == 8);
  CHECK(c.experts.normalized);
  CHECK(c.experts.dense.empty());
  CHECK(c.qk_norm == QkNorm::Heads);
  CHECK(!config_of(kMoe, {{"norm_topk_prob", "erase"}}).experts.normalized);
  // transformers 5 uses the other key.
  CHECK(config_of(kMoe, {{"num_experts", "erase"}, {"num_local_experts", 4}}).experts.count == 4);
  CHECK(has(refusal(kMoe, {{"num_experts", "erase"}}), "is [4, 16], expected [128, 16]"));
  CHECK(has(refusal(kMoe, {{"moe_intermediate_size", "erase"}}), "expected [768, 16]"));
  CHECK(has(refusal(kMoe, {{"num_experts_per_tok", "erase"}}), "'num_experts_per_tok' is 8"));

  const ModelConfig dense = config_of(kDense);
  CHECK(dense.experts.dense == std::vector<bool>{false, true});
  CHECK((dense.has_experts(0) && !dense.has_experts(1)));
  CHECK(dense.window == 9);
  CHECK(config_of(kDense, {{"use_sliding_window", false}}).window == 0);

  const ModelConfig mixtral = config_of("mixtral");
  CHECK(mixtral.experts.normalized);
  CHECK(mixtral.experts.ffn_dim == mixtral.ffn_dim);
  CHECK(config_of("mixtral", {{"num_experts_per_tok", "erase"}}).experts.used == 2);
  CHECK(config_of("mixtral", {{"rope_theta", "erase"}}).rope_base == 1000000);
  CHECK(config_of("mixtral", {{"sliding_window", 5}}).window == 5);
  CHECK(has(refusal("mixtral", {{"num_local_experts", "erase"}}), "expected [8, 16]"));
}

TEST_CASE("every decoder_sparse_step-th layer has experts, except the listed ones") {
  const auto dense = [](const Json& changes) {
    Json all{{"num_hidden_layers", 6}};
    all.update(changes);
    return error_text([&] {
      TempFolder temp;
      open_model(write_folder(temp, kMoe, all));
    });
  };
  // Layer 1 has experts in the file, but none with a step of 3.
  CHECK(has(dense({{"decoder_sparse_step", 3}}), "tensor 'blk.0.ffn_gate.weight' is missing"));
  CHECK(has(dense({{"mlp_only_layers", {1}}}), "tensor 'blk.1.ffn_gate.weight' is missing"));
  CHECK(has(dense({{"mlp_only_layers", nullptr}}), "tensor 'blk.2.attn_norm.weight' is missing"));
  CHECK(has(dense({{"mlp_only_layers", {17, -1}}}), "tensor 'blk.2.attn_norm.weight' is missing"));
  CHECK(has(dense({{"decoder_sparse_step", 0}}), "'decoder_sparse_step' is 0"));
  CHECK(has(dense({{"mlp_only_layers", {1.5}}}), "'mlp_only_layers' is [1.5]"));
}

TEST_CASE("an impossible configuration of experts is an error that names the key") {
  for (const char* name : {kMoe, "mixtral"}) {
    const char* key = name == kMoe ? "num_experts" : "num_local_experts";
    CHECK(
        has(refusal(name, {{key, 0}}), concat("'", key, "' is 0, expected a whole number from 1")));
    CHECK(has(refusal(name, {{key, 5}}),
              "tensor 'blk.0.ffn_gate_inp.weight' is [4, 16], expected [5, 16]"));
    CHECK(has(refusal(name, {{key, 1 << 30}}), concat("'", key, "' is 1073741824")));
    CHECK(has(refusal(name, {{"num_experts_per_tok", 5}}),
              "'num_experts_per_tok' is 5, expected at most 4, the number of experts"));
    CHECK(has(refusal(name, {{"num_experts_per_tok", 0}}), "'num_experts_per_tok' is 0"));
  }
  CHECK(has(refusal(kMoe, {{"moe_intermediate_size", 9}}),
            "tensor 'blk.0.ffn_gate.0.weight' is [8, 16], expected [9, 16]"));
}

TEST_CASE(
    "a folder that lacks an expert, or has one of another type, is an error that names the "
    "tensor") {
  TempFolder temp;
  const fs::path folder = write_folder(temp, kMoe);
  const std::string weights = read_file(folder / "model.safetensors");
  const auto with = [&](std::string from, const std::string& to) {
    std::string changed = weights;
    changed.replace(changed.find(from), from.size(), to);
    temp.write("m/model.safetensors", changed);
    return error_text([&] { open_model(folder); });
  };
  CHECK(has(with("layers.1.mlp.experts.2.up_proj", "layers.1.mlp.experts.2.xx_proj"),
            "tensor 'blk.1.ffn_up.2.weight' is missing (expected [8, 16])"));
  CHECK(has(with("layers.0.mlp.gate.weight", "layers.0.mlp.gaze.weight"),
            "tensor 'blk.0.ffn_gate_inp.weight' is missing (expected [4, 16])"));
  CHECK(has(with("layers.0.mlp.experts.0.down_proj", "layers.0.mlp.experts.0.xxxx_proj"),
            "tensor 'blk.0.ffn_down_exps.weight' is missing (expected [4, 16, 8])"));
  uint64_t length = 0;
  std::memcpy(&length, weights.data(), sizeof length);
  Json header = Json::parse(weights.substr(8, length));
  header["model.layers.1.mlp.experts.2.up_proj.weight"]["dtype"] = "BF16";
  temp.write("m/model.safetensors", safetensors(header.dump(), weights.substr(8 + length)));
  CHECK(
      has(error_text([&] { open_model(folder); }),
          "tensor 'blk.1.ffn_up.2.weight' is BF16, expected F16 as the layer's first expert has"));
}

TEST_CASE("a GGUF whose experts contradict its keys is an error that names the key or tensor") {
  const auto number = [](const char* key, uint32_t value) {
    return gguf_refusal({.numbers = {{concat("qwen3moe.", key), value}}});
  };
  constexpr uint32_t kNone = uint32_t{1} << 31;
  CHECK(gguf_refusal({}) == "");
  CHECK(has(number("expert_count", 0), "'qwen3moe.expert_count' is 0 or missing"));
  CHECK(has(number("expert_count", kNone), "'qwen3moe.expert_count' is 0 or missing"));
  CHECK(has(number("expert_count", 1 << 20),
            "'qwen3moe.expert_count' is 1048576, expected 1 to 4096"));
  CHECK(has(number("expert_count", 3), "'blk.0.ffn_gate_inp.weight' is [4, 16], expected [3, 16]"));
  CHECK(has(number("expert_used_count", 0), "'qwen3moe.expert_used_count' is 0, expected 1 to 4"));
  CHECK(has(number("expert_used_count", 5), "'qwen3moe.expert_used_count' is 5, expected 1 to 4"));
  CHECK(has(number("expert_used_count", kNone), "'qwen3moe.expert_used_count' is missing"));
  CHECK(has(number("expert_feed_forward_length", 16),
            "tensor 'blk.0.ffn_gate_exps.weight' is [4, 8, 16], expected [4, 16, 16]"));
  CHECK(has(number("expert_feed_forward_length", 0), "expert_feed_forward_length' is 0"));
  CHECK(has(number("expert_feed_forward_length", kNone), "is [4, 8, 16], expected [4, 20, 16]"));
  CHECK(
      has(number("expert_gating_func", 2), "'qwen3moe.expert_gating_func' is 2, which skald does"));
  CHECK(number("expert_gating_func", 1) == "");
  CHECK(has(number("expert_shared_count", 1), "'qwen3moe.expert_shared_count' is 1"));
  CHECK(has(number("leading_dense_block_count", 1), "leading_dense_block_count' is 1"));
  CHECK(has(gguf_refusal({.renamed = "blk.1.ffn_down_exps.weight"}),
            "tensor 'blk.1.ffn_down_exps.weight' is missing (expected [4, 16, 8])"));
  CHECK(
      has(gguf_refusal({.renamed = "blk.1.ffn_gate_inp.weight"}), "is missing (expected [4, 16])"));
  CHECK(has(gguf_refusal({.single = true, .renamed = "blk.1.ffn_down.3.weight"}),
            "tensor 'blk.1.ffn_down.3.weight' is missing (expected [16, 8])"));
}

TEST_CASE("a Mixtral exports to a Llama GGUF with stacked experts") {
  TempFolder temp;
  const OpenedModel opened = open_model(write_folder(temp, "mixtral"));
  GgufExport out = export_gguf(opened);
  std::vector<std::string> names;
  for (const MadeTensor& tensor : out.tensors) {
    names.push_back(tensor.name);
    if (tensor.name != "blk.0.ffn_up_exps.weight") continue;
    CHECK(tensor.shape == std::vector<int64_t>{4, 8, 16});
    CHECK(tensor.stack.size() == 4);
    CHECK(tensor.rows() == 32);
  }
  CHECK(std::count(names.begin(), names.end(), "blk.0.ffn_up_exps.weight") == 1);
  CHECK(std::none_of(names.begin(), names.end(),
                     [](const std::string& name) { return name.find("ffn_up.") != name.npos; }));
  CHECK(out.head.has("llama.expert_count"));
  CHECK(!out.head.has("llama.expert_feed_forward_length"));
}

TEST_CASE("quantizing while loading gives experts the formats of the mix") {
  TempFolder temp;
  const OpenedModel opened = open_model(write_folder(temp, kMoe));
  const QuantMix& mix = find_quant_mix("q8_0");
  const Model model = made_model(quantized_model(opened.model, mix), {.threads = 2});
  // Rows of 8 and 16 are not whole blocks. The router is not quantized.
  CHECK(model.weights->find("blk.0.ffn_gate.1.weight")->view.type == DType::F16);
  CHECK(model.weights->find("blk.0.ffn_gate_inp.weight")->view.data ==
        opened.model.weights->find("blk.0.ffn_gate_inp.weight")->view.data);
  check_model(model, kMoe, cpu::KernelSet::Fast);
}

}  // namespace skald::test
