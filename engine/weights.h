// A WeightFile is where a model's tensors lie: a mapped GGUF, a folder of safetensors, random
// numbers. Names are GGUF's ("blk.0.attn_q.weight") whatever the file calls them. Immutable once
// opened; the views stay valid as long as the WeightFile lives.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/tensor.h"

namespace skald {

struct Tensor {
  std::string name;
  std::vector<int64_t> shape;  // outermost first: {out, in}; view flattens all but the last
  TensorView view;
  std::string file;  // for messages
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

 protected:
  explicit WeightFile(std::string path) : path_(std::move(path)) {}
  void add(Tensor tensor);  // a name twice is an error

 private:
  std::string path_;
  std::vector<Tensor> tensors_;
  std::unordered_map<std::string, size_t> index_;
};

}  // namespace skald
