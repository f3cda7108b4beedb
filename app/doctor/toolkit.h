// Finds the CUDA compiler that scripts/run would build with, and tries it: toolkits refuse a g++ or
// a C library that is newer than they are.
#pragma once

#include "app/doctor/facts.h"

namespace skald {

// Fills facts.nvcc, nvcc_version and nvcc_problem. Compiles an empty file where there is an nvcc,
// which takes about a second, a minute at most.
void gather_toolkit(Facts& facts, const Environment& environment);

}  // namespace skald
