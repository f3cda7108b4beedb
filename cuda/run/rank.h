// The executor of one GPU, as one rank of a group or alone.
#pragma once

#include <memory>

#include "cuda/cuda.h"
#include "cuda/exchange/peers.h"
#include "engine/step/rank.h"

namespace skald::cuda {

// exchange: with the other ranks; Model::shard says which rank this is. nullptr: there are none.
std::unique_ptr<RankExecutor> make_rank(const Model& model, const RunOptions& options, int device,
                                        const Switches& switches,
                                        std::shared_ptr<PeerExchange> exchange);

}  // namespace skald::cuda
