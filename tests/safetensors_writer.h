// Builds a safetensors file in memory from the text of its header, valid or not.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

namespace skald::test {

inline std::string safetensors(uint64_t length, const std::string& header,
                               const std::string& data) {
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes + header + data;
}

inline std::string safetensors(const std::string& header, const std::string& data) {
  return safetensors(header.size(), header, data);
}

}  // namespace skald::test
