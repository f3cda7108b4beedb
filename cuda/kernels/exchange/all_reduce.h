// Adds up the parts of a result that the ranks of a group have, each on its own GPU
// (engine/program/shard.h). Every rank launches the same kernels in the same order.
#pragma once

#include <cstdint>

#include "cuda/gpu/stream.h"

namespace skald::cuda {

inline constexpr int kMostPeers = 8;  // ranks whose GPUs reach each other's memory

// A rank's mail: memory that the other ranks write to, in its GPU's memory or in the host's. Each
// block of a kernel has places of its own in it: two for each sender, used in turn, and a flag for
// each sender.
struct MailLayout {
  static constexpr int kBlocks = 128;
  static constexpr int64_t kPlaceFloats = 8192;

  static int64_t floats(int ranks) { return 2 * ranks * kBlocks * kPlaceFloats; }
  static int64_t flags(int ranks) { return int64_t{ranks} * kBlocks; }
};

inline int64_t mail_bytes(int ranks) {
  return (MailLayout::floats(ranks) + MailLayout::flags(ranks) + MailLayout::kBlocks) * 4;
}

struct MailLinks {
  float* places[kMostPeers];    // [2, ranks, kBlocks, kPlaceFloats] of each rank
  uint32_t* flags[kMostPeers];  // [ranks, kBlocks] of each rank: letters so far
  uint32_t* sent;               // [kBlocks], own: letters so far
  const uint32_t* aborted;      // in the host's memory; not 0: nobody waits, and no result counts
  int rank, ranks;
};

// sum = the ranks' `in`, added in the order of ranks, the same on every rank to the last bit.
// adds: out += scale * sum. Otherwise out = sum.
struct AllReduceLaunch {
  const float* in;  // [count]
  float* out;       // [count]; may be `in` if it does not add
  int64_t count;
  float scale;
  bool adds;
  bool dependent;
  MailLinks mail;
};
void launch_all_reduce(const AllReduceLaunch& launch, Stream stream);

}  // namespace skald::cuda
