// The command-line flags of the sampling parameters. They follow from the table in
// engine/sampling/sampling_params.h; llama.cpp's users know their spelling.
#pragma once

#include <string>
#include <vector>

#include "app/files/json_fwd.h"
#include "engine/sampling/sampling_params.h"

namespace skald {

class Command;

struct SamplingFlags {
  SamplingParams params;
  int64_t seed = -1;                // -1: a new seed in each run
  std::vector<std::string> biases;  // "ID+1.5", "ID-inf"
};

void add_sampling_flags(Command& command, SamplingFlags& flags);

// Draws a seed if none was given, and checks all values against the vocabulary. Throws
// Error(Exit::Usage).
SamplingParams sampling_params(const SamplingFlags& flags, int64_t vocab);

// The values of all parameters that have flags, by their fields' names: the part of a command's
// settings that --resume compares with those of the runs before.
Json sampling_json(const SamplingParams& params);

}  // namespace skald
