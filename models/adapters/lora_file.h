// Reads a LoRA adapter as it lies on disk: a folder of PEFT (adapter_config.json and
// adapter_model.safetensors), or a GGUF that llama.cpp's converter writes. What a file says and
// skald does not compute is an Error that names the key or the tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/program/weights.h"

namespace skald {

// The change scale * b · a of one matrix. Views into the file.
struct LoraPair {
  std::string module;         // the matrix as the file names it, without ".weight"
  const Tensor* a = nullptr;  // [rank, columns of the matrix]
  const Tensor* b = nullptr;  // [rows of the matrix, rank]
  double scale = 1;

  int64_t rank() const { return a->view.rows; }
};

struct LoraFile {
  std::shared_ptr<const WeightFile> tensors;
  std::vector<LoraPair> pairs;  // sorted by module
  std::string path;             // for messages
  bool gguf = false;            // false: of PEFT
  std::string architecture;     // GGUF: of the model that is changed
  std::string base;             // the model that the file names, or ""
};

// True for what open_lora() would try to read.
bool seems_an_adapter(const std::filesystem::path& path);

// Throws Error(Exit::Model).
LoraFile open_lora(const std::filesystem::path& path);

}  // namespace skald
