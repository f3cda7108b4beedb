// Flags about memory and GPU types: --vram, --gpu-layers, --prefill-copy, --arch-limit, and parsers
// for --gpu.
#pragma once

#include <optional>
#include <string>

#include "cuda/cuda.h"
#include "engine/step/backend.h"

namespace skald {

class Command;

int64_t parse_size(const std::string& text, const std::string& flag);  // "12G", "500M", "1.5T"
MemoryCap parse_memory_cap(const std::string& text);                   // a size, or "80%"
int parse_arch_limit(const std::string& text);                         // "sm_80" -> 80
std::optional<int> parse_gpu_layers(const std::string& text);          // a number, "auto" or "all"

// Parses the description of a GPU: compute capability, multiprocessors and memory, which counts as
// free: "sm_90:132:141G".
cuda::DeviceInfo parse_gpu(const std::string& text);

// --vram, --gpu-layers, --prefill-copy, --arch-limit
void add_memory_flags(Command& command, RunOptions& run);

}  // namespace skald
