// Plans products: their pieces, their kernels, the small kernels around them, and their edges.
#include <algorithm>

#include "cuda/kernels/tiles/layout.h"
#include "cuda/plan/step_planner.h"
#include "engine/base/error.h"

namespace skald::cuda {
namespace {

// Attention's blocks spend their first time on set-up code. During that time the product before
// them takes twice as long to stage its activations. So attention starts after the first
// activations are staged, unless the matrices have more bytes than this. Measured on q, k, v of an
// 8B model: the late start gains up to 4 % at 14 to 20 MB (4 to 6 bits) and loses 0.5 % at 27 MB
// (Q8_0).
constexpr int64_t kMostBytesBeforeLateStart = 24 << 20;

// With more rows, larger blocks gain more than starting beside attention.
constexpr int kMostRowsBesideAttention = 32;

// AddTo writes carried rows in blocks of this many columns.
constexpr int64_t kCarriedCols = 256;

int64_t bytes_of(const LinearShape& shape) {
  return matrix_bytes(shape.format, shape.outs, shape.ins);
}

// True if gate and up are two pieces: they have different formats, and are stored side by side and
// gated afterwards.
bool is_apart(const FusedProgram& fused, const FusedLinear& op) {
  return op.epilogue == Epilogue::Gated && !fused.alternates(op);
}

LinearShape product_shape(const FusedProgram& fused, const FusedLinear& op, const Piece& piece,
                          int rows) {
  const bool apart = is_apart(fused, op);
  LinearShape shape = {};
  shape.type = fused.type;
  shape.format = piece.format;
  shape.outs = piece.outs;
  shape.ins = fused.ins(op);
  shape.rows = rows;
  shape.norm_eps = op.norms_inside() ? op.norm->eps : 0;
  shape.epilogue = apart ? Epilogue::Store : op.post_norm ? Epilogue::Floats : op.epilogue;
  if (shape.epilogue == Epilogue::AddTo) shape.scale = op.scale;
  shape.out_stride = shape.epilogue == Epilogue::Gated ? fused.outs(op) / 2 : fused.outs(op);
  shape.activation = op.activation;
  shape.activates = op.activates;
  return shape;
}

// The small kernels before and after a product, for what its kernels do not do.
struct Around {
  bool norm_before = false;
  bool gate_after = false;  // adds the bias too; the product goes to the buffer of pairs
  bool bias_after = false;  // activates too
};

Around around(const FusedLinear& op, const ProductChoices& choices, bool apart) {
  Around steps;
  steps.norm_before = op.norm && !op.norms_inside();
  steps.gate_after = apart;
  for (const ProductChoice& choice : choices.all) {
    const bool gate_after = choice.shape.epilogue == Epilogue::Gated && !choice.kernel->gate;
    steps.norm_before |= choice.norm && !choice.kernel->norm;
    const bool finishes = choice.bias || choice.shape.activates;
    steps.bias_after |= finishes && !choice.kernel->bias && !gate_after;
    steps.gate_after |= gate_after;
  }
  return steps;
}

}  // namespace

bool ProductChoices::pair() const {
  return all.size() == 2 && all[0].kernel == all[1].kernel && all[0].kernel->supports_pair &&
         all[0].kernel->supports_pair(all[0].shape, all[1].shape);
}

size_t ProductChoices::sharing() const {
  size_t count = 0;
  while (count < all.size() && all[count].kernel->prepares &&
         gemm_q_shares_activations(all[0].shape.format, all[count].shape.format)) {
    ++count;
  }
  return count;
}

bool ProductChoices::signals() const {
  return all.front().kernel->signals && (all.size() == 1 || pair());
}

int64_t ProductChoices::bytes() const {
  int64_t bytes = 0;
  for (const ProductChoice& choice : all) bytes += bytes_of(choice.shape);
  return bytes;
}

ProductChoices StepPlanner::choices(const FusedLinear& op) const {
  ProductChoices choices;
  for (const Piece& piece : fused_.pieces(op)) {
    ProductChoice choice = {};
    choice.shape = product_shape(fused_, op, piece, kind_.rows);
    choice.shape.dependent = dependent_;
    choice.norm = op.norms_inside();
    choice.bias = fused_.has_bias(op) && !is_apart(fused_, op);
    const bool copy = setting_.copies && piece.format != fused_.type;
    choice.kernel = &select_product(choice.shape, {copy, setting_.reproducible}, setting_.gpu);
    choices.all.push_back(choice);
  }
  return choices;
}

void StepPlanner::add(const FusedLinear& op) {
  if (op.makes_copy) emit(ToTypeEntry{op.in}, false);
  ProductChoices choices = this->choices(op);
  const Around steps = around(op, choices, is_apart(fused_, op));
  BufferName in, out;
  in.act = op.in;
  if (kind_.head) in.kind = BufferName::Kind::HeadInput;
  if (steps.norm_before) {
    if (op.norms_inside()) {
      emit(RmsNormEntry{in, op.norm->out, op.norm->eps}, false);
    } else {
      emit(NormEntry{in, op.norm->out, op.norm->eps, op.norm->kind}, dependent_);
    }
    in = {};
    in.act = op.norm->out;
  }
  const bool logits = op.epilogue == Epilogue::Logits;
  const bool part = logits && fused_.program.logits().is_part();
  out.kind = part               ? BufferName::Kind::LogitsPart
             : logits           ? BufferName::Kind::Logits
             : steps.gate_after ? BufferName::Kind::Pairs
                                : BufferName::Kind::Act;
  if (out.kind == BufferName::Kind::Act) out.act = op.post_norm ? fused_.product(op) : op.out;

  const ProductChoices chosen = choices;  // edges need the pieces before the changes below
  for (ProductChoice& choice : choices.all) {
    choice.norm &= !steps.norm_before;
    choice.bias &= !steps.gate_after && !steps.bias_after;
    choice.shape.activates &= !steps.bias_after;
    if (choice.shape.epilogue == Epilogue::Gated && steps.gate_after) {
      choice.shape.epilogue = Epilogue::Store;
      choice.shape.out_stride = choice.shape.outs;
    }
  }
  const Range range = emit_products(op, choices, in, out);
  carry(op, chosen, range);
  share_activations(chosen, range);
  meet_attention(chosen, range);
  signal(op, chosen, range);

  const float scale = choices.all.front().shape.scale;
  if (steps.gate_after) {
    emit(GateEntry{fused_.alternates(op), fused_.has_bias(op)}, false);
  } else if (steps.bias_after) {
    const bool floats = logits || fused_.float_result(fused_.ops[at_]);
    emit(
        BiasEntry{floats ? DType::F32 : fused_.type, out, scale, fused_.has_bias(op), op.activates},
        false);
  }
  if (op.post_norm) emit(PostNormEntry{op.leaves_copy}, dependent_);
  if (op.caps()) emit(CapEntry{out}, dependent_);
  if (part) emit(GatherEntry(), dependent_);
}

StepPlanner::Range StepPlanner::emit_products(const FusedLinear& op, const ProductChoices& choices,
                                              BufferName in, BufferName out) {
  const std::vector<Piece> pieces = fused_.pieces(op);
  const bool pair = choices.pair();
  const size_t first = plan_.entries.size();
  for (size_t i = 0; i < pieces.size(); ++i) {
    const ProductChoice& choice = choices.all[i];
    ProductPiece piece = {i, choice.shape, choice.norm, choice.bias, out, tickets_ + i};
    piece.out.first_col = pieces[i].first_out;
    if (pair && i == 1) {
      std::get<ProductEntry>(plan_.entries.back().kind).pieces.push_back(piece);
      break;
    }
    const DType format = choice.shape.format;
    ProductEntry entry = {};
    entry.kernel = choice.kernel;
    entry.pieces = {piece};
    entry.in = in;
    if (choice.kernel->has_partners && !pair && mixed_) {
      if (format == mixed_->first) entry.partner = mixed_->second;
      if (format == mixed_->second) entry.partner = mixed_->first;
    }
    entry.paired = dependent_ && paired_;
    entry.pinned = setting_.reproducible;
    entry.copy = setting_.copies && format != fused_.type;
    if (choice.kernel->uses_copy && !entry.copy) {
      const int64_t group = tiles::kRows * choice.shape.ins * fused_.element;
      entry.expanded_rows = setting_.expanded_bytes / group * tiles::kRows;
    }
    emit(std::move(entry), dependent_);
  }
  return {first, plan_.entries.size()};
}

// Separate launches of pieces with the same prepared rows may run beside one another.
void StepPlanner::share_activations(const ProductChoices& choices, Range range) {
  const size_t count = choices.sharing();
  if (count < 2 || choices.pair()) return;
  double bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    bytes += static_cast<double>(bytes_of(choices.all[i].shape));
  }
  for (size_t i = 0; i < count; ++i) {
    auto& entry = std::get<ProductEntry>(plan_.entries[range.first + i].kind);
    entry.pieces.front().share = static_cast<double>(bytes_of(choices.all[i].shape)) / bytes;
    if (i > 0) connect(EdgeKind::SharedActivations, range.first, range.first + i);
  }
}

// Edges for prepared and carried rows, from the last op and to the next one. Carried rows need
// dependent launches: each waits for its predecessor before it reads.
void StepPlanner::carry(const FusedLinear& op, const ProductChoices& choices, Range range) {
  if (before_.prepared) connect(EdgeKind::Prepared, *before_.prepared, range.first);
  if (!dependent_ || choices.sharing() < choices.all.size()) {
    check(!before_.carried, "rows are carried to a product that takes them");
    norms_known_ = false;
    return;
  }
  if (op.norms_inside()) {
    norms_known_ = has_next();  // valid until the step ends
    for (size_t i = range.first; i < range.end; ++i) {
      std::get<ProductEntry>(plan_.entries[i].kind).keeps_norms = true;
      if (before_.carried) connect(EdgeKind::Carried, *before_.carried, i);
    }
    if (before_.carried && op.epilogue == Epilogue::Gated && !kind_.observed &&
        choices.all.size() == 1 && next_takes_prepared(op.out)) {
      after_.prepared = range.first;
    }
  } else if (op.epilogue == Epilogue::Floats && op.out == fused_.hidden) {
    norms_known_ = false;
  } else if (op.epilogue == Epilogue::AddTo && norms_known_ && choices.all.size() == 1 &&
             choices.all.front().shape.outs % kCarriedCols == 0 && next_takes_carried(op)) {
    after_.carried = range.first;
  }
}

bool StepPlanner::next_takes_carried(const FusedLinear& from) const {
  const auto* linear = next<FusedLinear>();
  if (!linear || !linear->norms_inside()) return false;
  if (linear->in != from.out || from.post_norm) return false;
  const ProductChoices choices = this->choices(*linear);
  return choices.sharing() == choices.all.size();
}

// True if the next op can read `from` as prepared rows; this op's bound limits the values.
bool StepPlanner::next_takes_prepared(ActId from) const {
  const auto* linear = next<FusedLinear>();
  if (!linear || linear->norm || linear->makes_copy || linear->in != from) return false;
  const ProductChoices choices = this->choices(*linear);
  return choices.all.size() == 1 && choices.all.front().kernel->prepares &&
         gemm_q_takes_prepared(choices.all.front().shape, setting_.bounds[at_]);
}

// Gate and up signal to down, which fills its ring long before they end. No other product gains
// from a signal.
void StepPlanner::signal(const FusedLinear& op, const ProductChoices& choices, Range range) {
  if (before_.signal) connect(EdgeKind::Signal, *before_.signal, range.first);
  if (!dependent_ || op.epilogue != Epilogue::Gated || !choices.signals()) return;
  const auto* linear = next<FusedLinear>();
  if (!linear || linear->norm || linear->in != op.out) return;
  if (this->choices(*linear).signals()) after_.signal = range.first;
}

void StepPlanner::meet_attention(const ProductChoices& choices, Range range) {
  if (!dependent_) return;
  const bool before = next<FusedAttention>();
  if (before && choices.all.back().kernel->signals &&
      choices.bytes() <= kMostBytesBeforeLateStart) {
    after_.late_start = range.end - 1;
  }
  if (kind_.rows > kMostRowsBesideAttention) return;
  for (size_t i = range.first; i < range.end; ++i) {
    if (!std::get<ProductEntry>(plan_.entries[i].kind).kernel->prepares) continue;
    if (before_.attention) connect(EdgeKind::Beside, *before_.attention, i);
    if (before) after_.beside.push_back(i);
  }
}

}  // namespace skald::cuda
