// Routed experts of a step: their launches, with pointers filled in.
#include "cuda/kernels/pointwise/pointwise.h"
#include "cuda/kernels/tiles/odd_columns.h"
#include "cuda/run/launchers.h"
#include "cuda/run/step_ops.h"

namespace skald::cuda {

Routing StepOps::routing(const Step& step, const StepEntry& entry) const {
  const ExpertsSpec& spec = op<FusedExperts>(entry).spec;
  const StepMemory::Experts& lists = memory_.experts;
  int32_t* const begins = lists.begins.as<int32_t>();
  return {{step.rows, spec.used, spec.count}, lists.chosen.as<int32_t>(), lists.weights.as<float>(),
          lists.places.as<int32_t>(),         lists.row_of.as<int32_t>(), begins,
          lists.tiles.as<PlacedTile>(),       begins + spec.count + 1};
}

RouteLaunch StepOps::route_launch(const Step& step, const StepEntry& entry) const {
  const auto& experts = op<FusedExperts>(entry);
  const LoadedOp& weights = loaded(entry);
  return {p_.fused.type,
          act<float>(experts.norm.in),
          weights.norm,
          experts.norm.eps,
          weights.router,
          weights.router_bias,
          p_.fused.cols(p_.fused.hidden),
          act(experts.norm.out),
          memory_.experts.logits.as<float>(),
          memory_.experts.tickets.as<unsigned>(),
          experts.spec,
          weights.choice_bias,
          routing(step, entry),
          entry.dependent,
          setting_.reproducible,
          weights.route_norm};
}

void StepOps::launch(const Step& step, const StepEntry& entry, const RouteEntry&) {
  launch_route(route_launch(step, entry), stream_);
}

void StepOps::launch(const Step& step, const StepEntry& entry, const SortChoicesEntry&) {
  launch_sort_choices(routing(step, entry), entry.dependent, stream_);
}

void StepOps::launch(const Step& step, const StepEntry& entry, const ExpertsEntry& experts) {
  const LoadedStack& stack = loaded(entry).stacks[experts.stack];
  const Epilogue epilogue = experts.shape.epilogue;
  const bool floats = epilogue == Epilogue::Floats || epilogue == Epilogue::AddTo;
  ExpertsLaunch launch = {};
  static_cast<ExpertsShape&>(launch) = experts.shape;
  launch.dependent = entry.dependent;
  launch.weight = experts.in_place ? p_.loaded.in_place(entry.op, stack.first) : stack.first;
  if (experts.slots) {
    launch.cached = p_.caches.slots(entry.op, experts.stack);
    launch.slots = memory_.experts.slots.as<int32_t>();
  }
  launch.stride = stack.stride;
  launch.bias = stack.bias;
  launch.in = address(step, experts.in, p_.fused.type);
  launch.out = address(step, experts.out, floats ? DType::F32 : p_.fused.type);
  launch.routing = routing(step, entry);
  launch.multiprocessors = setting_.gpu.multiprocessors;
  launch.results = memory_.experts.sums.as<float>();
  launch.tickets = memory_.experts.tickets.as<unsigned>();
  if (experts.kernel->signals) {
    // The products of a layer may overlap, so each has a ticket of its own, after that of a router
    // of one row.
    launch.tickets += 1 + experts.stack;
    launch.signal = entry.left(EdgeKind::Signal) ? memory_.products.signal() : nullptr;
    launch.wait = entry.taken(EdgeKind::Signal) ? memory_.products.signal() : nullptr;
  }
  if (experts.shape.with_shared) {
    launch.shared = p_.loaded.ops()[experts.shared_op].pieces.front().data;
    if (experts.shared_gate) launch.shared_gate = p_.loaded.ops()[*experts.shared_gate].gate;
  }
  RouteLaunch route = {};
  if (experts.routes) {
    route = route_launch(step, entry);
    launch.route = &route;
  }
  if (experts.routes || experts.routed) {
    launch.router_logits = memory_.experts.router_logits.as<uint32_t>();
  }
  cuda::launch(*experts.kernel, launch, stream_);
}

void StepOps::launch(const Step& step, const StepEntry& entry, const CacheEntry& cache) {
  ChooseSlotsLaunch choose = {};
  choose.cache = p_.caches.state(entry.op);
  choose.routing = routing(step, entry);
  choose.slots = memory_.experts.slots.as<int32_t>();
  choose.moves = memory_.experts.moves.as<int32_t>();
  choose.copied = static_cast<float>(cache.copied);
  if (cache.for_cpu) choose.cpu = p_.host->choice(entry.op, step.rows);
  launch_choose_slots(choose, stream_);
  p_.caches.will_change();
  MoveExpertsLaunch move = p_.caches.moves(entry.op);
  move.moves = choose.moves;
  move.blocks = setting_.gpu.multiprocessors;
  launch_move_experts(move, stream_);
}

void StepOps::launch(const Step& step, const StepEntry& entry, const ExpertsGateEntry&) {
  const auto& experts = op<FusedExperts>(entry);
  const int64_t ffn_dim = p_.fused.stacks(experts).back().ins;
  launch_gate({p_.fused.type, memory_.experts.pairs.as<void>(), false, nullptr,
               memory_.experts.gated.as<void>(), step.rows * experts.spec.used, ffn_dim,
               experts.spec.activation},
              stream_);
}

void StepOps::launch(const Step& step, const StepEntry& entry, const PlaceRowsEntry& rows) {
  check(memory_.experts.tiles.bytes() > 0, "there is room for tiles where kernels read them");
  PlaceRowsLaunch launch = {};
  launch.in = address(step, rows.in, p_.fused.type);
  launch.cols = rows.cols;
  launch.by_place = rows.by_place;
  launch.order = placed_order(rows.format);
  launch.odd = odd_columns(rows.format);
  launch.out = address(step, rows.out, p_.fused.type);
  launch.routing = routing(step, entry);
  launch.dependent = entry.dependent;
  launch_place_rows(launch, stream_);
}

void StepOps::launch(const Step& step, const StepEntry& entry, const CombineEntry&) {
  const auto& experts = op<FusedExperts>(entry);
  launch_combine({memory_.experts.sums.as<float>(), act<float>(experts.out),
                  p_.fused.cols(p_.fused.hidden), experts.scale, routing(step, entry),
                  entry.dependent, experts.adds, loaded(entry).expert_scale},
                 stream_);
}

}  // namespace skald::cuda
