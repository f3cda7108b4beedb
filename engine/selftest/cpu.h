// Runs the cases on the CPU's fast or reference kernels and compares with the formulas in double
// precision.
#pragma once

#include "engine/cpu/executor.h"
#include "engine/selftest/report.h"

namespace skald::selftest {

void test_cpu(const Request& request, cpu::KernelSet kernels, int threads, Report& report);

}  // namespace skald::selftest
