// The flags that say how the next token is picked, spelled as llama.cpp's users know them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "engine/sampling/sampler.h"

namespace skald {

struct SamplingFlags {
  SamplingParams params;
  int64_t seed = -1;                // -1: another one each time
  std::vector<std::string> biases;  // "ID+1.5", "ID-inf"
};

void add_sampling_flags(CLI::App& command, SamplingFlags& flags);

// Draws a seed where none was given, and checks everything against the vocabulary.
SamplingParams sampling_params(const SamplingFlags& flags, int64_t vocab);

}  // namespace skald
