// One model on the ranks of several processes, one rank in each. The first rank's process has the
// group's Executor, and with it everything above: sequences, scheduling, picks. The others serve:
// they load their part of the model and compute the steps that the first rank describes.
#pragma once

#include <functional>
#include <memory>

#include "engine/nodes/exchange.h"
#include "engine/nodes/links.h"
#include "engine/step/rank.h"

namespace skald::nodes {

// How a process plans and makes its rank. `shard` has Model::shard set.
struct RankMaker {
  // The context and the rows of a step that there is memory for: options with both filled in.
  std::function<RunOptions(const Model& shard, const RunOptions&)> plan;
  std::function<std::unique_ptr<RankExecutor>(const Model& shard, const RunOptions&,
                                              std::shared_ptr<NodeExchange>)>
      make;
};

// In the first rank's process: waits for the other ranks and makes the group. What changes the
// output is the same on all ranks: the first rank's options; where weights lie, and threads, are
// each rank's own.
std::unique_ptr<Executor> lead_group(const Party& party, const Model& model,
                                     const RunOptions& options, const RankMaker& maker);

// In the process of another rank: serves until the first rank ends. Throws an Error if that, or
// another rank, has failed.
void serve_rank(const Party& party, const Model& model, const RunOptions& options,
                const RankMaker& maker);

}  // namespace skald::nodes
