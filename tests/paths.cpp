#include "tests/paths.h"

namespace skald::test {

std::filesystem::path source_dir() { return SKALD_SOURCE_DIR; }
std::filesystem::path built_program() { return SKALD_PROGRAM; }
bool sanitized() { return SKALD_SANITIZED; }

}  // namespace skald::test
