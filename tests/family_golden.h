// The tiny models in tests/data/families, written by scripts/make_goldens.py. Each can be opened as
// a Hugging Face folder whose config.json a test changes, or as a GGUF. The expected logits are
// those of transformers.
#pragma once

#include <cstring>
#include <string>

#include "engine/cpu/executor.h"
#include "models/files/gguf.h"
#include "models/open.h"
#include "tests/error_text.h"
#include "tests/golden.h"
#include "tests/golden_check.h"
#include "tests/safetensors_writer.h"
#include "tests/temp_folder.h"

namespace skald::test {

namespace fs = std::filesystem;

inline fs::path families() { return data_dir() / "families"; }
inline fs::path golden_folder(const std::string& name) { return families() / name; }

// Copies the model's config.json with `changes` ("erase" removes a key) and its weights, which
// several models share, into a new folder.
inline fs::path write_folder(const TempFolder& temp, const std::string& name,
                             const nlohmann::json& changes = nlohmann::json::object()) {
  const fs::path folder = temp.path() / "m";
  fs::remove_all(folder);
  fs::create_directory(folder);
  nlohmann::json config = read_json(golden_folder(name) / "config.json");
  for (const auto& [key, value] : changes.items()) {
    config[key] = value;
    if (value == "erase") config.erase(key);
  }
  temp.write("m/config.json", config.dump());
  const std::string weights = read_json(golden_folder(name) / "golden.json")["weights"];
  fs::copy_file(families() / weights, folder / "model.safetensors");
  return folder;
}

inline fs::path write_gguf(const TempFolder& temp, const std::string& name) {
  const std::string data = read_json(golden_folder(name) / "golden.json")["gguf"];
  return temp.write("model.gguf",
                    read_file(golden_folder(name) / "head.gguf") + read_file(families() / data));
}

inline ModelConfig config_of(const std::string& name,
                             const nlohmann::json& changes = nlohmann::json::object()) {
  TempFolder temp;
  return open_model(write_folder(temp, name, changes)).model.config;
}

inline std::string refusal(const std::string& name, const nlohmann::json& changes) {
  return error_text([&] { config_of(name, changes); });
}

// Copies a golden's folder (tests/golden.h) with changed() config.json. Empty where the golden is
// missing.
inline fs::path copy_golden(const TempFolder& temp, const std::string& name,
                            const nlohmann::json& changes = nlohmann::json::object()) {
  const fs::path golden = find_golden(name);
  if (golden.empty()) return {};
  const fs::path folder = temp.path() / "m";
  fs::remove_all(folder);
  fs::create_directory(folder);
  temp.write("m/config.json", changed(read_json(golden / "config.json"), changes).dump());
  fs::copy_file(golden / "model.safetensors", folder / "model.safetensors");
  return folder;
}

inline ModelConfig golden_config(const std::string& name,
                                 const nlohmann::json& changes = nlohmann::json::object()) {
  TempFolder temp;
  return open_model(copy_golden(temp, name, changes)).model.config;
}

inline std::string golden_refusal(const std::string& name, const nlohmann::json& changes) {
  return error_text([&] { golden_config(name, changes); });
}

// Checks the logits, and the greedy tokens where the golden has some, for every text of a golden.
inline void check_model(const Model& model, const std::string& name, cpu::KernelSet kernels) {
  const nlohmann::json texts = read_json(golden_folder(name) / "golden.json").at("texts");
  REQUIRE(!texts.empty());
  for (const std::string text : texts) {
    CAPTURE(name, text, kernels == cpu::KernelSet::Fast);
    const fs::path json = golden_folder(name) / (text + ".json");
    const nlohmann::json golden = read_json(json);
    RunOptions options;
    options.exact = true;
    options.context = golden["context"].get<int64_t>();
    options.rows = 20;  // the text is longer, so that it is computed in chunks
    const auto executor = cpu::make_executor(model, options, kernels);
    check_logits(*executor, json, golden_folder(name) / (text + ".npy"));
    if (golden.contains("greedy_ids")) check_greedy(*executor, golden);
  }
}

// Renames a safetensors file's tensors as in models with a vision part: older files begin text
// tensors with "language_model.model.", newer ones with "model.language_model.".
inline std::string as_text_part(const std::string& weights, bool newer) {
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, weights.data(), sizeof header_bytes);
  const nlohmann::json header = nlohmann::json::parse(weights.substr(8, header_bytes));
  nlohmann::json renamed = nlohmann::json::object();
  for (const auto& [name, tensor] : header.items()) {
    const bool inside = newer && name.rfind("model.", 0) == 0;
    const std::string changed = name == "__metadata__" || (newer && !inside) ? name
                                : inside ? "model.language_model." + name.substr(6)
                                         : "language_model." + name;
    renamed[changed] = tensor;
  }
  return safetensors(renamed.dump(), weights.substr(8 + header_bytes));
}

// Checks the model in `folder` as the text part of a `wrapper`, in both forms of its tensors'
// names.
inline void check_as_text_part(const TempFolder& temp, const fs::path& folder,
                               const std::string& wrapper, const std::string& name) {
  const nlohmann::json text = read_json(folder / "config.json");
  const std::string weights = read_file(folder / "model.safetensors");
  for (const bool newer : {false, true}) {
    temp.write("m/model.safetensors", as_text_part(weights, newer));
    temp.write("m/config.json",
               nlohmann::json{{"model_type", wrapper}, {"text_config", text}}.dump());
    const OpenedModel opened = open_model(folder);
    check_model(opened.model, name, cpu::KernelSet::Fast);
  }
}

}  // namespace skald::test
