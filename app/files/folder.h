// What a folder holds, where a folder that is missing or cannot be read holds nothing.
#pragma once

#include <algorithm>
#include <filesystem>
#include <vector>

namespace skald {

inline bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// The paths in a folder, in order.
inline std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> all;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    all.push_back(at->path());
  }
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace skald
