// The places of test data. tests/data is part of the repository. A larger collection, ../shared
// beside the checkout, is optional: tests that need it skip where it is missing and say so.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>

namespace skald::test {

// Defined in paths.cpp alone: other objects do not depend on the build folder, so that
// scripts/check can link them too, and a compiler cache can serve several checkouts.
std::filesystem::path source_dir();
std::filesystem::path built_program();

// Sanitizers watch the program and its libraries: all takes several times as long, and memory
// cannot be limited.
bool sanitized();

inline std::filesystem::path data_dir() { return source_dir() / "tests" / "data"; }
inline std::filesystem::path shared_dir() { return source_dir().parent_path() / "shared"; }

// False, with a line on stderr, where ../shared lacks `what`.
inline bool have_shared(const std::string& what) {
  if (std::filesystem::exists(shared_dir() / what)) return true;
  std::fprintf(stderr, "skipped: ../shared/%s is not here\n", what.c_str());
  return false;
}

}  // namespace skald::test
