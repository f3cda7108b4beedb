// Importance matrices: for each column of a weight matrix, the mean square of the inputs that it is
// multiplied by. `skald imatrix` and llama.cpp's llama-imatrix write them as GGUF files; older
// llama.cpp wrote files of its own. Both are read. The columns are in the order of the model's
// GGUF.
//
// Every count and number of a file is checked, so a damaged or hostile file gives an Error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/files/made_tensor.h"

namespace skald {

class ImportanceFile {
 public:
  // Reads the whole file into memory.
  explicit ImportanceFile(const std::filesystem::path& path);

  const std::string& path() const { return path_; }  // printable
  int64_t entries() const { return std::ssize(entries_); }
  int64_t chunks() const { return chunks_; }  // pieces of text that were computed; 0: unknown
  const std::vector<std::string>& datasets() const { return datasets_; }  // names of the texts

  // Sets the tensor's importances. An expert that no token chose gets zeros: its weights are
  // equally important. Returns false if the file has none for the tensor. Throws
  // Error(Exit::Model) if it has some of another size.
  bool give(MadeTensor& tensor) const;

 private:
  struct Entry {
    std::shared_ptr<const std::vector<float>> means;  // [experts, columns]
    int64_t experts;                                  // 0: the file does not say
  };
  void read_gguf();
  void read_old();
  void add(std::string_view tensor, std::vector<float> means, int64_t experts);

  std::string path_;
  std::filesystem::path file_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::vector<std::string> datasets_;
  int64_t chunks_ = 0;
};

}  // namespace skald
