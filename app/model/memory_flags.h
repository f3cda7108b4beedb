// Flags about memory and GPU types: --vram, --prefill-copy, --arch-limit, and parsers for --gpu.
#pragma once

#include <string>

#include "cuda/cuda.h"
#include "engine/step/backend.h"

namespace skald {

class Command;

int64_t parse_size(const std::string& text, const std::string& flag);  // "12G", "500M", "1.5T"
MemoryCap parse_memory_cap(const std::string& text);                   // a size, or "80%"
int parse_arch_limit(const std::string& text);                         // "sm_80" -> 80

// Parses the description of a GPU: compute capability, multiprocessors and memory, which counts as
// free: "sm_90:132:141G".
cuda::DeviceInfo parse_gpu(const std::string& text);

void add_memory_flags(Command& command, RunOptions& run);  // --vram, --prefill-copy, --arch-limit

}  // namespace skald
