// Taps: what the residual stream is before some layers, for a head that guesses further tokens
// (EAGLE-3). The Program alone decides where they are read; families need no code for it.
#pragma once

#include <span>

#include "engine/program/program.h"

namespace skald {

// Copies the residual stream before each of these layers to Program::taps, side by side in this
// order. A layer is known by the names of its weights: "blk.7.attn_norm.weight". Throws
// Error(Exit::Model) if the program has no such layer.
Program add_taps(Program program, std::span<const int> layers);

}  // namespace skald
