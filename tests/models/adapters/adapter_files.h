// Adapters of the tiny models in tests/data/families: those of tests/data/lora, which PEFT has
// saved (scripts/make_lora_goldens.py), also with changes, and the same ones as GGUFs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "models/adapters/load.h"
#include "models/files/safetensors.h"
#include "tests/family_golden.h"
#include "tests/gguf_writer.h"

namespace skald::test {

inline fs::path lora(const std::string& name) { return data_dir() / "lora" / name; }

inline std::vector<int32_t> lora_ids() {
  return read_json(data_dir() / "lora" / "ids.json")["input_ids"].get<std::vector<int32_t>>();
}

// A copy of an adapter's folder whose configuration has `changes`; "erase" removes a key.
inline fs::path write_adapter(const TempFolder& temp, const std::string& name,
                              const nlohmann::json& changes = nlohmann::json::object()) {
  const fs::path folder = temp.path() / "adapter";
  fs::remove_all(folder);
  fs::create_directory(folder);
  nlohmann::json config = read_json(lora(name) / "adapter_config.json");
  for (const auto& [key, value] : changes.items()) {
    config[key] = value;
    if (value == "erase") config.erase(key);
  }
  temp.write("adapter/adapter_config.json", config.dump());
  fs::copy_file(lora(name) / "adapter_model.safetensors", folder / "adapter_model.safetensors");
  return folder;
}

// The adapter of an opened model as llama.cpp's converter writes it: its rows have the order of the
// model's file, its scale is alpha / rank. The factors are those of load_adapter(), whose scale is
// in the second one.
inline GgufWriter gguf_adapter(const Adapter& adapter, const std::string& architecture) {
  GgufWriter writer;
  writer.text("general.type", "adapter");
  writer.text("general.architecture", architecture);
  writer.text("adapter.type", "lora");
  writer.f32("adapter.lora.alpha", 0);
  const auto bytes = [](const std::vector<float>& numbers) {
    return std::string(reinterpret_cast<const char*>(numbers.data()),
                       numbers.size() * sizeof(float));
  };
  for (const AdapterMatrix& m : adapter.matrices) {
    const auto rank = static_cast<uint64_t>(m.rank);
    writer.tensors.push_back(
        {m.tensor + ".lora_a", {m.down.size() / rank, rank}, 0, bytes(m.down)});
    writer.tensors.push_back({m.tensor + ".lora_b", {rank, m.up.size() / rank}, 0, bytes(m.up)});
  }
  return writer;
}

inline OpenedModel with_adapter(OpenedModel opened, const std::vector<LoraUse>& uses) {
  const auto adapters = std::make_shared<Adapters>();
  adapters->push_back(load_adapter(opened, "", uses));
  opened.model.adapters = adapters;
  return opened;
}

}  // namespace skald::test
