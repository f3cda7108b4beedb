// A Hugging Face folder exported as a GGUF and read back computes the same.
#include <cmath>
#include <cstring>
#include <fstream>

#include "engine/cpu/executor.h"
#include "models/convert/gguf_export.h"
#include "models/convert/quantized.h"
#include "models/files/gguf.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/exported_gguf.h"
#include "tests/family_golden.h"
#include "tests/golden.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

std::vector<float> logits_of(const Model& model, std::vector<int32_t> ids, bool exact) {
  for (int32_t& id : ids) id %= static_cast<int32_t>(model.config.vocab);
  const auto executor = cpu::make_executor(made_model(model, {}), {.exact = exact, .context = 512});
  return all_logits(*executor, ids);
}

double relative_distance(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double distance = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    distance += std::pow(double{a[i]} - b[i], 2);
    size += double{a[i]} * a[i];
  }
  return std::sqrt(distance / size);
}

const std::vector<int32_t> kIds = {1, 45, 101, 7, 300, 2, 99, 511, 17, 250, 33, 8, 400, 64, 5, 123};

void check_same_model(const std::filesystem::path& folder) {
  const OpenedModel opened = open_model(folder);
  TempFolder temp;
  const OpenedModel back = open_model(temp.write("m.gguf", gguf_bytes(opened, DType::F32)));
  // The results differ by rounding alone: other layouts of heads sum in another order.
  CHECK(relative_distance(logits_of(opened.model, kIds, true), logits_of(back.model, kIds, true)) <
        1e-5);
}

}  // namespace

TEST_CASE("a folder's GGUF in f32 computes the logits of the folder") {
  const std::string name = GENERATE(
      "llama-mha", "llama3-gqa-tied-ropescale", "openllama-headdim100", "llama-bias-linear-rope",
      "llama-config-v5", "mistral-swa-headdim64", "qwen2-bias-tied", "kq256", "qwen3-qknorm",
      "phi3-fused", "mixtral-moe", "cohere2", "granite4", "granite4-hybrid", "nemotron_h",
      "nemotron_h-moe", "qwen3_vl", "seed_oss", "ernie4_5", "glm4", "exaone4", "olmoe",
      "ministral3", "hunyuan_v1_dense", "starcoder2", "qwen2_moe", "gpt_oss", "gpt_oss-bf16",
      "minimax_m2", "glm4_moe", "qwen3_5", "qwen3_5_moe", "qwen3_next", "gemma4-dense",
      "gemma4-moe", "gemma4-ple", "lfm2", "muse_glimmer", "deepseek_v3", "mistral4");
  const std::filesystem::path folder = find_golden(name);
  if (folder.empty()) return;
  CAPTURE(name);
  check_same_model(folder);
}

TEST_CASE(
    "a folder's GGUF computes the logits of the folder, for more families and rope scalings") {
  const std::string name =
      GENERATE("nemo", "yarn", "granite", "smollm3", "longrope", "qwen3", "olmo2", "olmo3", "gemma",
               "gemma2", "gemma3", "mixtral", "qwen3moe", "nanbeige");
  CAPTURE(name);
  TempFolder temp;
  check_same_model(write_folder(temp, name));
}

// GGUF has no key for the scale of scores: readers derive it from the head's dimension, and this
// golden has another scale.
TEST_CASE("a Gemma 2 exports when its scale is the one that readers derive") {
  const std::filesystem::path golden = find_golden("gemma2-softcap");
  if (golden.empty()) return;
  TempFolder temp;
  nlohmann::json config = read_json(golden / "config.json");
  temp.write("model.safetensors", read_file(golden / "model.safetensors"));
  temp.write("config.json", config.dump());
  CHECK(has(error_text([&] { gguf_bytes(open_model(temp.path()), DType::F16); }),
            "cannot say this model's scales"));
  config["query_pre_attn_scalar"] = config["head_dim"];
  temp.write("config.json", config.dump());
  check_same_model(temp.path());
}

TEST_CASE("a model with a property that GGUF cannot express is refused") {
  TempFolder temp;
  const auto refusal = [&](const char* name) {
    const OpenedModel opened = open_model(write_folder(temp, name));
    return error_text([&] { gguf_bytes(opened, DType::F16); });
  };
  CHECK(has(refusal("ministral"), "cannot say this model's windows"));
  CHECK(has(refusal("qwen3moe-dense"), "cannot say this model's layers without experts"));
  CHECK(has(refusal("dynamic"), "of the architecture 'llama' cannot say this model's"));
}

TEST_CASE("a model quantized while loading equals the same model quantized into a file") {
  const std::string name =
      GENERATE("llama-mha", "qwen2-bias-tied", "kq256", "starcoder2", "qwen2_moe", "gemma4-moe");
  const std::filesystem::path folder = find_golden(name);
  if (folder.empty()) return;
  const OpenedModel opened = open_model(folder);
  const OpenedModel gguf = [&] {
    static TempFolder temp;
    return open_model(temp.write(name + ".gguf", gguf_bytes(opened, DType::F32, 64)));
  }();
  const auto exact = logits_of(opened.model, kIds, true);
  for (const char* type : {"q8_0", "q5_0", "q4_0", "q4_k_m", "q6_k"}) {
    CAPTURE(name, type);
    const QuantMix& mix = find_quant_mix(type);
    const Model a = made_model(quantized_model(opened.model, mix), {.threads = 2});
    const Model b = made_model(quantized_model(gguf.model, mix), {.threads = 1});
    const auto made = logits_of(a, kIds, true);
    CHECK(relative_distance(made, logits_of(b, kIds, true)) < 1e-5);
    const double lost = relative_distance(exact, made);
    CHECK(lost > 1e-4);
    // With other activations a router may choose other experts.
    const double more = opened.model.config.experts.count > 0 ? 2 : 1;
    CHECK(lost < more * (mix.most == DType::Q8_0 ? 0.05 : 0.35));
    CHECK(a.weights->bytes() == quantized_model(opened.model, mix).weights->bytes());
    CHECK_FALSE(a.weights->mapped());
  }
}

TEST_CASE("loading does not quantize weights that are quantized already") {
  const OpenedModel opened = open_model(data_dir() / "gguf" / "kq256.q8_0.gguf");
  CHECK(has(error_text([&] { quantized_model(opened.model, find_quant_mix("q4_0")); }, Exit::Usage),
            "is Q8_0 already"));
  // The same format, which changes nothing.
  made_model(quantized_model(opened.model, find_quant_mix("q8_0")), {});
}

TEST_CASE("a GGUF's metadata and tensors are exported unchanged") {
  const OpenedModel opened = open_model(data_dir() / "gguf" / "kq256.q4_k_m.gguf");
  const GgufExport out = export_gguf(opened);
  size_t kept = 0;
  for (const GgufValue& value : opened.gguf->metadata().values()) {
    const bool again = value.key == "general.file_type" ||
                       value.key == "general.quantization_version" ||
                       value.key == "general.alignment";
    kept += out.head.has(value.key);
    CHECK(out.head.has(value.key) == !again);
  }
  CHECK(kept > 5);
  REQUIRE(out.tensors.size() == opened.gguf->tensors().size());
  for (const MadeTensor& tensor : out.tensors) CHECK(tensor.copied());
}

TEST_CASE("a GGUF head read back has the values put into it") {
  GgufHead head;
  head.put_text("general.architecture", "llama");
  head.put_u32("a.number", 4294967295);
  head.put_f32("a.float", 0.1);
  head.put_bool("a.bool", true);
  const std::vector<std::string> texts = {"", "b", std::string("\0\xff", 2)};
  head.put_texts("texts", texts);
  const std::vector<float> floats = {1.5f, -2};
  head.put_floats("floats", floats);
  const std::vector<int32_t> ints = {-1, 7};
  head.put_ints("ints", ints);
  const std::vector<int64_t> shape = {3, 64};
  head.add_tensor("x.weight", shape, DType::Q8_0);
  const std::vector<int64_t> one = {5};
  head.add_tensor("y.weight", one, DType::F32);
  std::string bytes = head.text();
  CHECK(bytes.size() % 32 == 0);
  bytes.resize(static_cast<size_t>(head.file_bytes()));
  TempFolder temp;
  const auto file = open_gguf(temp.write("m.gguf", bytes));
  const GgufMetadata& m = file->metadata();
  CHECK(m.text("general.architecture") == "llama");
  CHECK(m.uint("a.number") == 4294967295);
  CHECK(m.number("a.float") == 0.1f);
  CHECK(m.boolean_or("a.bool", false));
  const auto read = m.strings("texts");
  CHECK(std::vector<std::string>(read.begin(), read.end()) == texts);
  CHECK(m.floats("floats") == floats);
  CHECK(m.ints("ints") == std::vector<int64_t>{-1, 7});
  REQUIRE(file->tensors().size() == 2);
  CHECK(file->tensors()[0].shape == shape);
  CHECK(file->tensors()[0].view.type == DType::Q8_0);
  const auto places = head.places();
  CHECK(places[0].bytes == 3 * 68);
  CHECK(places[1].offset == places[0].offset + 224);
}

TEST_CASE("a tensor does not depend on the number of threads and the size of slices") {
  std::vector<float> weights(77 * 96);
  for (size_t i = 0; i < weights.size(); ++i)
    weights[i] = std::sin(static_cast<float>(i * i % 977));
  MadeTensor tensor;
  tensor.shape = {77, 96};
  tensor.source = {reinterpret_cast<const std::byte*>(weights.data()), DType::F32, 77, 96, 384};
  for (DType type : {DType::F32, DType::BF16, DType::Q5_1}) {
    tensor.type = type;
    const auto bytes = static_cast<size_t>(tensor.bytes());
    std::vector<std::byte> whole(bytes), parts(bytes);
    TensorMaker(1).make(tensor, 0, 77, whole.data());
    TensorMaker three(3);
    for (int64_t row = 0; row < 77; row += 10) {
      three.make(tensor, row, std::min<int64_t>(10, 77 - row),
                 parts.data() + row * row_bytes(type, 96));
    }
    CHECK(whole == parts);

    MadeTensor stack = tensor;  // the same rows as a stack of seven parts in reverse order
    stack.shape = {7, 11, 96};
    for (int64_t i = 6; i >= 0; --i) {
      stack.stack.push_back({tensor.source.row(i * 11), DType::F32, 11, 96, 384});
    }
    stack.source = stack.stack.front();
    REQUIRE(stack.bytes() == tensor.bytes());
    const int64_t row = row_bytes(type, 96);
    for (int64_t r = 0; r < 77; r += 10) {
      three.make(stack, r, std::min<int64_t>(10, 77 - r), parts.data() + r * row);
    }
    for (int64_t i = 0; i < 7; ++i) {
      const auto from = whole.begin() + (6 - i) * 11 * row;
      CHECK(std::equal(from, from + 11 * row, parts.begin() + i * 11 * row));
    }
  }
}

TEST_CASE(
    "heads are permuted from halves to pairs, in the rows of weights and the elements of biases") {
  std::vector<float> rows(12);
  for (size_t i = 0; i < 12; ++i) rows[i] = static_cast<float>(i);
  const std::vector<float> expected = {0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11};  // two heads of six
  MadeTensor weight;
  weight.name = "blk.0.attn_q.weight";
  weight.shape = {12, 1};
  weight.source = {reinterpret_cast<const std::byte*>(rows.data()), DType::F32, 12, 1, 4};
  MadeTensor bias = weight;
  bias.name = "blk.0.attn_k.bias";
  bias.shape = {12};
  bias.source = {reinterpret_cast<const std::byte*>(rows.data()), DType::F32, 1, 12, 48};
  GgufExport both;
  both.tensors = {weight, bias};
  ModelConfig config;
  config.heads = config.kv_heads = 2;
  interleave_heads(config, both);
  for (const MadeTensor& tensor : both.tensors) {
    std::vector<float> out(12);
    TensorMaker(2).make(tensor, 0, tensor.rows(), reinterpret_cast<std::byte*>(out.data()));
    CHECK(out == expected);
  }
}

TEST_CASE("rows and columns of a tensor can have another order than the source's") {
  const std::vector<float> source = {0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32};
  MadeTensor tensor;
  tensor.shape = {2, 3};
  tensor.source = {reinterpret_cast<const std::byte*>(source.data()), DType::F32, 4, 3, 12};
  tensor.row_order = {3, 1};  // a part of the rows
  tensor.col_order = {2, 0, 1};
  CHECK(tensor.rows() == 2);
  for (const float added : {0.0f, 1.0f}) {
    tensor.added = added;
    std::vector<float> out(6);
    TensorMaker(1).make(tensor, 0, 1, reinterpret_cast<std::byte*>(out.data()));
    TensorMaker(2).make(tensor, 1, 1, reinterpret_cast<std::byte*>(out.data() + 3));
    for (float& x : out) x -= added;
    CHECK(out == std::vector<float>{32, 30, 31, 12, 10, 11});
  }
}

TEST_CASE("a weight that the format cannot hold is an error that names tensor and row") {
  std::vector<float> weights(64 * 5, 0.5f);
  weights[3 * 64 + 9] = 70000;
  MadeTensor tensor;
  tensor.name = "blk.0.ffn_up.weight";
  tensor.file = "model.safetensors";
  tensor.shape = {5, 64};
  tensor.source = {reinterpret_cast<const std::byte*>(weights.data()), DType::F32, 5, 64, 256};
  std::vector<std::byte> out(5 * 256);
  TensorMaker maker(2);
  for (DType type : {DType::F16, DType::Q8_0, DType::Q4_0}) {
    tensor.type = type;
    const std::string text = error_text([&] { maker.make(tensor, 0, 5, out.data()); });
    CHECK(has(text, "model.safetensors: tensor 'blk.0.ffn_up.weight' holds 70000 in row 3"));
  }
  tensor.type = DType::BF16;
  maker.make(tensor, 0, 5, out.data());
  weights[70] = NAN;
  CHECK(has(error_text([&] { maker.make(tensor, 0, 5, out.data()); }), "nan in row 1"));
}

}  // namespace skald::test
