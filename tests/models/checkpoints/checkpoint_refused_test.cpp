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
      {"gptq4", {{"quantization_config/dynamic", {{"-:lm", {}}}}}, "'dynamic'"},
      {"awq4", {{"quantization_config/version", "gemv"}}, "'version' is 'gemv'"},
      {"awq4", {{"quantization_config/bits", 3}}, "'bits' is '3', expected 4"},
      {"awq4", {{"quantization_config/zero_point", false}}, "'zero_point'"},
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
       "of blocks of 16 x 16"},
      {"fp8", {{"quantization_config/fmt", "e5m2"}}, "'fmt' is 'e5m2'"},
      {"fp8", {{"quantization_config/weight_block_size", {128}}}, "'weight_block_size'"},
      {"fp8",
       {{"quantization_config", "erase"}},
       "'model.layers.0.mlp.down_proj.weight' is F8_E4M3"},
  };
  for (const auto& [name, changes, says] : cases) {
    TempFolder temp;
    const std::string error = error_text([&] { open_model(copy_checkpoint(temp, name, changes)); });
    CAPTURE(name, changes.dump(), error);
    CHECK(has(error, says));
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

// What may be missing: parts without which the matrix is the same.
bool may_miss(const std::string& tensor) {
  return tensor.ends_with("g_idx") || tensor.ends_with("input_scale") ||
         tensor.ends_with("input_global_scale") || tensor.ends_with("weight_format");
}

TEST_CASE("a missing part of a quantized matrix is an error") {
  for (const std::string& name : checkpoint_names()) {
    TempFolder temp;
    const TensorFile whole(checkpoints() / name / "model.safetensors");
    for (const auto& [tensor, entry] : whole.tensors) {
      // Zero points make the difference between two kinds of integers.
      if (may_miss(tensor) || tensor.ends_with("weight_zero_point")) continue;
      CAPTURE(name, tensor);
      const auto folder = copy_checkpoint(temp, name, Json::object());
      TensorFile file = whole;
      file.tensors.erase(tensor);
      file.write(folder / "model.safetensors");
      CHECK(!error_text([&] { open_model(folder); }).empty());
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

TEST_CASE("a part that no matrix of the method has is an error") {
  TempFolder temp;
  const auto folder = copy_checkpoint(temp, "awq4", Json::object());
  TensorFile file(folder / "model.safetensors");
  file.tensors["model.layers.0.mlp.down_proj.pre_quant_scale"] = {"F32", {1}, std::string(4, '\0')};
  file.write(folder / "model.safetensors");
  CHECK(has(error_text([&] { open_model(folder); }),
            "pre_quant_scale' belongs to no quantized matrix"));
}

}  // namespace
}  // namespace skald::test
