// The cases on the CPU's kernels: the fast ones, or the reference itself, against the same formulas
// in double precision.
#pragma once

#include "engine/cpu/executor.h"
#include "engine/selftest/report.h"

namespace skald::selftest {

void test_cpu(const Request& request, cpu::KernelSet kernels, int threads, Report& report);

}  // namespace skald::selftest
