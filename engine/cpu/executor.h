// The CPU backend: walks a Program with the kernels of engine/cpu/kernels.h. Weights are read in
// place from the model's mapping, which the executor keeps alive.
#pragma once

#include <memory>

#include "engine/cpu/machine.h"
#include "engine/step/backend.h"

namespace skald::cpu {

enum class KernelSet { Fast, Reference };

// What an executor would take of this machine's memory.
MemoryPlan plan_memory(const Model& model, const RunOptions& options);

std::unique_ptr<Executor> make_executor(const Model& model, const RunOptions& options,
                                        KernelSet kernels = KernelSet::Fast);

// Bytes per second that `threads` threads read from memory larger than any cache: the best of a few
// passes, since other work on the machine can only lower it.
double measure_read_bandwidth(int threads);

}  // namespace skald::cpu
