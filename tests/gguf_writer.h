// Builds GGUF files in memory, valid or deliberately damaged: every number in the file can be set
// to a wrong value.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace skald::test {

template <class Number>
std::string raw(Number number) {
  std::string bytes(sizeof(Number), '\0');
  std::memcpy(bytes.data(), &number, sizeof(Number));
  return bytes;
}

inline std::string gguf_string(std::string_view text) {
  return raw<uint64_t>(text.size()) + std::string(text);
}

struct GgufWriter {
  struct Tensor {
    std::string name;
    std::vector<uint64_t> dims;  // innermost first, as in the file
    uint32_t type = 0;
    std::string data;
    std::optional<uint64_t> offset = {};  // what the file says; the data stays in its place
    std::optional<uint32_t> n_dims = {};
  };

  std::string magic = "GGUF";
  uint32_t version = 3;
  std::optional<uint64_t> n_tensors, n_entries;  // written instead of the true counts
  uint64_t alignment = 32;                       // alignment of the data, whatever the file says
  std::vector<std::string> entries;              // raw: key, type, value
  std::vector<Tensor> tensors;

  void entry(std::string_view key, uint32_t type, const std::string& value) {
    entries.push_back(gguf_string(key) + raw(type) + value);
  }
  void u16(std::string_view key, uint16_t value) { entry(key, 2, raw(value)); }
  void u32(std::string_view key, uint32_t value) { entry(key, 4, raw(value)); }
  void i32(std::string_view key, int32_t value) { entry(key, 5, raw(value)); }
  void f32(std::string_view key, float value) { entry(key, 6, raw(value)); }
  void boolean(std::string_view key, bool value) { entry(key, 7, raw<uint8_t>(value)); }
  void text(std::string_view key, std::string_view value) { entry(key, 8, gguf_string(value)); }
  void array(std::string_view key, uint32_t type, uint64_t count, const std::string& elements) {
    entry(key, 9, raw(type) + raw(count) + elements);
  }
  void strings(std::string_view key, const std::vector<std::string>& texts) {
    std::string elements;
    for (const std::string& text : texts) elements += gguf_string(text);
    array(key, 8, texts.size(), elements);
  }

  // Everything before the tensor data, without padding.
  std::string head() const {
    std::string out = magic + raw(version) + raw<uint64_t>(n_tensors.value_or(tensors.size())) +
                      raw<uint64_t>(n_entries.value_or(entries.size()));
    for (const std::string& entry : entries) out += entry;
    uint64_t place = 0;
    for (const Tensor& tensor : tensors) {
      out += gguf_string(tensor.name);
      out += raw<uint32_t>(tensor.n_dims.value_or(static_cast<uint32_t>(tensor.dims.size())));
      for (uint64_t dim : tensor.dims) out += raw(dim);
      out += raw(tensor.type) + raw<uint64_t>(tensor.offset.value_or(place));
      place += padded(tensor.data.size());
    }
    return out;
  }

  std::string file() const {
    std::string out = head();
    out.resize(padded(out.size()));
    for (const Tensor& tensor : tensors) {
      out += tensor.data;
      out.resize(out.size() + padded(tensor.data.size()) - tensor.data.size());
    }
    return out;
  }

 private:
  uint64_t padded(uint64_t size) const { return (size + alignment - 1) / alignment * alignment; }
};

}  // namespace skald::test
