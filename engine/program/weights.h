// A WeightFile is where a model's tensors lie: a mapped GGUF, a folder of safetensors, random
// numbers. Names are GGUF's ("blk.0.attn_q.weight") whatever the file calls them. Immutable once
// opened; the views stay valid as long as the WeightFile lives.
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
  // Where it has data: the tensor is not there yet, and is to be made of these floats. view says in
  // which format, and its data mean nothing.
  TensorView source = {};
};

struct MakeOptions {
  int threads = 0;  // 0: all
  // Called after each slice with the bytes that were made, of how many, and what of; may throw.
  std::function<void(int64_t bytes, int64_t of, std::string_view tensor)> progress = {};
};

class WeightFile {
 public:
  virtual ~WeightFile() = default;

  const std::vector<Tensor>& tensors() const { return tensors_; }
  const Tensor* find(std::string_view name) const;  // nullptr when there is none
  const std::string& path() const { return path_; }
  int64_t bytes() const;  // of all tensors

  // Whether they are pages of files, which need not all be in memory at a time.
  virtual bool mapped() const { return true; }

  // Throws when a file changed since it was opened, as one still being copied does. Backends call
  // it before they read the weights.
  virtual void check_whole() const {}

  // The tensor's bytes from `first` on, also of one that is not there yet. Any thread may call it.
  virtual void read(const Tensor& tensor, int64_t first, std::span<std::byte> out) const;

  // The same tensors, all there: made on the host at the first call, and kept for the next ones.
  // nullptr: they are there already.
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
