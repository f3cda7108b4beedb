// Flags about memory and GPU types: --vram, --gpu-layers, those of weight_rules.h, --host-memory,
// --gpu-alone, --prefill-copy, --arch-limit, and parsers for --gpu.
#pragma once

#include <optional>
#include <string>

#include "cuda/cuda.h"
#include "engine/step/backend.h"

namespace skald {

class Command;

// The CPU may compute with weights in the machine's memory, so their place changes rounding.
inline constexpr const char* kWeightPlaces =
    "Where weights lie (changes speed, and rounding unless --gpu-alone)";

int64_t parse_size(const std::string& text, const std::string& flag);  // "12G", "500M", "1.5T"
MemoryCap parse_memory_cap(const std::string& text);                   // a size, or "80%"
int parse_arch_limit(const std::string& text);                         // "sm_80" -> 80
std::optional<int> parse_gpu_layers(const std::string& text);          // a number, "auto" or "all"
HostMemoryKind host_memory_named(const std::string& name);             // Auto for an unknown name

// Parses the description of a GPU: compute capability, multiprocessors and memory, which counts as
// free: "sm_90:132:141G". A fourth part is the memory of its machine: "sm_90:132:24G:64G".
cuda::DeviceInfo parse_gpu(const std::string& text);

// --vram, --gpu-layers, --prefill-copy, --arch-limit
void add_memory_flags(Command& command, RunOptions& run);

}  // namespace skald
