// Cuts a Program into shards, one for each rank of a group that runs the model together. A rank
// computes some heads of each attention layer, some columns of each feed-forward and of each
// expert, the logits of some tokens, and everything else like all others. An AllReduce adds up what
// the ranks' last products of such a part give, so that the residual stream is the same on every
// rank. The ranks gather their logits.
//
// The Program alone decides where it is cut; families need no code for it. A part that cannot be
// cut (a norm across all heads, a recurrent state, a block format whose blocks would be divided) is
// computed by every rank.
#pragma once

#include <vector>

#include "engine/program/program.h"

namespace skald {

inline constexpr int kMostRanks = 64;

// The shard of `rank` among `shard.of`, with views of the rank's own part of each weight. The whole
// program if shard.of is 1.
Program shard_program(Program whole, const Shard& shard);

// Rank r has the logits from [r] on, up to [r + 1]. Empty if every rank computes all of them, as
// there are too few.
std::vector<int64_t> logit_borders(int64_t vocab, int ranks);

// The ops of a shard that add up parts.
int64_t count_all_reduces(const Program& program);

}  // namespace skald
