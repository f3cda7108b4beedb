// A group of ranks that computes one model together (engine/program/shard.h), as one Executor. Each
// rank has an executor of its own for its shard, on its own device and thread.
#pragma once

#include <functional>
#include <memory>

#include "engine/step/exchange.h"
#include "engine/step/rank.h"

namespace skald {

// Makes an executor for each shard of the model, all at the same time, and the group of them.
// `make` is called on the rank's thread with Model::shard set; `exchange` is what its executors
// use. All shards must have room for the same context and sequences.
std::unique_ptr<Executor> make_group(
    const Model& model, int ranks, std::shared_ptr<Exchange> exchange,
    const std::function<std::unique_ptr<RankExecutor>(const Model& shard)>& make);

}  // namespace skald
