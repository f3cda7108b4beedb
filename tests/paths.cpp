#include "tests/paths.h"

namespace skald::test {

std::filesystem::path source_dir() { return SKALD_SOURCE_DIR; }
std::filesystem::path built_program() { return SKALD_PROGRAM; }

}  // namespace skald::test
