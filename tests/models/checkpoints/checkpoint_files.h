// The tiny checkpoints in tests/data/checkpoints, written by scripts/make_checkpoint_goldens.py:
// each quantized and read back by the package of its method.
#pragma once

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "engine/cpu/executor.h"
#include "models/open.h"
#include "tests/error_text.h"
#include "tests/golden.h"
#include "tests/golden_check.h"
#include "tests/safetensors_writer.h"
#include "tests/temp_folder.h"

namespace skald::test {

inline std::filesystem::path checkpoints() { return data_dir() / "checkpoints"; }

inline std::set<std::string> checkpoint_names() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoints())) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

// Copies a checkpoint's folder with changed() config.json.
inline std::filesystem::path copy_checkpoint(const TempFolder& temp, const std::string& name,
                                             const nlohmann::json& changes) {
  const std::filesystem::path folder = temp.path() / "m";
  std::filesystem::remove_all(folder);
  std::filesystem::copy(checkpoints() / name, folder);
  temp.write("m/config.json", changed(read_json(folder / "config.json"), changes).dump());
  return folder;
}

// The same weights, of which those without an exact block format are in float32.
inline OpenedModel open_in_f32(const TempFolder& temp, const std::string& name) {
  return open_model(copy_checkpoint(temp, name, {{"torch_dtype", "float32"}}));
}

inline std::vector<float> decoded(const Tensor& tensor) {
  const TensorView& view = tensor.view;
  std::vector<float> out(static_cast<size_t>(view.rows * view.cols));
  std::vector<std::byte> scratch;
  for (int64_t row = 0; row < view.rows; ++row) {
    view.decode_row(row, out.data() + row * view.cols, scratch);
  }
  return out;
}

// A safetensors file in memory, whose tensors a test may change.
class TensorFile {
 public:
  explicit TensorFile(const std::filesystem::path& file) {
    const std::string bytes = read_file(file);
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    const nlohmann::json header = nlohmann::json::parse(bytes.substr(8, length));
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      const size_t first = entry["data_offsets"][0], last = entry["data_offsets"][1];
      tensors[name] = {entry["dtype"], entry["shape"],
                       bytes.substr(8 + length + first, last - first)};
    }
  }

  void write(const std::filesystem::path& file) const {
    nlohmann::json header = nlohmann::json::object();
    std::string data;
    for (const auto& [name, tensor] : tensors) {
      header[name] = {{"dtype", tensor.type},
                      {"shape", tensor.shape},
                      {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
      data += tensor.bytes;
    }
    put_file(file, safetensors(header.dump(), data));
  }

  struct Entry {
    std::string type;
    std::vector<int64_t> shape;
    std::string bytes;
  };
  std::map<std::string, Entry> tensors;
};

}  // namespace skald::test
