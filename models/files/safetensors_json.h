// Strict parsers of the two JSON texts of safetensors: the header before a file's data, and the
// index of a sharded model. They build no tree, so a deep or large text costs no stack and no
// memory beyond the entries. Duplicate keys, wrong types and invalid UTF-8 are Errors.
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
  uint64_t begin = 0;           // [begin, end) counted from the end of the header
  uint64_t end = 0;
};

// `path` is for messages. The numbers of the entries are not yet checked against the file's size.
std::vector<SafetensorsEntry> parse_safetensors_header(std::string_view json,
                                                       const std::string& path);

// weight_map: maps tensor names to shard file names, which must not contain a path.
std::map<std::string, std::string> parse_safetensors_index(std::string_view json,
                                                           const std::string& path);

}  // namespace skald
