// The mail of ranks, by which kernels exchange numbers (engine/program/shard.h): each rank has
// memory to which the other ranks write. Each rank has its own GPU. Every rank launches the same
// kernels in the same order.
#pragma once

#include <cstdint>

namespace skald::cuda {

inline constexpr int kMostPeers = 8;  // ranks whose GPUs reach each other's memory

// A rank's mail: memory that the other ranks write to, in its GPU's memory or in the host's. Each
// sender has two places in it, used in turn. Kernels for many numbers send blocks of them, and then
// a flag for each block; kernels for few numbers send pairs with their flags in one store.
struct MailLayout {
  static constexpr int kBlocks = 256;
  static constexpr int64_t kBlockFloats = 8192;  // room for what a block sends, of many numbers
  static constexpr int kFewBlocks = 128, kFewThreads = 512;
  static constexpr int64_t kFewFloats = int64_t{2} * kFewBlocks * kFewThreads;
  static constexpr int64_t kFewBytes = kFewFloats * 8;  // a flag for each number

  static int64_t floats(int ranks) { return 2 * ranks * kBlocks * kBlockFloats; }
  static int64_t flags(int ranks) { return int64_t{ranks} * kBlocks; }
  static int64_t few_bytes(int ranks) { return 2 * ranks * kFewBytes; }
  static constexpr int64_t kSent = kBlocks + kFewBlocks;
  static constexpr int64_t kOwn = kSent + 1;  // and MailLinks::ended
};

inline int64_t mail_bytes(int ranks) {
  return (MailLayout::floats(ranks) + MailLayout::flags(ranks) + MailLayout::kOwn) * 4 +
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
  // The rank's own counters: the letters that each block has sent so far, for kernels of many
  // numbers [kBlocks] and for kernels of few numbers [kFewBlocks].
  uint32_t* sent;
  // Not 0: waits end, and no result counts. `aborted` lies in the host's memory. The first kernel
  // that sees it sets `ended` in the GPU's own memory, where later kernels see it at once.
  const uint32_t* aborted;
  uint32_t* ended;
  int rank, ranks;
};

}  // namespace skald::cuda
