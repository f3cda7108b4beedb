// The head of a GGUF file to be written: metadata entries in the order of the put calls, then
// tensors. The tensors' data follow in the same order. text() is everything before the data.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "engine/quant/dtype.h"
#include "models/files/gguf_metadata.h"

namespace skald {

class GgufHead {
 public:
  // Each key may be put only once.
  void put_u32(std::string_view key, int64_t value);  // the value must fit (check()ed)
  void put_f32(std::string_view key, double value);
  void put_bool(std::string_view key, bool value);
  void put_text(std::string_view key, std::string_view text);
  void put_texts(std::string_view key, std::span<const std::string> texts);
  void put_floats(std::string_view key, std::span<const float> values);
  void put_bools(std::string_view key, const std::vector<bool>& values);
  void put_ints(std::string_view key, std::span<const int32_t> values);
  void put(const GgufValue& value);  // copies a value of another file
  bool has(std::string_view key) const { return keys_.contains(std::string(key)); }

  // `shape` is outermost first. A row must be a whole number of the type's blocks.
  void add_tensor(std::string_view name, std::span<const int64_t> shape, DType type);

  struct Place {
    int64_t offset;  // in the file
    int64_t bytes;
  };
  std::string text() const;           // padded to the start of the data
  std::vector<Place> places() const;  // places of the tensors, in order
  int64_t file_bytes() const;         // size of the whole file, including padding

 private:
  void begin(std::string_view key, GgufType type);
  void begin_array(std::string_view key, GgufType element, uint64_t count);
  template <class Number>
  void append(Number number);
  void append_text(std::string_view text);

  struct TensorInfo {
    std::string info;  // without the offset
    int64_t bytes;
  };
  std::string unpadded_text() const;

  std::string entries_;
  std::unordered_set<std::string> keys_;
  std::vector<TensorInfo> tensors_;
};

}  // namespace skald
