// Joins the columns of a result that the ranks of a group have: the logits, of which each rank
// computes those of some tokens.
#pragma once

#include "cuda/gpu/stream.h"
#include "cuda/kernels/exchange/mail.h"

namespace skald::cuda {

// Rank r has the columns [first[r], first[r + 1]). out = all ranks' columns side by side, on every
// rank.
struct AllGatherLaunch {
  const float* in;  // [rows, the rank's own columns]
  float* out;       // [rows, first[ranks]]
  int64_t rows;
  int64_t first[kMostPeers + 1];
  bool dependent;
  MailLinks mail;

  int64_t cols(int rank) const { return first[rank + 1] - first[rank]; }
  int64_t cols() const { return first[mail.ranks]; }
};
void load_all_gather();  // as load_all_reduce()
void launch_all_gather(const AllGatherLaunch& launch, Stream stream);

}  // namespace skald::cuda
