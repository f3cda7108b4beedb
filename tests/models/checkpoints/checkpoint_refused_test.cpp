// Quantized checkpoints that skald does not understand, and damaged ones.
#include "tests/catch.h"
#include "tests/models/checkpoints/checkpoint_files.h"

namespace skald::test {
namespace {

using Json = nlohmann::json;

TEST_CASE("a quantization that is not understood is an error that names its key") {
  const struct {
    const char* name;
    Json changes;
    const char* says;
  } cases[] = {
      {"gptq4",
       {{"quantization_config/quant_method", "hqq"}},
       "'quant_method' is 'hqq', expected gptq, awq"},
      {"gptq4", {{"quantization_config/quant_method", "erase"}}, "'quant_method' is missing"},
      {"gptq4", {{"quantization_config/bits", 5}}, "'bits' is '5', expected 2, 3, 4 or 8"},
      {"gptq4", {{"quantization_config/bits", 8}}, "expected I32 ["},
      {"gptq4", {{"quantization_config/group_size", 16}}, "is I32 [1, 2], expected I32 [2, 2]"},
      {"gptq4",
       {{"quantization_config/checkpoint_format", "marlin"}},
       "'checkpoint_format' is 'marlin'"},
      {"gptq4",
       {{"quantization_config/dynamic", {{"+:.*down.*", {{"bits", 8}}}}}},
       "'+:.*down.*' changes the weights"},
      {"awq4", {{"quantization_config/version", "gemv"}}, "'version' is 'gemv'"},
      {"awq4", {{"quantization_config/bits", 3}}, "'bits' is '3', expected 4"},
      {"ct-int4", {{"quantization_config/format", "marlin-24"}}, "'format' is 'marlin-24'"},
      {"ct-int4", {{"quantization_config/transform_config", {{"a", 1}}}}, "'transform_config'"},
      {"ct-int4",
       {{"quantization_config/sparsity_config", {{"format", "sparse-24-bitmask"}}}},
       "'format' is 'sparse-24-bitmask', expected dense"},
      {"ct-int4",
       {{"quantization_config/config_groups/group_0/weights/num_bits", 8}},
       "expected rows of 32 integers with 'num_bits' bits"},
      {"ct-fp8-block",
       {{"quantization_config/config_groups/group_0/weights/block_structure", {128, 0}}},
       "'block_structure'"},
      {"ct-fp8-block",
       {{"quantization_config/config_groups/group_0/weights/block_structure", {16, 16}}},
       "block of 16 x 16"},
      {"fp8", {{"quantization_config/fmt", "e5m2"}}, "'fmt' is 'e5m2'"},
      {"fp8", {{"quantization_config/weight_block_size", {128}}}, "'weight_block_size'"},
      {"fp8",
       {{"quantization_config", "erase"}},
       "'model.layers.0.mlp.down_proj.weight' is F8_E4M3"},
  };
  for (const auto& one : cases) {
    TempFolder temp;
    const std::string error =
        error_text([&] { open_model(copy_checkpoint(temp, one.name, one.changes)); });
    CAPTURE(one.name, one.changes.dump(), error);
    CHECK(has(error, one.says));
    CHECK(error.find('\n') == std::string::npos);
  }
}

TEST_CASE("the file that a tool writes beside config.json is read where the latter says nothing") {
  for (const auto& [name, file] : {std::pair{"gptq4", "quantize_config.json"},
                                   {"awq4", "quant_config.json"},
                                   {"modelopt-fp8", "hf_quant_config.json"}}) {
    CAPTURE(name);
    TempFolder temp;
    const auto folder = copy_checkpoint(temp, name, {{"quantization_config", "erase"}});
    const Json config = read_json(checkpoints() / name / "config.json");
    Json own = config["quantization_config"];
    own.erase("quant_method");
    if (own.contains("version") && !own.contains("w_bit")) {  // as AutoAWQ wrote it
      own = {{"w_bit", 4}, {"q_group_size", 32}, {"zero_point", true}, {"version", "GEMM"}};
    }
    if (!std::filesystem::exists(folder / file)) temp.write(concat("m/", file), own.dump());
    const OpenedModel opened = open_model(folder);
    const OpenedModel expected = open_model(checkpoints() / name);
    CHECK(opened.quantized_by == expected.quantized_by);
    const char* matrix = "blk.0.ffn_down.weight";
    CHECK((decoded(*opened.model.weights->find(matrix)) ==
           decoded(*expected.model.weights->find(matrix))));
  }
}

TEST_CASE("settings that change no weight of the file are accepted") {
  TempFolder temp;
  const Json dynamic = {{"lm_head", Json::object()}, {"-:.*attn.*", {{"bits", 8}}}, {"-:x", true}};
  CHECK_NOTHROW(
      open_model(copy_checkpoint(temp, "gptq4", {{"quantization_config/dynamic", dynamic}})));
  CHECK_NOTHROW(
      open_model(copy_checkpoint(temp, "awq4", {{"quantization_config/zero_point", false}})));
  CHECK_NOTHROW(
      open_model(copy_checkpoint(temp, "fp8", {{"quantization_config/fmt", "float8_e4m3fn"}})));
  const Json config = read_json(checkpoints() / "ct-int8" / "config.json");
  CHECK_NOTHROW(open_model(copy_checkpoint(
      temp, "ct-int8",
      {{"quantization_config", "erase"}, {"compression_config", config["quantization_config"]}})));
}

// What may be missing: parts without which the matrix is the same.
bool may_miss(const std::string& checkpoint, const std::string& tensor) {
  const bool ordered = checkpoint.ends_with("-act") && tensor.find("down_proj") != tensor.npos;
  return (tensor.ends_with("g_idx") && !ordered) || tensor.ends_with("input_scale") ||
         tensor.ends_with("input_global_scale") || tensor.ends_with("weight_format");
}

TEST_CASE("a missing part of a quantized matrix is an error") {
  for (const std::string& name : checkpoint_names()) {
    TempFolder temp;
    const TensorFile whole(checkpoints() / name / "model.safetensors");
    for (const auto& [tensor, entry] : whole.tensors) {
      // Zero points make the difference between two kinds of integers.
      if (may_miss(name, tensor) || tensor.ends_with("weight_zero_point")) continue;
      CAPTURE(name, tensor);
      const auto folder = copy_checkpoint(temp, name, Json::object());
      TensorFile file = whole;
      file.tensors.erase(tensor);
      file.write(folder / "model.safetensors");
      const std::string error = error_text([&] { open_model(folder); });
      CAPTURE(error);
      CHECK((has(error, "beside it") || has(error, "is missing") || has(error, ", expected ") ||
             has(error, "belongs to no quantized matrix")));
    }
  }
}

// Reads every weight, as a backend does.
void read_all(const std::filesystem::path& folder) {
  const OpenedModel opened = open_model(folder);
  for (const Tensor& tensor : opened.model.weights->tensors()) decoded(tensor);
}

TEST_CASE("parts of wrong shapes and types are refused or read, and never beyond their bytes") {
  for (const std::string& name : checkpoint_names()) {
    TempFolder temp;
    const TensorFile whole(checkpoints() / name / "model.safetensors");
    for (const auto& [tensor, entry] : whole.tensors) {
      if (!tensor.starts_with("model.layers.0.mlp.down_proj")) continue;
      std::vector<TensorFile::Entry> others;
      others.push_back({"U8", {std::ssize(entry.bytes)}, entry.bytes});
      others.push_back({"F32", {1}, std::string(4, '\xff')});
      others.push_back({entry.type, entry.shape, std::string(entry.bytes.size(), '\xff')});
      others.push_back({entry.type, entry.shape, std::string(entry.bytes.size(), '\x7f')});
      if (entry.shape.size() == 2) {
        const std::vector<int64_t> turned = {entry.shape[1], entry.shape[0]};
        others.push_back({entry.type, turned, entry.bytes});
        others.push_back({entry.type, {1, entry.shape[0] * entry.shape[1]}, entry.bytes});
      }
      for (const TensorFile::Entry& other : others) {
        CAPTURE(name, tensor, other.type, other.shape);
        const auto folder = copy_checkpoint(temp, name, Json::object());
        TensorFile file = whole;
        file.tensors[tensor] = other;
        file.write(folder / "model.safetensors");
        try {
          read_all(folder);
        } catch (const Error& error) {
          CHECK(error.code() == Exit::Model);
        }
      }
    }
  }
}

// Opens a checkpoint after one of its tensors was changed.
std::string error_of(const std::string& name, const std::string& tensor,
                     const TensorFile::Entry& entry) {
  TempFolder temp;
  const auto folder = copy_checkpoint(temp, name, Json::object());
  TensorFile file(folder / "model.safetensors");
  file.tensors[tensor] = entry;
  file.write(folder / "model.safetensors");
  return error_text([&] { open_model(folder); });
}

std::string words(const std::vector<int32_t>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * 4};
}

TEST_CASE("parts that would change the weights in another way are errors") {
  const std::string layer = "model.layers.0.", down = layer + "mlp.down_proj.";
  const TensorFile::Entry one = {"F32", {1}, std::string(4, '\1')};
  CHECK(has(error_of("awq4", down + "pre_quant_scale", one), "belongs to no quantized matrix"));
  CHECK(has(error_of("awq4", layer + "mlp.act.scales", one), "scales an activation"));
  CHECK(has(error_of("ct-fp8", down + "weight_zero_point", one), "expected zeros beside FP8"));
  CHECK(
      has(error_of("bnb-int8", down + "weight_format", {"U8", {}, "\2"}), "expected the value 0"));
  const std::string state = R"({"a":"b","blocksize":64,"c":{"d":1}})";
  CHECK(has(error_of("bnb-nf4", down + "weight.quant_state.bitsandbytes__nf4",
                     {"U8", {std::ssize(state)}, state}),
            "'shape' is missing"));
  // 96 columns: one group has too many.
  std::vector<int32_t> order(96, 0);
  order[95] = 1;
  CHECK(has(error_of("gptq4-act", down + "g_idx", {"I32", {96}, words(order)}),
            "groups of 32 columns, but group 0 has 95"));
  order[95] = 3;
  CHECK(has(error_of("gptq4-act", down + "g_idx", {"I32", {96}, words(order)}),
            "groups from 0 to 2, but a column has 3"));
  const TensorFile::Entry stack = {"F8_E4M3", {1, 16, 64}, std::string(1024, '\0')};
  CHECK(has(error_of("ct-fp8", down + "weight", stack), "stacks of quantized experts"));
}

TEST_CASE("columns that are all in group 0 are in order, as other tools read them") {
  TempFolder temp;
  const auto folder = copy_checkpoint(temp, "gptq4", Json::object());
  TensorFile file(folder / "model.safetensors");
  file.tensors["model.layers.0.mlp.down_proj.g_idx"].bytes = std::string(64 * 4, '\0');
  file.write(folder / "model.safetensors");
  const OpenedModel changed = open_model(folder), whole = open_model(checkpoints() / "gptq4");
  const char* name = "blk.0.ffn_down.weight";
  CHECK((decoded(*changed.model.weights->find(name)) == decoded(*whole.model.weights->find(name))));
}

// A Mixtral of two experts, whose matrices are those of ct-int4's feed-forward.
TEST_CASE("the experts of a layer have one format, the widest that one of them needs") {
  TempFolder temp;
  const auto folder = copy_checkpoint(
      temp, "ct-int4",
      {{"model_type", "mixtral"}, {"num_local_experts", 2}, {"num_experts_per_tok", 1}});
  TensorFile file(folder / "model.safetensors");
  const std::string mlp = "model.layers.0.mlp.", moe = "model.layers.0.block_sparse_moe.";
  for (const auto& [own, of_expert] :
       {std::pair{"gate_proj.", "w1."}, {"up_proj.", "w3."}, {"down_proj.", "w2."}}) {
    for (const char* kind : {"weight_packed", "weight_scale", "weight_shape"}) {
      const TensorFile::Entry entry = file.tensors.at(mlp + own + kind);
      file.tensors.erase(mlp + own + kind);
      for (const char* expert : {"experts.0.", "experts.1."}) {
        file.tensors[moe + expert + of_expert + kind] = entry;
      }
    }
  }
  file.tensors[moe + "gate.weight"] = {"BF16", {2, 32}, std::string(128, '\0')};
  const auto types = [&](const char* matrix) {
    file.write(folder / "model.safetensors");
    const OpenedModel opened = open_model(folder);
    std::vector<std::string_view> found;
    for (const char* expert : {".0.weight", ".1.weight"}) {
      const Tensor* tensor = opened.model.weights->find(concat("blk.0.", matrix, expert));
      REQUIRE(tensor);
      found.push_back(skald::name(tensor->view.type));
    }
    return found;
  };
  using Types = std::vector<std::string_view>;
  CHECK(types("ffn_gate") == Types{"Q4_0", "Q4_0"});
  // A scale of expert 1 that is no number of f16: 2^-30.
  std::string& scales = file.tensors.at(moe + "experts.1.w1.weight_scale").bytes;
  scales[0] = '\x80';
  scales[1] = '\x30';
  CHECK(types("ffn_gate") == Types{"BF16", "BF16"});
  CHECK(types("ffn_up") == Types{"Q4_0", "Q4_0"});
}

}  // namespace
}  // namespace skald::test
