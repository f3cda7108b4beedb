// The two JSON texts of safetensors, parsed strictly: the header in front of a file's data and the
// index of a sharded model. Neither builds a tree, so depth and size of the text cost no stack and
// no memory beyond the entries themselves. Duplicate keys, wrong types and invalid UTF-8 are
// Errors.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace skald {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;            // as in the file: "BF16"
  std::vector<uint64_t> shape;  // outermost first
  uint64_t begin = 0;           // [begin, end) from the end of the header
  uint64_t end = 0;
};

// path is for messages. The entries' numbers are as the file has them, not yet compared with its
// size.
std::vector<SafetensorsEntry> parse_safetensors_header(std::string_view json,
                                                       const std::string& path);

// weight_map: from tensor name to the shard's file name, which is no path.
std::map<std::string, std::string> parse_safetensors_index(std::string_view json,
                                                           const std::string& path);

}  // namespace skald
