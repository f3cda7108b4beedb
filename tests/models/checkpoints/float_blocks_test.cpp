// Checkpoints in FP8 and NVFP4 whose rows are whole blocks keep their bits.
#include <cmath>
#include <cstring>

#include "engine/base/half.h"
#include "engine/cpu/executor.h"
#include "engine/program/shard.h"
#include "models/adapters/load.h"
#include "models/checkpoints/rows.h"
#include "models/checkpoints/weights.h"
#include "models/convert/quant_mix.h"
#include "models/convert/quantized.h"
#include "tests/exported_gguf.h"
#include "tests/models/checkpoints/checkpoint_files.h"
#include "tests/models/checkpoints/float_folder.h"

namespace skald::test {
namespace {

const std::vector<int32_t> kIds = {1, 7, 30, 4, 4, 19, 47, 2, 11, 25};

std::vector<float> logits_of(const Model& model, bool exact) {
  const auto executor = cpu::make_executor(made_model(model, {}), {.exact = exact, .threads = 1});
  return all_logits(*executor, kIds);
}

TEST_CASE("FP8 and NVFP4 in whole blocks keep their bits, with the weights of their scales") {
  const FloatKind kind = GENERATE(from_range(std::begin(kFloatKinds), std::end(kFloatKinds)));
  CAPTURE(text(kind));
  const FloatFolder folder(kind);
  const OpenedModel opened = folder.open(), f32 = folder.open_in_f32();
  int matrices = 0;
  for (const Tensor& tensor : opened.model.weights->tensors()) {
    CAPTURE(tensor.name);
    const bool of_layer = tensor.name.starts_with("blk.");
    const bool matrix = of_layer && tensor.name.find("norm") == tensor.name.npos;
    CHECK(name(tensor.view.type) == name(matrix ? folder.format() : DType::F32));
    matrices += matrix;
    CHECK((decoded(tensor) == decoded(*f32.model.weights->find(tensor.name))));
  }
  CHECK(matrices == 7);
}

TEST_CASE("a model in FP8 or NVFP4 predicts what its weights in float32 predict") {
  const FloatKind kind = GENERATE(from_range(std::begin(kFloatKinds), std::end(kFloatKinds)));
  CAPTURE(text(kind));
  const FloatFolder folder(kind);
  for (const bool exact : {true, false}) {
    const std::vector<float> expected = logits_of(folder.open_in_f32().model, exact);
    CHECK(largest_difference(logits_of(folder.open().model, exact), expected.data()) <
          kLogitTolerance);
  }
}

TEST_CASE("two ranks divide matrices in FP8 or NVFP4 between whole blocks") {
  const FloatKind kind = GENERATE(FloatKind::Fp8Row, FloatKind::Fp8Block, FloatKind::Nvfp4Over);
  CAPTURE(text(kind));
  const FloatFolder folder(kind);
  const std::vector<float> expected = logits_of(folder.open_in_f32().model, true);
  const Model model = made_model(folder.open().model, {});
  Model half = model;
  half.shard = {1, 2};
  // A head has 128 columns, so heads cannot be divided in blocks of 256.
  CHECK(count_all_reduces(half.program()) == (folder.format() == DType::FP8 ? 2 : 1));
  const auto group = cpu::make_group(model, {.exact = true, .threads = 1}, 2);
  CHECK(largest_difference(all_logits(*group, kIds), expected.data()) < kLogitTolerance);
}

TEST_CASE("a number of FP8 that is none reaches the logits") {
  const FloatKind kind = GENERATE(FloatKind::Fp8Row, FloatKind::Nvfp4Times, FloatKind::Nvfp4Over);
  CAPTURE(text(kind));
  const FloatFolder folder(kind, true);
  for (const bool exact : {true, false}) {
    const std::vector<float> logits = logits_of(folder.open().model, exact);
    CHECK(std::any_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); }));
  }
}

TEST_CASE("matrices that must have one format get the widest of integers, else a plain one") {
  CHECK(common_type(DType::Q4_0, DType::Q4_0, DType::BF16) == DType::Q4_0);
  CHECK(common_type(DType::Q8_0, DType::Q5_0, DType::BF16) == DType::Q8_0);
  CHECK(common_type(DType::FP8, DType::FP8, DType::BF16) == DType::FP8);
  CHECK(common_type(DType::FP8, DType::NVFP4, DType::F16) == DType::F16);
  CHECK(common_type(DType::Q4_0, DType::FP8, DType::BF16) == DType::BF16);
  CHECK(common_type(DType::F32, DType::FP8, DType::BF16) == DType::F32);
  CHECK(common_type(DType::Q4_0, DType::BF16, DType::F16) == DType::BF16);
}

TEST_CASE("experts of a layer become plain where one of them is not quantized") {
  TempFolder temp;
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  const auto add = [&](const std::string& name, const char* type, std::vector<int64_t> shape,
                       size_t bytes) {
    header[name] = {
        {"dtype", type}, {"shape", shape}, {"data_offsets", {data.size(), data.size() + bytes}}};
    data.append(bytes, '\x3c');  // 1.5 in E4M3
  };
  const auto add_fp8 = [&](const std::string& module) {
    add(module + ".weight", "F8_E4M3", {4, 128}, 512);
    add(module + ".weight_scale", "F32", {4, 1}, 16);
  };
  add_fp8("blk.0.ffn_up.0");
  add("blk.0.ffn_up.1.weight", "BF16", {4, 128}, 1024);
  add_fp8("blk.0.ffn_down.0");
  add_fp8("blk.0.ffn_down.1");
  const auto file = std::make_shared<SafetensorsFile>(
      temp.write("model.safetensors", safetensors(header.dump(), data)),
      part_names([](std::string_view name) { return std::string(name); }), RawTensors::Kept);
  const auto weights =
      quantized_weights(file, {.tool = QuantTool::Fp8, .name = "fp8", .plain = DType::BF16});
  const auto type = [&](const char* name) { return weights->find(name)->view.type; };
  CHECK(type("blk.0.ffn_up.0.weight") == DType::BF16);
  CHECK(type("blk.0.ffn_up.1.weight") == DType::BF16);
  CHECK(type("blk.0.ffn_down.0.weight") == DType::FP8);
  CHECK(type("blk.0.ffn_down.1.weight") == DType::FP8);
  float scale;
  std::memcpy(&scale, "\x3c\x3c\x3c\x3c", sizeof scale);
  const std::vector<float> plain = decoded(*weights->find("blk.0.ffn_up.0.weight"));
  const std::vector<float> blocks = decoded(*weights->find("blk.0.ffn_down.0.weight"));
  CHECK(blocks == std::vector<float>(512, 1.5F * scale));
  CHECK(plain == std::vector<float>(512, bf16_to_f32(f32_to_bf16(1.5F * scale))));
}

TEST_CASE("an adapter is merged into FP8 and NVFP4, and the sum has the type of plain matrices") {
  const FloatKind kind = GENERATE(FloatKind::Fp8Row, FloatKind::Nvfp4Times);
  CAPTURE(text(kind));
  const FloatFolder folder(kind);
  const OpenedModel opened = folder.open();
  const std::string name = "blk.0.ffn_down.weight";
  const Tensor& base = *opened.model.weights->find(name);
  const auto adapters = std::make_shared<Adapters>(1);
  AdapterMatrix matrix{name, 1, {}, {}, "adapter"};
  matrix.down.assign(static_cast<size_t>(base.view.cols), 0.5F);
  matrix.up.assign(static_cast<size_t>(base.view.rows), 0.25F);
  adapters->front().matrices.push_back(std::move(matrix));
  const Model model = merged_model(opened.model, adapters);
  const Tensor& merged = *model.weights->find(name);
  CHECK(skald::name(merged.view.type) == skald::name(DType::F32));
  std::vector<float> expected = decoded(base);
  for (float& weight : expected) weight += 0.125F;
  CHECK((decoded(merged) == expected));
}

TEST_CASE("FP8 and NVFP4 become other formats, and a GGUF, which has neither") {
  const FloatKind kind = GENERATE(FloatKind::Fp8Block, FloatKind::Nvfp4Over);
  CAPTURE(text(kind));
  const FloatFolder folder(kind);
  const OpenedModel opened = folder.open();
  const std::vector<float> expected = logits_of(folder.open_in_f32().model, true);
  const Model q8 = quantized_model(opened.model, find_quant_mix("q8_0"));
  CHECK(q8.weights->find("blk.0.attn_q.weight")->view.type == DType::Q8_0);
  const std::vector<float> zeros(expected.size());
  const double largest = largest_difference(expected, zeros.data());
  CHECK(largest_difference(logits_of(q8, true), expected.data()) < 0.05 * largest);
  TempFolder temp;
  const OpenedModel gguf = open_model(temp.write("m.gguf", gguf_bytes(opened, DType::F32)));
  CHECK(largest_difference(logits_of(gguf.model, true), expected.data()) < kLogitTolerance);
}

}  // namespace
}  // namespace skald::test
