#include "cuda/plan/step_plan.h"

#include <algorithm>

#include "cuda/kernels/tiles/odd_columns.h"
#include "cuda/plan/experts_shape.h"
#include "cuda/plan/step_planner.h"
#include "engine/base/error.h"

namespace skald::cuda {
namespace {

const Edge* find(const std::vector<Edge>& edges, EdgeKind kind) {
  const auto found = std::find_if(edges.begin(), edges.end(),
                                  [kind](const Edge& edge) { return edge.kind == kind; });
  return found == edges.end() ? nullptr : &*found;
}

// Paired blocks (GemvPart::paired) have a smaller ring. That costs 1 % in a long kernel. Between
// short kernels it saves most of the gap. The largest matrix of a layer has 64 MiB in Llama-3.2-1B
// and 224 MiB in an 8B model.
constexpr int64_t kMostPairedBytes = 100 << 20;

bool pairs_blocks(const FusedProgram& fused) {
  for (const FusedOp& op : fused.ops) {
    const auto* linear = std::get_if<FusedLinear>(&op.op);
    if (!linear || linear->epilogue == Epilogue::Logits) continue;
    for (const Piece& piece : fused.pieces(*linear)) {
      if (matrix_bytes(piece.format, piece.outs, fused.ins(*linear)) > kMostPairedBytes) {
        return false;
      }
    }
  }
  return true;
}

std::optional<std::pair<DType, DType>> mixed_formats(const FusedProgram& fused) {
  for (const FusedOp& op : fused.ops) {
    const auto* linear = std::get_if<FusedLinear>(&op.op);
    if (!linear) continue;
    const std::vector<Piece> pieces = fused.pieces(*linear);
    if (pieces.size() == 2 && has_gemv_q_pair_sm90(pieces[0].format, pieces[1].format)) {
      return std::pair(pieces[0].format, pieces[1].format);
    }
  }
  return std::nullopt;
}

}  // namespace

const Edge* StepEntry::taken(EdgeKind edge) const { return find(takes, edge); }
const Edge* StepEntry::left(EdgeKind edge) const { return find(leaves, edge); }

std::vector<float> assumed_bounds(const FusedProgram& fused) {
  std::vector<float> bounds(fused.ops.size());
  for (size_t i = 0; i < fused.ops.size(); ++i) {
    const auto* linear = std::get_if<FusedLinear>(&fused.ops[i].op);
    if (linear && fused.bounded(*linear)) {
      bounds[linear->epilogue == Epilogue::Gated ? i : i + 1] = 1;
    }
    const auto* attention = std::get_if<FusedAttention>(&fused.ops[i].op);
    if (attention) bounds[i] = fused.own_bound(*attention).value_or(bounds[i]);
  }
  return bounds;
}

StepPlan plan_step(const FusedProgram& fused, const PlanSetting& setting, const StepKind& kind) {
  check(setting.bounds.size() == fused.ops.size(), "a bound for every op");
  return StepPlanner(fused, setting, kind).run();
}

StepPlanner::StepPlanner(const FusedProgram& fused, const PlanSetting& setting,
                         const StepKind& kind)
    : fused_(fused),
      setting_(setting),
      kind_(kind),
      dependent_(setting.dependent && kind.decode),
      paired_(pairs_blocks(fused)),
      mixed_(mixed_formats(fused)),
      host_(host_part()),
      copies_(plan_copies()) {}

StepPlan StepPlanner::run() {
  for (const CopyTime& copy : copies_) {
    if (copy.ahead) plan_.begun.push_back(copy.op);
  }
  for (at_ = 0; at_ < fused_.ops.size(); ++at_) {
    const FusedOp& op = fused_.ops[at_];
    const auto* linear = std::get_if<FusedLinear>(&op.op);
    const bool head = linear && linear->epilogue == Epilogue::Logits;
    if (head ? kind_.head || kind_.decode : !kind_.head) {
      if (is_copied(at_)) emit(AwaitEntry(), false);
      if (joined_ > 0) {
        --joined_;
      } else if (is_on_host(at_)) {
        emit(HostEntry{linear && linear->leaves_copy}, false);
        norms_known_ = false;
        plan_.waits = true;
      } else {
        std::visit([this](const auto& o) { add(o); }, op.op);
      }
      for (const CopyTime& copy : copies_) {
        if (copy.after == at_) emit(CopyEntry{copy.op}, false);
      }
    }
    if (linear) tickets_ += fused_.pieces(*linear).size();
    before_ = std::exchange(after_, {});
  }
  return std::move(plan_);
}

// A kernel that reads weights before it waits for its predecessor must not start before the copy.
size_t StepPlanner::emit(EntryKind kind, bool dependent) {
  const bool awaits =
      !plan_.entries.empty() && std::holds_alternative<AwaitEntry>(plan_.entries.back().kind);
  plan_.entries.push_back({at_, dependent && !awaits, std::move(kind), {}, {}});
  return plan_.entries.size() - 1;
}

void StepPlanner::connect(EdgeKind kind, size_t from, size_t to) {
  plan_.entries[from].leaves.push_back({kind, to});
  plan_.entries[to].takes.push_back({kind, from});
}

void StepPlanner::add(const Embed& embed) {
  const bool tiles = fused_.format(embed.weight) != fused_.type;
  emit(EmbedEntry{tiles, embed.scale}, kind_.after_pick && setting_.dependent);
}

void StepPlanner::add(const Given& given) {
  if (given.out == fused_.hidden) norms_known_ = false;
  emit(GivenEntry(), dependent_);
}

void StepPlanner::add(const Norm& norm) {
  BufferName in;
  in.act = norm.in;
  emit(NormEntry{in, norm.out, norm.eps, norm.kind}, dependent_);
}

void StepPlanner::add(const RowGate&) { emit(RowGateEntry(), dependent_); }

void StepPlanner::add(const GatedAct&) { emit(GatedActEntry(), dependent_); }

void StepPlanner::add(const GatedPart&) { emit(GatedPartEntry(), dependent_); }

void StepPlanner::add(const FusedPart&) { emit(PartEntry(), dependent_); }

void StepPlanner::add(const BufferNorm&) { emit(BufferNormEntry(), dependent_); }

void StepPlanner::add(const HeadProducts&) { emit(HeadProductsEntry(), dependent_); }

void StepPlanner::add(const SumOfNorms&) { emit(SumOfNormsEntry(), dependent_); }

void StepPlanner::add(const FusedExchange&) { emit(ExchangeEntry(), dependent_); }

// Several rows of a sequence follow one another.
StateNeed StepPlanner::state_need() const {
  return {kind_.decode && !kind_.several, kind_.few_each || kind_.several, setting_.reproducible};
}

void StepPlanner::add(const FusedDelta& net) {
  const StateNeed need = state_need();
  emit(DeltaEntry{&select_state(fused_.shape(net), need, setting_.gpu)}, dependent_ && need.decode);
}

void StepPlanner::add(const FusedSpace& space) {
  const StateNeed need = state_need();
  emit(SpaceEntry{&select_state(fused_.shape(space), need, setting_.gpu)},
       dependent_ && need.decode);
}

void StepPlanner::add(const FusedShortConv&) {
  const bool one_each = kind_.decode && !kind_.several;
  emit(ShortConvEntry{!one_each}, dependent_ && one_each);
}

void StepPlanner::add(const FusedAttention& op) {
  AttentionCode code = setting_.attention;
  if (kind_.decode && !setting_.clusters) code = std::min(code, AttentionCode::Mma);
  const std::optional<CacheTypes>& coded = setting_.coded_cache;
  const AttentionKernel& kernel = select_attention(code, op.spec, kind_.decode, coded);
  const bool by_plain = coded && !kernel.reads_codes;  // attention reads a plain cache
  const size_t first = plan_.entries.size();
  if (op.norm && op.norm->whole) emit(QkNormEntry(), dependent_);
  const bool after_append = kernel.decode && (kind_.several || by_plain);
  const bool apart = !kernel.decode || after_append;  // appends before attention starts
  if (!kernel.decode || (after_append && op.appends)) emit(RopeAppendEntry(), dependent_);
  if (coded && apart && op.appends) emit(EncodeCacheEntry(), dependent_);
  if (by_plain) emit(DecodeCacheEntry(), dependent_);
  const bool several = after_append || (kernel.any_step && (kind_.several || by_plain));
  const size_t entry =
      emit(AttentionEntry{&kernel, code, kind_.depth, several}, dependent_ && !after_append);
  if (before_.late_start) connect(EdgeKind::LateStart, *before_.late_start, first);
  // Blocks of other kernels do not fit beside those of products.
  const bool beside = kernel.decode && kernel.least > AttentionCode::Plain && !coded;
  if (beside && !after_append) {
    for (size_t product : before_.beside) connect(EdgeKind::Beside, product, entry);
  }
  const bool rotated = coded && is_rotated(coded->values);  // the output is rotated back
  const bool prepares = !rotated && kernel.prepares && kernel.prepares(op.spec);
  if (dependent_ && !kind_.observed && prepares && next_takes_prepared(op.out)) {
    after_.prepared = entry;
  }
  if (beside) after_.attention = entry;
}

void StepPlanner::add(const FusedExperts& op) {
  const bool in_place = reads_in_place(at_), shared = is_shared(at_);
  const bool cached = in_place && (shared || setting_.placement.ops[at_].cached > 0);
  std::vector<ExpertsEntry> products = expert_products(op, in_place);
  const bool apart = products.size() > 2;  // gate and up are two stacks
  ExpertsEntry &gate = products.front(), &down = products.back();
  if (!apart) join_shared(op, gate, down);
  if (!apart && routes_inside(op, gate, down)) {
    gate.routes = down.routed = true;
    gate.in.act = op.norm.in;
    if (gate.shape.with_shared) joined_ = op.shared_ops;
  } else {
    emit(RouteEntry(), dependent_);
  }
  if (kind_.rows > 1) emit(SortChoicesEntry(), dependent_);
  if (cached) emit(CacheEntry{shared ? host_.copied : 1, shared}, false);
  const size_t first = plan_.entries.size();
  const ExpertsKernel* before = nullptr;  // the kernel of the product before
  // Gate and up write placed rows of 16 bits where down reads them.
  if (gate.shape.epilogue == Epilogue::Gated && gate.kernel->placed && down.kernel->placed &&
      placed_order(down.shape.format) == RowOrder::Placed) {
    gate.shape.out_order = RowOrder::Placed;
  }
  std::optional<PlaceRowsEntry> placed;  // the last one
  for (ExpertsEntry& product : products) {
    product.slots = cached;
    product.shape.chosen_early = before && before->after_choice && product.kernel->after_choice;
    if (apart && &product == &down) emit(ExpertsGateEntry(), false);
    if (product.kernel->placed) place_rows(product, gate, placed);
    emit(product, dependent_);
    before = product.kernel;
  }
  if (dependent_ && !apart && gate.kernel->signals && down.kernel->signals) {
    connect(EdgeKind::Signal, first, first + 1);
  }
  if (!down.shape.sums) emit(CombineEntry(), dependent_);
  if (!shared) return;
  emit(HostExpertsEntry(), false);
  plan_.waits = true;
}

// Emits what brings the product's rows into the order of places, unless the kernel ahead does.
void StepPlanner::place_rows(ExpertsEntry& product, const ExpertsEntry& gate,
                             std::optional<PlaceRowsEntry>& last) {
  using Kind = BufferName::Kind;
  const ExpertsShape& shape = product.shape;
  if (shape.by_place && gate.shape.out_order == RowOrder::Placed) return;
  PlaceRowsEntry rows = {product.in, {}, shape.ins, shape.by_place, shape.format};
  rows.out.kind = shape.by_place ? Kind::ExpertsPairs : Kind::ExpertsSums;
  product.in = rows.out;
  // Up may read the rows of gate.
  const bool known = last && last->by_place == rows.by_place &&
                     placed_order(last->format) == placed_order(rows.format) &&
                     odd_columns(last->format) == odd_columns(rows.format);
  if (!known) emit(rows, dependent_);
  last = rows;
}

// The products of all stacks, without their edges. The last one is that of down.
std::vector<ExpertsEntry> StepPlanner::expert_products(const FusedExperts& op,
                                                       bool in_place) const {
  using Kind = BufferName::Kind;
  const std::vector<ExpertStack> stacks = fused_.stacks(op);
  const RoutingShape routing = {kind_.rows, op.spec.used, op.spec.count};
  const ExpertsNeed need = {.reproducible = setting_.reproducible, .in_place = in_place};
  const bool apart = stacks.size() > 2;
  std::vector<ExpertsEntry> products;
  for (size_t i = 0; i < stacks.size(); ++i) {
    ExpertsEntry entry = {};
    entry.stack = i;
    entry.in_place = in_place;
    entry.shape = experts_shape(fused_, op, stacks[i]);
    entry.shape.dependent = dependent_;
    entry.in.act = op.norm.out;
    entry.out.kind = apart ? Kind::ExpertsPairs : Kind::ExpertsGated;
    if (apart) entry.out.first_col = static_cast<int64_t>(i) * stacks.back().ins;
    if (i + 1 == stacks.size()) {
      entry.in = entry.out = {};
      entry.in.kind = Kind::ExpertsGated;
      entry.out.kind = Kind::ExpertsSums;
      ExpertsShape sum = entry.shape;
      sum.sums = true;
      sum.scale = op.scale;
      sum.epilogue = op.adds ? Epilogue::AddTo : Epilogue::Floats;
      const bool plain = op.expert_scale == WeightId::None;
      entry.kernel = plain ? find_experts(sum, routing, setting_.gpu, need) : nullptr;
      if (entry.kernel) {
        entry.shape = sum;
        entry.out.kind = Kind::Act;
        entry.out.act = op.out;
      }
    }
    if (!entry.kernel) {
      entry.kernel = &select_experts(entry.shape, routing, setting_.gpu, need);
    }
    products.push_back(entry);
  }
  return products;
}

// True if gate and up can route the row themselves.
bool StepPlanner::routes_inside(const FusedExperts& op, const ExpertsEntry& gate,
                                const ExpertsEntry& down) const {
  const RoutingShape routing = {kind_.rows, op.spec.used, op.spec.count};
  const bool normed = op.keeps_norm && !gate.shape.with_shared;  // another op reads the norm
  return gate.kernel->routes && gate.kernel == down.kernel && !normed && !setting_.gpu.mps &&
         !fused_.routes_apart(op) && op.spec.used_groups == op.spec.groups &&
         gate.kernel->routes(gate.shape, routing, setting_.gpu.multiprocessors);
}

// If the kernel of the chosen experts can compute the shared expert as one more of them, and route
// the row too, says so in both products.
void StepPlanner::join_shared(const FusedExperts& op, ExpertsEntry& gate,
                              ExpertsEntry& down) const {
  const bool biased = op.gate_bias != WeightId::None || op.up_bias != WeightId::None ||
                      op.down_bias != WeightId::None;
  if (op.shared_ops == 0 || biased || kind_.rows != 1 || kind_.observed) return;
  for (size_t i = at_ + 1; i <= at_ + op.shared_ops; ++i) {
    if (is_copied(i) || is_on_host(i)) return;
  }
  const RoutingShape routing = {kind_.rows, op.spec.used, op.spec.count};
  const auto joined = [&](ExpertsEntry product, size_t shared) {
    product.shape.with_shared = true;
    product.shared_op = shared;
    return product;
  };
  const auto fits = [&](const ExpertsEntry& product) {
    const auto& linear = std::get<FusedLinear>(fused_.ops[product.shared_op].op);
    const std::vector<Piece> pieces = fused_.pieces(linear);
    const ExpertsShape& shape = product.shape;
    return pieces.size() == 1 && pieces.front().format == shape.format &&
           fused_.outs(linear) == shape.outs && fused_.ins(linear) == shape.ins &&
           product.kernel->supports(shape, routing);
  };
  ExpertsEntry with_gate = joined(gate, at_ + 1), with_down = joined(down, at_ + op.shared_ops);
  if (op.shared_ops == 3) with_gate.shared_gate = at_ + 2;
  if (!fits(with_gate) || !fits(with_down) || !routes_inside(op, with_gate, with_down)) return;
  gate = with_gate;
  down = with_down;
}

}  // namespace skald::cuda
