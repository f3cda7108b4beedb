// Where tests find their data. tests/data travels with the repository; the larger collection of
// goldens lies beside a developer's checkout and is optional: tests that need it say that they
// skip.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>

namespace skald::test {

// Known to paths.cpp alone, so that a compiler cache can serve several checkouts.
std::filesystem::path source_dir();
std::filesystem::path built_program();

inline std::filesystem::path data_dir() { return source_dir() / "tests" / "data"; }
inline std::filesystem::path shared_dir() { return source_dir().parent_path() / "shared"; }

// False, with a line on stderr, where the optional collection is missing.
inline bool have_shared(const std::string& what) {
  if (std::filesystem::exists(shared_dir() / what)) return true;
  std::fprintf(stderr, "skipped: ../shared/%s is not here\n", what.c_str());
  return false;
}

}  // namespace skald::test
