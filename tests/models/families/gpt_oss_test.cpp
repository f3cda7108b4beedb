// gpt-oss: what its configuration says, how its two layouts of experts are read, and what is
// refused. The logits of the goldens are in golden_test.cpp.
#include "models/families/gpt_oss_weights.h"

#include <numeric>

#include "engine/quant/formats/mxfp4.h"
#include "models/convert/gguf_export.h"
#include "models/convert/quantized.h"
#include "tests/family_golden.h"

namespace skald::test {
namespace {

using Json = nlohmann::json;

std::string tensor_json(const std::string& name, const std::string& type, const Json& shape,
                        int64_t begin, int64_t end) {
  return "\"" + name +
         "\": " + Json{{"dtype", type}, {"shape", shape}, {"data_offsets", {begin, end}}}.dump();
}

std::shared_ptr<const WeightFile> opened(const std::filesystem::path& file) {
  const auto same = [](std::string_view name) { return std::string(name); };
  const auto opened = open_safetensors(file, same, RawTensors::Kept);
  return gpt_oss_weights(opened, opened->raw_tensors());
}

std::vector<float> row_of(const WeightFile& file, const std::string& name, int64_t row) {
  const Tensor* tensor = file.find(name);
  REQUIRE(tensor);
  std::vector<float> values(static_cast<size_t>(tensor->view.cols));
  std::vector<std::byte> scratch;
  tensor->view.decode_row(row, values.data(), scratch);
  return values;
}

}  // namespace

TEST_CASE("gpt-oss has sinks, biases everywhere, and a window in every second layer") {
  if (find_golden("gpt_oss").empty()) return;
  const ModelConfig c = golden_config("gpt_oss", {{"layer_types", "erase"}});
  CHECK(c.attention_sinks);
  CHECK(c.attention_bias);
  CHECK(c.attention_output_bias);
  CHECK(c.experts.bias);
  CHECK(c.experts.normalized);
  CHECK(c.experts.count == 6);
  CHECK(c.experts.used == 2);
  CHECK(c.activation == Activation::ClampedSwiglu);
  CHECK(c.windows == std::vector<int>{16, 0, 16, 0});
  CHECK(has(golden_refusal("gpt_oss", {{"swiglu_limit", 6.5}}), "'swiglu_limit' is 6.5"));
  CHECK(has(golden_refusal("gpt_oss", {{"quantization_config/quant_method", "fp8"}}),
            "' is U8, and skald reads"));
  CHECK(has(golden_refusal("gpt_oss", {{"num_local_experts", 5}}),
            "'blk.0.ffn_gate_inp.weight' is [6, 64], expected [5, 64]"));
}

// One expert with two rows of gate and two of up, and one block a row.
TEST_CASE("blocks and scales of gpt-oss become rows of MXFP4, gate and up apart") {
  std::string bytes;
  for (int row = 0; row < 4; ++row) {
    for (int i = 0; i < 16; ++i)
      bytes += static_cast<char>((2 * i + row) % 16 | (2 * i + 1) % 16 << 4);
  }
  for (int row = 0; row < 4; ++row) bytes += static_cast<char>(126 + row);
  const TempFolder temp;
  const std::string head =
      "{" + tensor_json("blk.0.ffn_gate_up_exps.blocks", "U8", {1, 4, 1, 16}, 0, 64) + "," +
      tensor_json("blk.0.ffn_gate_up_exps.scales", "U8", {1, 4, 1}, 64, 68) + "}";
  const auto file = opened(temp.write("m.safetensors", safetensors(head, bytes)));
  CHECK(file->find("blk.0.ffn_gate_exps.weight")->shape == std::vector<int64_t>{1, 2, 32});
  constexpr float kValues[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (int row = 0; row < 4; ++row) {
    const std::string name =
        row % 2 == 0 ? "blk.0.ffn_gate_exps.weight" : "blk.0.ffn_up_exps.weight";
    const std::vector<float> values = row_of(*file, name, row / 2);
    for (int i = 0; i < 32; ++i) {
      const int code = i % 2 == 0 ? (i + row) % 16 : i % 16;
      const float size = std::ldexp(kValues[code % 8], row - 1);
      CAPTURE(row, i);
      CHECK(values[static_cast<size_t>(i)] == (code < 8 ? size : -size));
    }
  }
  // What the CPU computes with, and what is read for a fingerprint, is the same.
  const auto made = file->made({});
  const Tensor &tensor = *file->find("blk.0.ffn_up_exps.weight"),
               &there = *made->find("blk.0.ffn_up_exps.weight");
  REQUIRE(there.view.data);
  std::vector<std::byte> part(20);
  file->read(tensor, 5, part);
  CHECK(std::equal(part.begin(), part.end(), there.view.data + 5));
}

// Two experts of three inputs; gate and up have two outputs each.
TEST_CASE("16-bit experts of gpt-oss are columns, and biases alternate") {
  std::vector<float> floats(2 * 3 * 4 + 2 * 4);
  std::iota(floats.begin(), floats.end(), 0.0F);
  const std::string bytes(reinterpret_cast<const char*>(floats.data()), floats.size() * 4);
  const TempFolder temp;
  const std::string head =
      "{" + tensor_json("blk.0.ffn_gate_up_exps.weight", "F32", {2, 3, 4}, 0, 96) + "," +
      tensor_json("blk.0.ffn_gate_up_exps.bias", "F32", {2, 4}, 96, 128) + "}";
  const auto file = opened(temp.write("m.safetensors", safetensors(head, bytes)));
  CHECK(row_of(*file, "blk.0.ffn_gate_exps.weight", 1) == std::vector<float>{2, 6, 10});
  CHECK(row_of(*file, "blk.0.ffn_up_exps.weight", 0) == std::vector<float>{1, 5, 9});
  CHECK(row_of(*file, "blk.0.ffn_up_exps.weight", 3) == std::vector<float>{15, 19, 23});
  CHECK(row_of(*file, "blk.0.ffn_gate_exps.bias", 1) == std::vector<float>{28, 30});
  CHECK(row_of(*file, "blk.0.ffn_up_exps.bias", 0) == std::vector<float>{25, 27});
}

TEST_CASE("blocks of gpt-oss that do not fit their scales are refused") {
  const TempFolder temp;
  const auto refusal = [&](const std::string& head, size_t bytes) {
    const auto path = temp.write("m.safetensors", safetensors(head, std::string(bytes, '\0')));
    return error_text([&] { opened(path); });
  };
  const std::string blocks = "blk.0.ffn_down_exps.blocks", scales = "blk.0.ffn_down_exps.scales";
  const std::string four = tensor_json(blocks, "U8", {1, 4, 1, 16}, 0, 64);
  CHECK(has(refusal("{" + four + "}", 64), "'blk.0.ffn_down_exps.scales' is missing"));
  CHECK(has(refusal("{" + tensor_json(scales, "U8", {1, 4, 1}, 0, 4) + "}", 4),
            "'blk.0.ffn_down_exps.blocks' is missing"));
  CHECK(has(refusal("{" + four + "," + tensor_json(scales, "U8", {1, 3, 1}, 64, 67) + "}", 67),
            "do not fit together"));
  CHECK(has(refusal("{" + tensor_json("other", "U8", {4}, 0, 4) + "}", 4), "'other' is U8"));
  CHECK(has(
      refusal("{" + tensor_json("blk.0.ffn_gate_up_exps.blocks", "U8", {1, 3, 1, 16}, 0, 48) + "," +
                  tensor_json("blk.0.ffn_gate_up_exps.scales", "U8", {1, 3, 1}, 48, 51) + "}",
              51),
      "has 3 rows of an expert's gate and up"));
}

TEST_CASE("GGUFs of mixtures say what llama.cpp asks for") {
  for (const auto& [golden, architecture] :
       {std::pair{"gpt_oss", "gpt-oss"}, {"minimax_m2", "minimax-m2"}, {"glm4_moe", "glm4moe"}}) {
    const std::filesystem::path folder = find_golden(golden);
    if (folder.empty()) continue;
    CAPTURE(golden);
    const GgufExport out = export_gguf(open_model(folder));
    // clang 14 does not let a lambda capture a structured binding by its name.
    const auto has_key = [&out, prefix = architecture](const char* key) {
      return out.head.has(concat(prefix, ".", key));
    };
    CHECK(has_key("expert_feed_forward_length"));
    CHECK(has_key("expert_used_count"));
    const bool sigmoids = std::string_view(golden) != "gpt_oss";
    CHECK(has_key("expert_gating_func") == sigmoids);
    CHECK(has_key("expert_weights_scale") == sigmoids);
    CHECK(has_key("attention.sliding_window") == !sigmoids);
  }
}

TEST_CASE("experts in MXFP4 stay as they are in a model that is quantized while it is loaded") {
  const std::filesystem::path folder = find_golden("gpt_oss");
  if (folder.empty()) return;
  const Model model = quantized_model(open_model(folder).model, find_quant_mix("q8_0"));
  CHECK(model.weights->find("blk.0.ffn_up_exps.weight")->view.type == DType::MXFP4);
  CHECK(!model.weights->find("blk.0.ffn_up_exps.weight")->source.exists());
  CHECK(model.weights->find("blk.0.attn_q.weight")->view.type == DType::Q8_0);
  const Model made = made_model(model, {});
  const auto executor = cpu::make_executor(made, {.context = 64});
  CHECK(all_logits(*executor, {1, 5, 9}).size() == 3 * 512);
}

}  // namespace skald::test
