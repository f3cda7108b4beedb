// Models with known answers: folders with golden.json and logits.npy beside the weights, written by
// scripts/make_goldens.py.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "tests/paths.h"

namespace skald::test {

inline nlohmann::json read_json(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) fail(Exit::Failed, "test data is missing: ", file.string());
  return nlohmann::json::parse(in);
}

struct Matrix {
  int64_t rows = 0, cols = 0;
  std::vector<float> values;
  const float* row(int64_t r) const { return values.data() + r * cols; }
};

// Reads NumPy's format 1.0: a matrix of little-endian float32 in C order.
inline Matrix read_npy(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  char magic[8] = {};
  uint16_t header_bytes = 0;
  in.read(magic, 8).read(reinterpret_cast<char*>(&header_bytes), 2);
  std::string header(header_bytes, ' ');
  in.read(header.data(), header_bytes);
  if (!in || header.find("'<f4'") == std::string::npos) {
    fail(Exit::Failed, "not a float32 npy file: ", file.string());
  }
  Matrix matrix;
  const size_t shape = header.find("'shape': (") + 10;
  if (std::sscanf(header.c_str() + shape, "%ld, %ld", &matrix.rows, &matrix.cols) != 2) {
    fail(Exit::Failed, "not a matrix: ", file.string());
  }
  matrix.values.resize(static_cast<size_t>(matrix.rows * matrix.cols));
  in.read(reinterpret_cast<char*>(matrix.values.data()),
          static_cast<std::streamsize>(matrix.values.size() * sizeof(float)));
  if (!in) fail(Exit::Failed, "truncated: ", file.string());
  return matrix;
}

// A configuration with changes. A key may be a path such as "text_config/head_dim"; the value
// "erase" removes the key.
inline nlohmann::json changed(nlohmann::json config, const nlohmann::json& changes) {
  for (const auto& [key, value] : changes.items()) {
    const nlohmann::json::json_pointer place("/" + key);
    config[place] = value;
    if (value == "erase") config.at(place.parent_pointer()).erase(place.back());
  }
  return config;
}

// The golden's folder in tests/data, else in ../shared. Empty where neither has it; a line on
// stderr then says so.
inline std::filesystem::path find_golden(const std::string& name) {
  const std::filesystem::path own = data_dir() / "goldens" / name;
  if (std::filesystem::exists(own)) return own;
  return have_shared("goldens/" + name) ? shared_dir() / "goldens" / name : "";
}

// Changes of a golden's config.json with which skald computes what transformers computed for it.
// Transformers without its CUDA kernels keeps the steps of a state space from falling below 0.001;
// its CUDA kernels do not, nor do other engines.
inline nlohmann::json golden_changes(std::string_view name) {
  nlohmann::json changes = nlohmann::json::object();
  if (name == "nemotron_h-moe") changes["time_step_limit"] = {0.001, 1e30};
  return changes;
}

inline std::filesystem::path find_gguf(const std::string& name) {
  const std::filesystem::path own = data_dir() / "gguf" / name;
  if (std::filesystem::exists(own)) return own;
  return have_shared("goldens/gguf/" + name) ? shared_dir() / "goldens/gguf" / name : "";
}

// The types of the files kq256.TYPE.gguf in both folders that find_gguf() searches.
inline std::vector<std::string> gguf_types() {
  std::set<std::string> types;
  for (const std::filesystem::path& folder : {data_dir() / "gguf", shared_dir() / "goldens/gguf"}) {
    if (!std::filesystem::exists(folder)) continue;
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
      const std::filesystem::path name = file.path().filename();
      if (name.extension() != ".gguf" || name.stem().stem() != "kq256") continue;
      types.insert(name.stem().extension().string().substr(1));
    }
  }
  if (types.empty()) std::fprintf(stderr, "skipped: no kq256.TYPE.gguf is here\n");
  return {types.begin(), types.end()};
}

}  // namespace skald::test
