// Adds up the parts of a result that the ranks of a group have, each on its own GPU
// (engine/program/shard.h). Every rank launches the same kernels in the same order.
#pragma once

#include <cstdint>

#include "cuda/gpu/stream.h"

namespace skald::cuda {

inline constexpr int kMostPeers = 8;  // ranks whose GPUs reach each other's memory

// A rank's mail: memory that the other ranks write to, in its GPU's memory or in the host's. Each
// sender has two places in it, used in turn. all_reduce sends blocks of numbers, and then a flag
// for each block; all_reduce_few sends pairs of numbers with their flags in one store.
struct MailLayout {
  static constexpr int kBlocks = 256;
  static constexpr int64_t kBlockFloats = 8192;  // all_reduce: of a block
  static constexpr int kFewBlocks = 128, kFewThreads = 512;
  static constexpr int64_t kFewFloats = int64_t{2} * kFewBlocks * kFewThreads;
  static constexpr int64_t kFewBytes = kFewFloats * 8;  // a flag for each number

  static int64_t floats(int ranks) { return 2 * ranks * kBlocks * kBlockFloats; }
  static int64_t flags(int ranks) { return int64_t{ranks} * kBlocks; }
  static int64_t few_bytes(int ranks) { return 2 * ranks * kFewBytes; }
  static constexpr int64_t kSent = kBlocks + kFewBlocks;
};

inline int64_t mail_bytes(int ranks) {
  return (MailLayout::floats(ranks) + MailLayout::flags(ranks) + MailLayout::kSent) * 4 +
         MailLayout::few_bytes(ranks);
}

// Two numbers with their flags. Each number arrives together with its flag.
struct alignas(16) MailPair {
  float first;
  uint32_t letter;
  float second;
  uint32_t same_letter;
};

struct MailLinks {
  float* blocks[kMostPeers];    // [2, ranks, kBlocks, kBlockFloats] of each rank
  uint32_t* flags[kMostPeers];  // [ranks, kBlocks] of each rank: letters so far
  MailPair* few[kMostPeers];    // [2, ranks, kFewFloats / 2] of each rank
  // Own: letters so far of each block of all_reduce [kBlocks], and of all_reduce_few [kFewBlocks].
  uint32_t* sent;
  const uint32_t* aborted;  // in the host's memory; not 0: nobody waits, and no result counts
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
