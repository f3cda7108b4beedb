#include "app/program/version.h"

#include "app/program/commit.h"  // written into the build folder by commit.cmake

namespace skald {

std::string_view version() { return SKALD_VERSION; }

std::string_view git_commit() { return kGitCommit; }

std::string build_kind() { return std::string("commit ") + kGitCommit + ", " SKALD_BUILD_KIND; }

}  // namespace skald
