#include "cuda/plan/place.h"

#include <algorithm>

#include "cuda/kernels/experts/experts_cache.h"
#include "cuda/kernels/tiles/row_lengths.h"
#include "cuda/plan/sizes.h"
#include "engine/base/error.h"
#include "engine/base/overloaded.h"

namespace skald::cuda {
namespace {

int64_t norm_weight_bytes(const FusedProgram& fused, const Norm& norm) {
  return padded(fused.cols(norm.in) * 4) * (norm.bias == WeightId::None ? 1 : 2);
}

// The layout of cuda/load/weights.h.
OpBytes bytes_of(const FusedProgram& fused, const FusedOp& op) {
  OpBytes bytes;
  const auto add_matrix = [&](DType format, int64_t outs, int64_t ins, int64_t count = 1) {
    bytes.matrices += count * padded(matrix_bytes(format, outs, ins));
  };
  const auto add_floats = [&](int64_t count) { bytes.others += padded(count * 4); };
  std::visit(Overloaded{
                 [&](const Embed& o) {
                   const TensorView& view = fused.program.weight(o.weight).view;
                   add_matrix(fused.format(o.weight), view.rows, view.cols);
                 },
                 [&](const Norm& o) { bytes.others += norm_weight_bytes(fused, o); },
                 [&](const FusedLinear& o) {
                   for (const Piece& piece : fused.pieces(o)) {
                     if (fused.shares_embedding(o)) continue;
                     add_matrix(piece.format, piece.outs, fused.ins(o));
                   }
                   if (o.norm) bytes.others += norm_weight_bytes(fused, *o.norm);
                   if (fused.bounded(o)) bytes.others += padded(sizeof(RowLengths));
                   if (o.post_norm) add_floats(fused.outs(o) / o.norm_parts);
                   if (fused.has_bias(o)) add_floats(fused.outs(o));
                 },
                 [&](const FusedExperts& o) {
                   const int64_t dim = fused.cols(fused.hidden);
                   add_floats(dim);
                   add_floats(o.spec.count * dim);
                   if (fused.routes_apart(o)) add_floats(dim);
                   for (WeightId bias : {o.router_bias, o.choice_bias, o.expert_scale}) {
                     if (bias != WeightId::None) add_floats(o.spec.count);
                   }
                   for (const ExpertStack& stack : fused.stacks(o)) {
                     add_matrix(stack.format, stack.outs, stack.ins, o.spec.count);
                     if (!stack.biases.empty()) add_floats(o.spec.count * stack.outs);
                   }
                 },
                 [&](const RowGate& o) { add_floats(fused.cols(o.in)); },
                 [&](const FusedDelta& o) {
                   add_floats(fused.shape(o).ring_floats());
                   add_floats(o.spec.value_heads);
                   add_floats(o.spec.value_heads);
                   add_floats(o.spec.value_dim);
                 },
                 [&](const FusedSpace& o) {
                   const SpaceShape shape = fused.shape(o);
                   add_floats(shape.ring_floats());
                   if (o.conv_bias != WeightId::None) add_floats(shape.conv_cols());
                   for (int i = 0; i < 3; ++i) add_floats(o.spec.heads);
                   add_floats(shape.values());
                 },
                 [&](const FusedShortConv& o) { add_floats(o.taps * fused.cols(o.out)); },
                 [&](const FusedExchange& o) {
                   if (o.norm) bytes.others += norm_weight_bytes(fused, *o.norm);
                 },
                 [&](const SumOfNorms& o) {
                   for (int i = 0; i < 3; ++i) add_floats(fused.cols(o.out));
                 },
                 [](const Given&) {},
                 [](const GatedAct&) {},
                 [](const GatedPart&) {},
                 [](const FusedPart&) {},
                 [&](const BufferNorm& o) { add_floats(fused.cols(o.out)); },
                 [&](const HeadProducts& o) {
                   const TensorView& view = fused.program.weight(o.weight).view;
                   bytes.others += padded(matrix_bytes(fused.type, view.rows, view.cols));
                 },
                 [&](const FusedAttention& o) {
                   if (o.sinks != WeightId::None) add_floats(o.spec.heads);
                   if (!o.norm) return;
                   add_floats(o.norm->cols(o.spec, o.spec.heads));
                   if (o.appends) add_floats(o.norm->cols(o.spec, o.spec.kv_heads));
                 },
             },
             op.op);
  return bytes;
}

// True if other ops run with the same weights, as in a looped model.
bool runs_again(const FusedProgram& fused, size_t op) {
  const auto& first = fused.first_with_weights;
  return std::count(first.begin(), first.end(), op) > 1;
}

// Embeddings are read in place: a step needs few of their rows. A head that shares the embedding's
// matrix reads all of it.
bool can_stay_on_host(const FusedProgram& fused, const FusedOp& op) {
  const auto* embed = std::get_if<Embed>(&op.op);
  return embed && !(embed->out == fused.hidden && fused.shares_embedding(fused.head()));
}

bool can_stream(const FusedProgram& fused, size_t index) {
  if (runs_again(fused, index)) return false;
  const auto& op = fused.ops[index].op;
  if (const auto* linear = std::get_if<FusedLinear>(&op)) {
    return linear->epilogue != Epilogue::Logits;
  }
  return std::holds_alternative<FusedExperts>(op);
}

void stream(size_t index, Placement& placement) {
  OpPlace& op = placement.ops[index];
  const bool mapped = placement.kind == HostMemoryKind::Mapped;
  op.home = mapped ? Home::InPlace : Home::Streamed;
  (mapped ? placement.mapped : placement.streamed).push_back(index);
  placement.device -= op.bytes;
  placement.streamed_bytes += op.bytes;
  placement.row_bytes += op.row_bytes;
  placement.host += op.bytes;
}

void leave_in_place(size_t index, Placement& placement) {
  OpPlace& op = placement.ops[index];
  op.home = Home::InPlace;
  placement.device -= op.bytes;
  placement.host += op.bytes;
}

// What the user's rules say, before anything is placed automatically.
void follow_rules(const FusedProgram& fused, const PlaceRules& rules, Placement& placement) {
  for (size_t i = 0; i < rules.size(); ++i) {
    OpPlace& op = placement.ops[i];
    if (!rules[i] || op.bytes == 0 || !can_leave(fused, i, placement.kind)) continue;
    op.rule = rules[i];
    const bool stays = op.rule == WeightPlace::Gpu;
    (stays ? placement.device_by_rule : placement.host_by_rule) += op.bytes;
    if (stays) continue;
    if (can_stay_on_host(fused, fused.ops[i])) {
      leave_in_place(i, placement);
    } else {
      stream(i, placement);
    }
  }
}

// Streams a share of the bytes of these ops, spread evenly over the layers: then the copies have
// the time of all that is computed between them.
void stream_share(const std::vector<size_t>& ops, double share, Placement& placement) {
  double owed = 0;
  for (size_t i : ops) {
    const auto bytes = static_cast<double>(placement.ops[i].bytes);
    owed += share * bytes;
    if (owed < bytes / 2) continue;
    owed -= bytes;
    stream(i, placement);
  }
}

int64_t state_bytes(const FusedProgram& fused, const Placement& placement, size_t op) {
  const auto* experts = std::get_if<FusedExperts>(&fused.ops[op].op);
  if (!experts) return 0;
  return padded(cache_state_size(experts->spec.count, placement.ops[op].cached) * 4);
}

// The host has all experts of these ops. A share of them does not fit in the caches, which have
// equally many slots of each layer, or one more.
void cache_experts(const FusedProgram& fused, const std::vector<size_t>& ops, double share,
                   Placement& placement) {
  double owed = 0;
  for (size_t i : ops) {
    OpPlace& op = placement.ops[i];
    const int count = std::get<FusedExperts>(fused.ops[i].op).spec.count;
    owed += (1 - share) * count;
    op.home = Home::Streamed;
    op.cached = std::clamp(static_cast<int>(owed), 0, count - 1);
    owed -= op.cached;
    op.cache = placement.caches;
    const int64_t cached = op.bytes / count * op.cached;
    const double left = 1 - static_cast<double>(op.cached) / count;
    placement.caches += cached;
    placement.streamed.push_back(i);
    placement.device -= op.bytes;
    placement.host += op.bytes;
    placement.streamed_bytes += op.bytes - cached;
    placement.row_bytes += static_cast<int64_t>(left * static_cast<double>(op.row_bytes));
  }
}

// Once all ops have their homes.
void finish(const FusedProgram& fused, Placement& placement) {
  std::sort(placement.streamed.begin(), placement.streamed.end());
  std::sort(placement.mapped.begin(), placement.mapped.end());
  for (size_t op : placement.streamed) placement.caches += state_bytes(fused, placement, op);
  place_slots(placement);
}

// The ops that may be streamed. Experts go first: a row needs few of them.
struct Streamable {
  std::vector<size_t> experts, others;
  double experts_share = 0;  // of the bytes

  Streamable(const FusedProgram& fused, const std::vector<OpPlace>& places) {
    double expert_bytes = 0, other_bytes = 0;
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i].bytes == 0 || places[i].rule || !can_stream(fused, i)) continue;
      const bool expert = std::holds_alternative<FusedExperts>(fused.ops[i].op);
      (expert ? experts : others).push_back(i);
      (expert ? expert_bytes : other_bytes) += static_cast<double>(places[i].bytes);
    }
    if (expert_bytes > 0) experts_share = expert_bytes / (expert_bytes + other_bytes);
  }

  // Streams this share of all bytes.
  Placement place(const FusedProgram& fused, double share, bool caches, Placement placement) const {
    const double first = std::min(share, experts_share);
    if (first > 0 && caches) cache_experts(fused, experts, first / experts_share, placement);
    if (first > 0 && !caches) stream_share(experts, first / experts_share, placement);
    if (share > first) stream_share(others, (share - first) / (1 - experts_share), placement);
    finish(fused, placement);
    return placement;
  }
};

bool overlap(const OpPlace& a, const OpPlace& b) {
  return a.slot < b.slot + b.bytes && b.slot < a.slot + a.bytes;
}

}  // namespace

bool can_leave(const FusedProgram& fused, size_t op, HostMemoryKind host) {
  if (fused.first_with_weights[op] != op || runs_again(fused, op)) return false;
  if (can_stream(fused, op)) return true;
  return host != HostMemoryKind::Pageable && can_stay_on_host(fused, fused.ops[op]);
}

void place_slots(Placement& placement) {
  constexpr std::ptrdiff_t kBefore = 2;
  std::vector<const OpPlace*> before;  // the last kBefore ops that got slots
  placement.slots = 0;
  for (size_t index : placement.streamed) {
    OpPlace& op = placement.ops[index];
    const auto free_at = [&](int64_t slot) {
      op.slot = slot;
      return std::none_of(before.begin(), before.end(),
                          [&](const OpPlace* other) { return overlap(*other, op); });
    };
    // The lowest place is at the beginning or behind another op.
    std::vector<int64_t> ends = {0};
    for (const OpPlace* other : before) ends.push_back(other->slot + other->bytes);
    std::sort(ends.begin(), ends.end());
    op.slot = *std::find_if(ends.begin(), ends.end(), free_at);
    placement.slots = std::max(placement.slots, op.slot + op.bytes);
    before.push_back(&op);
    if (std::ssize(before) > kBefore) before.erase(before.begin());
  }
}

std::vector<OpBytes> op_bytes(const FusedProgram& fused) {
  std::vector<OpBytes> all(fused.ops.size());
  for (size_t i = 0; i < all.size(); ++i) {
    if (fused.first_with_weights[i] == i) all[i] = bytes_of(fused, fused.ops[i]);
  }
  return all;
}

Placement place_weights(const FusedProgram& fused, const PlaceRequest& request) {
  Placement all;
  all.kind = request.host;
  for (const OpBytes& bytes : op_bytes(fused)) {
    const auto* experts = std::get_if<FusedExperts>(&fused.ops[all.ops.size()].op);
    const bool chosen = experts && all.kind != HostMemoryKind::Pageable;
    const int64_t of_row =
        chosen ? bytes.matrices / experts->spec.count * experts->spec.used : bytes.matrices;
    all.ops.push_back({Home::Device, bytes.matrices, 0, of_row});
    all.device += bytes.matrices + bytes.others;
  }
  for (const RopeSpec& rope : fused.program.ropes) {
    all.device += padded(static_cast<int64_t>(rope.inv_freq.size()) * 4);
  }
  follow_rules(fused, request.rules, all);
  const auto fits = [&](const Placement& placement) {
    return !request.room || placement.on_device() <= *request.room;
  };
  const double resident = request.share.value_or(1);
  if (resident >= 1) {
    Placement ruled = all;
    finish(fused, ruled);
    if (fits(ruled)) return ruled;
  }
  for (size_t i = 0; i < all.ops.size(); ++i) {
    const OpPlace& op = all.ops[i];
    const bool free = op.bytes > 0 && !op.rule;
    if (free && can_leave(fused, i, all.kind) && can_stay_on_host(fused, fused.ops[i])) {
      leave_in_place(i, all);
    }
  }
  const Streamable streamable(fused, all.ops);
  const bool locked = all.kind == HostMemoryKind::Auto || all.kind == HostMemoryKind::Pinned;
  const bool caches = request.caches && locked;
  const auto place = [&](double share) { return streamable.place(fused, share, caches, all); };
  if (resident < 1) return place(1 - resident);
  // The smallest share that fits, in two passes.
  constexpr int kCoarse = 16, kFine = 16;
  for (int coarse = 0; coarse <= kCoarse; ++coarse) {
    if (!fits(place(static_cast<double>(coarse) / kCoarse))) continue;
    for (int fine = coarse > 0 ? 1 - kFine : 0; fine <= 0; ++fine) {
      const double share = (coarse + static_cast<double>(fine) / kFine) / kCoarse;
      Placement placement = place(share);
      if (fits(placement)) return placement;
    }
  }
  return place(1);
}

std::vector<CopyTime> copy_times(const Placement& placement, const std::vector<size_t>& ops) {
  std::vector<CopyTime> times;
  const auto count = std::ssize(ops);
  // Counts ops from the first one of the step before: that step has [0, count), this one the next.
  int64_t latest = 0;
  for (int64_t at = count; at < 2 * count; ++at) {
    const size_t op = ops[static_cast<size_t>(at - count)];
    int64_t before = at - 1;
    while (before > at - count &&
           !overlap(placement.ops[ops[static_cast<size_t>(before % count)]], placement.ops[op])) {
      --before;
    }
    latest = std::max(latest, before);  // copies begin in the order of the ops
    times.push_back({op, ops[static_cast<size_t>(latest % count)], latest < count});
  }
  return times;
}

}  // namespace skald::cuda
