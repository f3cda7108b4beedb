#include "models/adapters/lora_file.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/adapters/peft_config.h"
#include "models/files/gguf.h"
#include "models/files/safetensors.h"
#include "models/open.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConfig = "adapter_config.json", kTensors = "adapter_model.safetensors";

// Puts the two factors of each module together.
class Pairs {
 public:
  explicit Pairs(std::string path) : path_(std::move(path)) {}

  void add(std::string module, bool is_a, const Tensor& tensor) {
    LoraPair& pair = pairs_[module];
    (is_a ? pair.a : pair.b) = &tensor;
    pair.module = std::move(module);
  }

  std::vector<LoraPair> checked() && {
    if (pairs_.empty()) fail(Exit::Model, path_, ": has no LoRA factors; it changes nothing");
    std::vector<LoraPair> all;
    for (auto& [module, pair] : pairs_) {
      if (!pair.a || !pair.b) {
        fail(Exit::Model, path_, ": '", printable(module), "' has a factor ", pair.a ? "A" : "B",
             " but no factor ", pair.a ? "B" : "A", "; the file is incomplete");
      }
      const TensorView &a = pair.a->view, &b = pair.b->view;
      if (pair.a->shape.size() > 2 || pair.b->shape.size() != 2 || a.rows != b.cols) {
        fail(Exit::Model, path_, ": the factors of '", printable(module), "' are [", a.rows, ", ",
             a.cols, "] and [", b.rows, ", ", b.cols,
             "], expected [rank, columns] and [rows, rank]");
      }
      all.push_back(std::move(pair));
    }
    return all;
  }

 private:
  std::string path_;
  std::map<std::string, LoraPair> pairs_;
};

// Removes `end`, and returns true if it was there.
bool take_end(std::string_view& name, std::string_view end) {
  if (!name.ends_with(end)) return false;
  name.remove_suffix(end.size());
  return true;
}

LoraFile open_peft(const fs::path& folder) {
  std::error_code error;
  const fs::path tensors = folder / kTensors;
  if (!fs::exists(folder / kConfig, error)) {
    fail(Exit::Model, printable(folder.string()), ": has no ", kConfig,
         "; expected a folder that PEFT has saved, or a GGUF adapter");
  }
  const PeftConfig config = PeftConfig::read(folder / kConfig);
  if (!fs::exists(tensors, error)) {
    const bool pickled = fs::exists(folder / "adapter_model.bin", error);
    fail(Exit::Model, printable(folder.string()), ": has no ", kTensors,
         pickled ? ", only adapter_model.bin, which skald does not read; save it as safetensors"
                 : "");
  }
  LoraFile file;
  file.path = printable(folder.string(), 4096);
  file.base = config.base();
  file.tensors = open_safetensors(tensors, [](std::string_view name) { return std::string(name); });
  Pairs pairs(file.path);
  constexpr std::string_view kPrefix = "base_model.model.";
  for (const Tensor& tensor : file.tensors->tensors()) {
    std::string_view name = tensor.name;
    const bool inside = name.starts_with(kPrefix);
    if (inside) name.remove_prefix(kPrefix.size());
    const bool is_a = take_end(name, ".lora_A.weight");
    if (!inside || (!is_a && !take_end(name, ".lora_B.weight"))) {
      fail(Exit::Model, tensor.file, ": tensor '", printable(tensor.name),
           "' is no factor of a LoRA adapter of a matrix; skald reads "
           "base_model.model.NAME.lora_A.weight and .lora_B.weight");
    }
    pairs.add(std::string(name), is_a, tensor);
  }
  file.pairs = std::move(pairs).checked();
  for (LoraPair& pair : file.pairs) {
    const int64_t rank = config.rank_of(pair.module);
    if (rank != pair.rank()) {
      fail(Exit::Model, file.path, ": the factors of '", printable(pair.module), "' have rank ",
           pair.rank(), ", but ", kConfig, " says ", rank);
    }
    pair.scale = config.scale_of(pair.module);
  }
  return file;
}

void check_gguf_kind(const GgufFile& gguf) {
  const GgufMetadata& metadata = gguf.metadata();
  const auto expect = [&](std::string_view key, std::string_view expected) {
    const std::string_view found = metadata.text_or(key, "");
    if (found == expected) return;
    fail(Exit::Model, gguf.path(), ": '", key, "' is '", printable(found, 80), "', expected '",
         expected, "'; it is not a LoRA adapter");
  };
  expect("general.type", "adapter");
  expect("adapter.type", "lora");
  for (const GgufValue& value : metadata.values()) {
    if (!value.key.starts_with("adapter.")) continue;
    if (value.key == "adapter.type" || value.key == "adapter.lora.alpha" ||
        value.key == "adapter.lora.task_name" || value.key == "adapter.lora.prompt_prefix") {
      continue;
    }
    fail(Exit::Model, gguf.path(), ": '", printable(value.key, 80),
         "' has a value, and skald does not know what it changes");
  }
}

LoraFile open_gguf_lora(const fs::path& path) {
  const auto gguf = open_gguf(path);
  check_gguf_kind(*gguf);
  LoraFile file;
  file.path = gguf->path();
  file.gguf = true;
  file.tensors = gguf;
  file.architecture = gguf->metadata().text("general.architecture");
  file.base = gguf->metadata().text_or("general.base_model.0.name", "");
  const double alpha = gguf->metadata().number("adapter.lora.alpha");
  if (!std::isfinite(alpha)) {
    fail(Exit::Model, file.path, ": 'adapter.lora.alpha' is ", alpha, ", expected a number");
  }
  Pairs pairs(file.path);
  for (const Tensor& tensor : gguf->tensors()) {
    std::string_view name = tensor.name;
    const bool is_a = take_end(name, ".weight.lora_a");
    if (!is_a && !take_end(name, ".weight.lora_b")) {
      fail(Exit::Model, tensor.file, ": tensor '", printable(tensor.name),
           "' is no factor of a LoRA adapter; skald reads NAME.weight.lora_a and .lora_b");
    }
    pairs.add(std::string(name), is_a, tensor);
  }
  file.pairs = std::move(pairs).checked();
  // llama.cpp: without alpha, the factors have their scale already.
  for (LoraPair& pair : file.pairs) {
    pair.scale = alpha == 0 ? 1 : alpha / static_cast<double>(pair.rank());
  }
  return file;
}

}  // namespace

bool seems_an_adapter(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return fs::exists(path / kConfig, error);
  if (path.filename() == kConfig || path.filename() == kTensors) return true;
  if (!fs::is_regular_file(path, error) || !is_gguf(path)) return false;
  return open_gguf(path)->metadata().text_or("general.type", "model") == "adapter";
}

LoraFile open_lora(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    fail(Exit::Model, printable(path.string()), ": there is no such adapter file or folder");
  }
  if (fs::is_directory(status)) return open_peft(path);
  if (path.filename() == kConfig || path.filename() == kTensors) {
    return open_peft(path.has_parent_path() ? path.parent_path() : fs::path("."));
  }
  return open_gguf_lora(path);
}

}  // namespace skald
