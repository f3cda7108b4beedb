// A WeightFile holds a model's tensors: a mapped GGUF, a folder of safetensors, random numbers.
// Tensors have GGUF's names ("blk.0.attn_q.weight") in every kind of file. A WeightFile never
// changes; its views are valid as long as it lives.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/program/tensor.h"

namespace skald {

struct Tensor {
  std::string name;
  std::vector<int64_t> shape;  // outermost first: {out, in}; view flattens all but the last
  TensorView view;
  std::string file;  // for messages
  // If `source` exists(), the tensor does not exist yet: a backend makes it from these floats, in
  // the format of `view`. view.data is unused then.
  TensorView source = {};
};

struct MakeOptions {
  int threads = 0;  // 0: all
  // Called after each slice: bytes made so far, bytes in all, the tensor's name. May throw.
  std::function<void(int64_t bytes, int64_t of, std::string_view tensor)> progress = {};
};

class WeightFile {
 public:
  virtual ~WeightFile() = default;

  const std::vector<Tensor>& tensors() const { return tensors_; }
  const Tensor* find(std::string_view name) const;  // nullptr when there is none
  const std::string& path() const { return path_; }
  int64_t bytes() const;  // sum over all tensors

  // True if tensors are pages of files, which need not all be in memory at the same time.
  virtual bool mapped() const { return true; }

  // Throws if a file has changed since it was opened, for example because it is still being copied.
  // Backends call it before they read the weights.
  virtual void check_whole() const {}

  // Writes the tensor's bytes from `first` on to `out`, also for a tensor that has a source. Any
  // thread may call it.
  virtual void read(const Tensor& tensor, int64_t first, std::span<std::byte> out) const;

  // The same tensors, all in memory in the formats of their views: made on the host at the first
  // call, and kept for the next calls. nullptr if no tensor has a source or a reader.
  virtual std::shared_ptr<const WeightFile> made(const MakeOptions&) const { return nullptr; }

 protected:
  explicit WeightFile(std::string path) : path_(std::move(path)) {}
  void add(Tensor tensor);  // a name twice is an error

 private:
  std::string path_;
  std::vector<Tensor> tensors_;
  std::unordered_map<std::string, size_t> index_;
};

}  // namespace skald
