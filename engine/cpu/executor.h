// The CPU backend: runs a Program's ops with the kernels of engine/cpu/kernels.h. Weights are read
// in place from the model's mapping, which the executor keeps alive.
#pragma once

#include <memory>

#include "engine/cpu/machine.h"
#include "engine/step/exchange.h"
#include "engine/step/rank.h"

namespace skald::cpu {

enum class KernelSet { Fast, Reference };

// The memory that an executor would need on this machine.
MemoryPlan plan_memory(const Model& model, const RunOptions& options);

std::unique_ptr<Executor> make_executor(const Model& model, const RunOptions& options,
                                        KernelSet kernels = KernelSet::Fast);

// One rank of a group (engine/step/group.h): Model::shard says which.
std::unique_ptr<RankExecutor> make_rank(const Model& model, const RunOptions& options,
                                        KernelSet kernels, std::shared_ptr<HostExchange> exchange);

// `ranks` executors that compute the model together, each with its part of the threads.
std::unique_ptr<Executor> make_group(const Model& model, const RunOptions& options, int ranks,
                                     KernelSet kernels = KernelSet::Fast);

// Bytes per second that `threads` threads read from memory larger than any cache. The best of a few
// passes: other work on the machine can only lower the result.
double measure_read_bandwidth(int threads);

}  // namespace skald::cpu
