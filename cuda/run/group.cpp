// The executors of the rest of skald: a rank alone, or several GPUs that compute one model
// together, with a rank on each.
#include "engine/step/group.h"

#include <algorithm>
#include <vector>

#include "cuda/run/rank.h"
#include "engine/base/error.h"

namespace skald::cuda {
namespace {

// The context that every rank has memory for.
int64_t group_context(const Model& model, const RunOptions& options, std::span<const int> devices) {
  int64_t context = options.context;
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    Model shard = model;
    shard.shard = {static_cast<int>(rank), static_cast<int>(devices.size())};
    const MemoryPlan plan = plan_memory(shard, options, describe_device(devices[rank]));
    context = rank == 0 ? plan.context : std::min(context, plan.context);
  }
  return context;
}

}  // namespace

std::unique_ptr<Executor> make_executor(const Model& model, const RunOptions& options, int device,
                                        const Switches& switches) {
  model.weights->check_whole();
  return make_rank(model, options, device, switches, nullptr);
}

std::unique_ptr<Executor> make_group(const Model& model, const RunOptions& asked,
                                     std::span<const int> devices, const Switches& switches) {
  model.weights->check_whole();
  const int ranks = static_cast<int>(devices.size());
  static_assert(kMostGroupGpus <= kMostPeers);
  if (ranks > kMostGroupGpus) {
    fail(Exit::Usage, "at most ", kMostGroupGpus, " GPUs compute a model together, not ", ranks);
  }
  RunOptions options = asked;
  options.executors = ranks * asked.executors;
  options.context = group_context(model, options, devices);
  const auto exchange = std::make_shared<PeerExchange>(
      std::vector<int>(devices.begin(), devices.end()), switches.mail_on_host);
  return skald::make_group(model, ranks, exchange, [&](const Model& shard) {
    RunOptions own = options;
    if (shard.shard.rank > 0) own.loading = {};
    const int device = devices[static_cast<size_t>(shard.shard.rank)];
    return make_rank(shard, own, device, switches, exchange);
  });
}

}  // namespace skald::cuda
