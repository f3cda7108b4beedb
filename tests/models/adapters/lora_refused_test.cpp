// Adapters that skald does not compute, adapters of other models, and damaged ones: one line each,
// with the exit code of a damaged model.
#include <limits>

#include "models/adapters/lora_file.h"
#include "tests/catch.h"
#include "tests/models/adapters/adapter_files.h"

namespace skald::test {
namespace {

using Json = nlohmann::json;

std::string refusal_of(const fs::path& adapter, const std::string& base = "nemo") {
  TempFolder temp;
  const OpenedModel opened = open_model(write_folder(temp, base));
  return error_text([&] { with_adapter(opened, {{adapter}}).model.program(); });
}

std::string refused_key(const std::string& key, const Json& value) {
  TempFolder temp;
  const std::string text = refusal_of(write_adapter(temp, "all", {{key, value}}));
  return text.find(concat("'", key, "'")) == std::string::npos ? concat("no key in: ", text) : text;
}

TEST_CASE("a configuration of PEFT that skald does not compute is refused by its key") {
  const auto [key, value] = GENERATE(table<std::string, Json>({
      {"peft_type", "LOHA"},
      {"use_dora", true},
      {"bias", "all"},
      {"lora_bias", true},
      {"modules_to_save", Json::array({"lm_head"})},
      {"fan_in_fan_out", true},
      {"init_lora_weights", "pissa"},
      {"layer_replication", Json::array({Json::array({0, 2})})},
      {"alora_invocation_tokens", Json::array({1})},
      {"trainable_token_indices", Json::array({1})},
      {"target_parameters", Json::array({"mlp.experts.gate_up_proj"})},
      {"use_qalora", true},
      {"a_key_of_next_year", 1},
      {"r", 0},
      {"r", "8"},
      {"lora_alpha", "erase"},
      {"use_rslora", "yes"},
      {"rank_pattern", Json::array({1})},
  }));
  CAPTURE(key, value.dump());
  const std::string text = refused_key(key, value);
  CHECK(has(text, "adapter_config.json"));
  CHECK(text.find("no key in") == std::string::npos);
}

TEST_CASE("patterns of PEFT that may mean something else are refused") {
  TempFolder temp;
  CHECK(has(refusal_of(write_adapter(temp, "all", {{"alpha_pattern", {{".*q_proj", 2}}}})),
            "is a regular expression"));
  CHECK(has(refusal_of(write_adapter(temp, "all", {{"rank_pattern", {{"down_proj", 2.5}}}})),
            "expected a whole number"));
  CHECK(has(refusal_of(write_adapter(
                temp, "all", {{"alpha_pattern", {{"q_proj", 2}, {"self_attn.q_proj", 3}}}})),
            "give different values"));
  // A pattern is a whole name or its end after a point, so this one matches nothing.
  CHECK(refusal_of(write_adapter(temp, "all", {{"alpha_pattern", {{"_proj", 2}}}})).empty());
  CHECK(has(refusal_of(write_adapter(temp, "all", {{"rank_pattern", Json::object()}})),
            "have rank 3, but adapter_config.json says 2"));
}

TEST_CASE("NaN as a number of the configuration is not JSON") {
  TempFolder temp;
  const fs::path folder = write_adapter(temp, "all");
  std::string config = read_file(folder / "adapter_config.json");
  config.replace(config.find("\"lora_alpha\":6"), 14, "\"lora_alpha\":NaN");
  temp.write("adapter/adapter_config.json", config);
  CHECK(has(refusal_of(folder), "is not valid JSON"));
}

// A safetensors file with tensors of float32 zeros.
std::string zeros(const std::vector<std::pair<std::string, std::vector<int64_t>>>& tensors) {
  Json header = Json::object();
  int64_t at = 0;
  for (const auto& [name, shape] : tensors) {
    int64_t bytes = 4;
    for (const int64_t size : shape) bytes *= size;
    header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  return safetensors(header.dump(), std::string(static_cast<size_t>(at), '\0'));
}

const std::string kModule = "base_model.model.model.layers.0.self_attn.q_proj";

std::string refused_tensors(
    const std::vector<std::pair<std::string, std::vector<int64_t>>>& tensors) {
  TempFolder temp;
  const fs::path folder = write_adapter(temp, "all", {{"rank_pattern", Json::object()}});
  temp.write("adapter/adapter_model.safetensors", zeros(tensors));
  return refusal_of(folder);
}

TEST_CASE("tensors of an adapter that do not fit the model are refused") {
  const std::string a = kModule + ".lora_A.weight", b = kModule + ".lora_B.weight";
  CHECK(refused_tensors({{a, {2, 24}}, {b, {32, 2}}}).empty());
  CHECK(has(refused_tensors({{a, {2, 24}}}), "has a factor A but no factor B"));
  CHECK(has(refused_tensors({{b, {32, 2}}}), "has a factor B but no factor A"));
  CHECK(has(refused_tensors({{a, {3, 24}}, {b, {32, 2}}}), "expected [rank, columns]"));
  CHECK(has(refused_tensors({{a, {2, 24, 1}}, {b, {32, 2}}}), "expected [rank, columns]"));
  CHECK(has(refused_tensors({{a, {3, 24}}, {b, {32, 3}}}), "have rank 3"));
  CHECK(has(refused_tensors({{a, {2, 32}}, {b, {32, 2}}}), "it is an adapter of another model"));
  CHECK(has(refused_tensors({{a, {2, 24}}, {b, {48, 2}}}), "it is an adapter of another model"));
  CHECK(has(refused_tensors({}), "has no LoRA factors"));
  const auto pair = [](const std::string& module, int64_t rows) {
    return refused_tensors({{"base_model.model." + module + ".lora_A.weight", {2, 24}},
                            {"base_model.model." + module + ".lora_B.weight", {rows, 2}}});
  };
  CHECK(has(pair("model.layers.9.self_attn.q_proj", 32), "it is an adapter of another model"));
  CHECK(has(pair("model.layers.0.self_attn.x_proj", 32), "does not have as a matrix of its own"));
  CHECK(has(pair("lm_head", 48), "adapters of the embedding and the head are not supported"));
  CHECK(has(refused_tensors({{kModule + ".lora_magnitude_vector", {32}}}), "is no factor"));
  CHECK(has(refused_tensors({{"base_model.model.model.embed_tokens.lora_embedding_A", {2, 48}}}),
            "is no factor"));
  CHECK(has(refused_tensors({{"base_model.model.lm_head.weight", {48, 24}}}), "is no factor"));
}

TEST_CASE("numbers of an adapter that are not finite are refused") {
  TempFolder temp;
  const fs::path folder = write_adapter(temp, "all");
  std::string file = read_file(folder / "adapter_model.safetensors");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(file.data() + file.size() - sizeof nan, &nan, sizeof nan);
  temp.write("adapter/adapter_model.safetensors", file);
  CHECK(has(refusal_of(folder), "has a number that is not finite"));
}

TEST_CASE("a truncated adapter, a missing one and a pickled one are refused") {
  TempFolder temp;
  const fs::path folder = write_adapter(temp, "all");
  const std::string file = read_file(folder / "adapter_model.safetensors");
  for (const size_t size : {size_t{0}, size_t{7}, size_t{100}, file.size() - 1}) {
    temp.write("adapter/adapter_model.safetensors", file.substr(0, size));
    CHECK(!refusal_of(folder).empty());
  }
  fs::remove(folder / "adapter_model.safetensors");
  CHECK(has(refusal_of(folder), "has no adapter_model.safetensors"));
  temp.write("adapter/adapter_model.bin", "x");
  CHECK(has(refusal_of(folder), "only adapter_model.bin"));
  fs::remove(folder / "adapter_config.json");
  CHECK(has(refusal_of(folder), "has no adapter_config.json"));
  CHECK(has(refusal_of(temp.path() / "nothing"), "there is no such adapter"));
}

TEST_CASE("GGUF adapters that skald does not compute, and damaged ones, are refused") {
  TempFolder temp;
  const OpenedModel opened = open_model(write_folder(temp, "nemo"));
  const Adapter adapter = load_adapter(opened, "", std::vector<LoraUse>{{lora("rslora")}});
  const auto refused = [&](const std::function<void(GgufWriter&)>& change,
                           const std::string& architecture = "llama") {
    GgufWriter writer = gguf_adapter(adapter, architecture);
    change(writer);
    return refusal_of(temp.write("adapter.gguf", writer.file()));
  };
  CHECK(refused([](GgufWriter&) {}).empty());
  CHECK(has(refused([](GgufWriter&) {}, "qwen3"), "is an adapter of architecture 'qwen3'"));
  CHECK(has(refused([](GgufWriter& w) { w.tensors.pop_back(); }), "no factor B"));
  CHECK(has(refused([](GgufWriter& w) { w.entries.erase(w.entries.begin()); }), "'general.type'"));
  CHECK(has(refused([](GgufWriter& w) { w.entries.erase(w.entries.begin() + 2); }),
            "'adapter.type'"));
  CHECK(has(refused([](GgufWriter& w) { w.entries.pop_back(); }), "'adapter.lora.alpha'"));
  CHECK(has(refused([](GgufWriter& w) {
              w.entries.pop_back();
              w.f32("adapter.lora.alpha", std::numeric_limits<float>::quiet_NaN());
            }),
            "'adapter.lora.alpha'"));
  CHECK(
      has(refused([](GgufWriter& w) { w.array("adapter.alora.invocation_tokens", 4, 1, raw(1)); }),
          "'adapter.alora.invocation_tokens'"));
  CHECK(has(refused([](GgufWriter& w) { w.tensors[0].name = "blk.0.attn_q.weight"; }),
            "is no factor"));
  const std::string whole = gguf_adapter(adapter, "llama").file();
  for (size_t size = 0; size < whole.size(); size += 211) {
    CHECK(!refusal_of(temp.write("adapter.gguf", whole.substr(0, size))).empty());
  }
  CHECK(has(error_text([&] { open_model(temp.write("a.gguf", whole)); }), "is an adapter"));
}

TEST_CASE("an adapter of experts, which no plain product multiplies, is refused") {
  TempFolder temp;
  const OpenedModel opened = open_model(write_folder(temp, "mixtral"));
  const auto refused = [&](const std::string& tensor) {
    const auto adapters = std::make_shared<Adapters>(1);
    AdapterMatrix matrix{tensor, 1, {}, {}, "adapter"};
    const Tensor* base = opened.model.weights->find(tensor);
    matrix.down.resize(static_cast<size_t>(base ? base->view.cols : 1));
    matrix.up.resize(static_cast<size_t>(base ? base->view.rows : 1));
    adapters->front().matrices.push_back(std::move(matrix));
    Model model = opened.model;
    model.adapters = adapters;
    return error_text([&] { model.program(); });
  };
  CHECK(refused("blk.0.attn_q.weight").empty());
  CHECK(has(refused("blk.0.ffn_gate_inp.weight"), "experts, routers"));
  CHECK(has(refused("token_embd.weight"), "embeddings, the head"));
  CHECK(has(refused("blk.0.nothing.weight"), "which this model does not have"));
  const auto& tensors = opened.model.weights->tensors();
  const auto expert = std::find_if(tensors.begin(), tensors.end(), [](const Tensor& tensor) {
    return has(tensor.name, "ffn_down");
  });
  REQUIRE(expert != tensors.end());
  CHECK(has(refused(expert->name), "experts, routers"));
}

TEST_CASE("a quantized matrix is not merged") {
  TempFolder temp;
  const OpenedModel opened = open_model(data_dir() / "gguf" / "kq256.q8_0.gguf");
  const auto adapters = std::make_shared<Adapters>(1);
  const Tensor* base = opened.model.weights->find("blk.0.attn_q.weight");
  AdapterMatrix matrix{base->name, 1, {}, {}, "adapter"};
  matrix.down.resize(static_cast<size_t>(base->view.cols));
  matrix.up.resize(static_cast<size_t>(base->view.rows));
  adapters->front().matrices.push_back(std::move(matrix));
  CHECK(has(error_text([&] { merged_model(opened.model, adapters); }, Exit::Usage),
            "weights that are floats"));
}

}  // namespace
}  // namespace skald::test
