// Adds up the parts of a result that the ranks of a group have.
#pragma once

#include "cuda/gpu/stream.h"
#include "cuda/kernels/exchange/mail.h"

namespace skald::cuda {

// sum = the ranks' `in`, added in the order of ranks, the same on every rank to the last bit.
// adds: out += scale * sum. Otherwise out = sum. rounds: more than MailLayout::kFewFloats numbers
// are rounded to 11 bits first, which halves the bytes that travel.
struct AllReduceLaunch {
  const float* in;  // [count]
  float* out;       // [count]; may be `in` if it does not add
  int64_t count;
  float scale;
  bool adds;
  bool rounds;
  bool dependent;
  MailLinks mail;
};
// Loads the kernels now: the first launch would load them while kernels of other ranks wait.
void load_all_reduce();
void launch_all_reduce(const AllReduceLaunch& launch, Stream stream);

}  // namespace skald::cuda
