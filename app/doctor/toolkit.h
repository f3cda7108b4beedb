// Finds the CUDA compiler that scripts/run would build with, and tries it: toolkits refuse a g++ or
// a C library that is newer than they are.
#pragma once

#include <filesystem>

#include "app/doctor/facts.h"

namespace skald {

// The folder for a toolkit if the user's cache cannot be written: /var/tmp/skald-UID.
// Another user may have made it.
std::filesystem::path spare_cache();

// Fills facts.nvcc, nvcc_version and nvcc_problem. Compiles an empty file where there is an nvcc,
// which takes about a second, a minute at most. `spare` counts only if this user alone can write
// it.
void gather_toolkit(Facts& facts, const Environment& environment,
                    const std::filesystem::path& spare = spare_cache());

}  // namespace skald
