#include "cuda/run/products.h"

#include <algorithm>
#include <utility>

#include "cuda/gpu/check.h"
#include "cuda/kernels/pointwise/pointwise.h"
#include "cuda/kernels/tiles/expand_q.h"
#include "cuda/kernels/tiles/layout.h"

namespace skald::cuda {

static_assert(kWholeProductRows == kPinnedRows);

namespace {

// Paired blocks have a smaller ring, which costs a hundredth where a kernel takes long, and saves
// most of what lies between two where it does not. Llama-3.2-1B's largest matrix of a layer has 64
// MiB, that of an 8B model 224.
constexpr int64_t kMostPairedBytes = 100 << 20;

// Attention's blocks run through so much code once that beside them activations take twice as long
// to stage, so they start when the first of these are there. An 8B model's q, k and v have 14 to 20
// MB in 4 to 6 bits, where that gains up to 4 %, and 27 MB in Q8_0, where it loses 0.5 %.
constexpr int64_t kMostBytesBeforeLateStart = 24 << 20;

// Of more rows products gain more from larger blocks than from starting beside attention.
constexpr int kMostRowsBesideAttention = 32;

bool is_attention(const FusedOp& op) { return std::holds_alternative<FusedAttention>(op.op); }

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

// Those of the first product that is a pair.
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

// How many pieces, from the first on, gemm_q_sm90 multiplies by the same activations.
size_t alike(const std::vector<LinearLaunch>& launches, const std::vector<LinearKernel>& kernels) {
  size_t count = 0;
  while (count < launches.size() && kernels[count] == LinearKernel::GemmQSm90 &&
         gemm_q_shares_activations(launches[0].format, launches[count].format)) {
    ++count;
  }
  return count;
}

// These run beside one another.
void join_pieces(std::vector<LinearLaunch>& launches, const std::vector<LinearKernel>& kernels) {
  const size_t count = alike(launches, kernels);
  double bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    bytes +=
        static_cast<double>(matrix_bytes(launches[i].format, launches[i].outs, launches[i].ins));
  }
  for (size_t i = 0; i < count && count > 1; ++i) {
    LinearLaunch& launch = launches[i];
    (i == 0 ? launch.first_piece : launch.next_piece) = true;
    launch.share =
        static_cast<double>(matrix_bytes(launch.format, launch.outs, launch.ins)) / bytes;
  }
}

}  // namespace

Products::Products(const Setting& setting, Stream stream)
    : s_(setting),
      paired_(pairs_blocks(setting.fused)),
      mixed_(mixed_formats(setting.fused)),
      room_(has_gemm_q_sm90(setting.gpu.compute_capability) ? cluster_room() : ClusterRoom()),
      stream_(stream),
      expanded_(s_.sizes.expanded, "16-bit rows of weights"),
      workspace_(s_.sizes.product, "activations"),
      handed_(s_.sizes.handed, "activations"),
      pairs_(s_.sizes.pairs, "activations"),
      tickets_(s_.sizes.product_tickets, "the step's table") {
  // Activations too: a tile's rows beyond a step's are multiplied as well.
  for (DeviceMemory* memory : {&tickets_, &handed_, &workspace_}) {
    SKALD_CUDA(
        cudaMemsetAsync(memory->as<void>(), 0, static_cast<size_t>(memory->bytes()), stream));
  }
}

// The pieces of a product share what runs before and after it.
void Products::run(const LoadedOp& op, const FusedLinear& linear, const Rows& rows) {
  const FusedProgram& fused = s_.fused;
  if (linear.makes_copy) {
    launch_to_type(fused.type, act<float>(fused.hidden), act(linear.in),
                   rows.count * fused.ins(linear), stream_);
  }
  const std::vector<Piece> pieces = fused.pieces(linear);
  const bool apart = linear.epilogue == Epilogue::Gated && pieces.size() > 1;
  std::vector<LinearLaunch> launches = this->launches(op, linear, rows.count);
  const bool before_attention = rows.next && is_attention(*rows.next->fused);
  const bool behind_attention = op.fused != fused.ops.data() && is_attention(op.fused[-1]);
  std::vector<LinearKernel> kernels;
  LinearSteps steps = {};
  steps.norm_before = linear.norm && !linear.norms_inside();
  steps.gate_after = apart;
  for (LinearLaunch& launch : launches) {
    launch.in = rows.in;
    launch.dependent = rows.dependent;
    launch.paired = rows.dependent && paired_;
    launch.beside_attention = rows.dependent && rows.count <= kMostRowsBesideAttention &&
                              (before_attention || behind_attention);
    const LinearSteps own = linear_steps(launch, s_.gpu);
    kernels.push_back(own.kernel);
    steps.norm_before |= own.norm_before;
    steps.gate_after |= own.gate_after;
    steps.bias_after |= own.bias_after;
  }
  hand_over(launches, kernels, op, rows);
  if (!are_one_kernel(launches, kernels)) join_pieces(launches, kernels);
  if (before_attention) start_attention_late(launches, kernels);
  tell_next(launches, kernels, op, rows);

  if (steps.norm_before) {
    void* const normed = act(linear.norm->out);
    const auto* in = static_cast<const float*>(rows.in);
    if (linear.norms_inside()) {
      launch_rms_norm(
          {fused.type, in, op.norm, normed, rows.count, fused.ins(linear), linear.norm->eps},
          stream_);
    } else {
      launch_norm({linear.norm->kind, fused.type, in, op.norm, op.norm_bias, normed, rows.count,
                   fused.ins(linear), linear.norm->eps, rows.dependent},
                  stream_);
    }
    for (LinearLaunch& launch : launches) {
      launch.in = normed;
      launch.norm_weight = nullptr;
    }
  }
  const bool logits = linear.epilogue == Epilogue::Logits;
  const bool floats = logits || linear.epilogue == Epilogue::AddTo;
  const DType out_type = floats ? DType::F32 : fused.type;
  void* const out = logits             ? rows.logits
                    : steps.gate_after ? pairs_.as<void>()
                    : linear.post_norm ? act(fused.product(linear))
                                       : act(linear.out);
  for (size_t i = 0; i < pieces.size(); ++i) {
    LinearLaunch& launch = launches[i];
    launch.out = static_cast<std::byte*>(out) + row_bytes(out_type, pieces[i].first_out);
    if (steps.gate_after && !apart) {
      launch.epilogue = Epilogue::Store;
      launch.out_stride = launch.outs;
    }
    if (steps.gate_after || steps.bias_after) launch.bias = nullptr;
  }
  multiply(launches, kernels);
  if (steps.gate_after) {
    launch_gate({fused.type, out, !apart, op.bias, act(linear.out), rows.count,
                 fused.outs(linear) / 2, linear.activation},
                stream_);
  } else if (steps.bias_after) {
    launch_add_bias(
        {out_type, out, op.bias, rows.count, fused.outs(linear), launches.front().scale}, stream_);
  }
  finish(op, linear, rows, out);
}

std::vector<LinearLaunch> Products::launches(const LoadedOp& op, const FusedLinear& linear,
                                             int rows) const {
  const std::vector<Piece> pieces = s_.fused.pieces(linear);
  std::vector<LinearLaunch> launches;
  for (size_t i = 0; i < pieces.size(); ++i) {
    LinearLaunch& launch =
        launches.emplace_back(linear_launch(s_.fused, linear, pieces[i], rows, {op.norm, op.bias}));
    launch.weight = op.pieces[i].data;
    launch.copy = op.pieces[i].copy;
    launch.ticket = tickets_.as<unsigned>() + op.first_ticket + i;
    launch.workspace = workspace_.as<void>();
    launch.room = &room_;
    launch.pinned = s_.reproducible;
  }
  return launches;
}

// What the product before has left for this one, and what this one leaves for the next. Only among
// dependent launches, of which each is preceded by one that ends before it reads.
void Products::hand_over(std::vector<LinearLaunch>& launches,
                         const std::vector<LinearKernel>& kernels, const LoadedOp& op,
                         const Rows& rows) {
  const auto& linear = std::get<FusedLinear>(op.fused->op);
  const bool taken = std::exchange(handed_to_, nullptr) == &linear;
  launches.front().takes_left = std::exchange(left_to_, nullptr) == &linear;
  if (!rows.dependent || alike(launches, kernels) < launches.size()) {
    check(!taken, "activations are left for a product that takes them");
    norms_known_ = false;
    return;
  }
  if (linear.norms_inside()) {
    norms_known_ = rows.next != nullptr;  // until the step ends
    for (LinearLaunch& launch : launches) {
      launch.handed = handed_.as<void>();
      launch.takes_handed = taken;
    }
    if (taken && linear.epilogue == Epilogue::Gated && !rows.observed && launches.size() == 1) {
      launches.front().leaves = left_for(rows.next, linear.out, op.bound, rows.count);
    }
  } else if (linear.epilogue == Epilogue::AddTo && norms_known_ && rows.next) {
    const FusedLinear* next = takes_handed(*rows.next, linear, rows.count);
    LinearLaunch& launch = launches.front();
    if (!next || launches.size() > 1 || launch.outs % 256 > 0) return;
    launch.handed = handed_.as<void>();
    launch.next_norm_weight = rows.next->norm;
    launch.next_format = s_.fused.pieces(*next).front().format;
    handed_to_ = next;
  }
}

std::vector<LinearKernel> Products::selected(const std::vector<LinearLaunch>& launches) const {
  std::vector<LinearKernel> kernels;
  for (const LinearLaunch& launch : launches) kernels.push_back(select_linear(launch, s_.gpu));
  return kernels;
}

// The op as a product that takes what `from` leaves.
const FusedLinear* Products::takes_handed(const LoadedOp& op, const FusedLinear& from,
                                          int rows) const {
  const auto* linear = std::get_if<FusedLinear>(&op.fused->op);
  if (!linear || !linear->norms_inside() || linear->in != from.out || from.post_norm)
    return nullptr;
  const std::vector<LinearLaunch> launches = this->launches(op, *linear, rows);
  return alike(launches, selected(launches)) == launches.size() ? linear : nullptr;
}

LeftRows Products::left_for(const LoadedOp* op, ActId from, float bound, int rows) {
  const auto* linear = op ? std::get_if<FusedLinear>(&op->fused->op) : nullptr;
  if (!linear || linear->norm || linear->makes_copy || linear->in != from) return {};
  const std::vector<LinearLaunch> launches = this->launches(*op, *linear, rows);
  if (launches.size() > 1 || select_linear(launches[0], s_.gpu) != LinearKernel::GemmQSm90) {
    return {};
  }
  const LeftRows left = gemm_q_left_rows(launches[0], bound);
  if (left.memory) left_to_ = linear;
  return left;
}

void Products::finish(const LoadedOp& op, const FusedLinear& linear, const Rows& rows, void* out) {
  const FusedProgram& fused = s_.fused;
  if (linear.post_norm) {
    launch_post_norm(
        {fused.type, static_cast<const float*>(out), op.post_norm, act<float>(linear.out),
         linear.leaves_copy ? act(fused.copy) : nullptr, rows.count, fused.outs(linear),
         linear.post_norm->eps, linear.scale, rows.dependent},
        stream_);
  }
  if (linear.caps()) {
    launch_cap({rows.logits, rows.count * fused.outs(linear), linear.scale, linear.softcap,
                rows.dependent},
               stream_);
  }
}

bool Products::are_one_kernel(const std::vector<LinearLaunch>& launches,
                              const std::vector<LinearKernel>& kernels) const {
  if (launches.size() != 2 || kernels[0] != kernels[1]) return false;
  const auto supports = kernels[0] == LinearKernel::GemvQSm90   ? supports_gemv_q_pair_sm90
                        : kernels[0] == LinearKernel::GemmQSm90 ? supports_gemm_q_pair_sm90
                                                                : nullptr;
  return supports && supports(launches[0], launches[1], s_.gpu.compute_capability);
}

bool Products::is_one_gemv_q(const std::vector<LinearLaunch>& launches,
                             const std::vector<LinearKernel>& kernels) const {
  return kernels[0] == LinearKernel::GemvQSm90 &&
         (launches.size() == 1 || are_one_kernel(launches, kernels));
}

// Gate and up tell down, whose ring is filled long before they end. Of the products behind o and
// down none gains from that.
void Products::tell_next(std::vector<LinearLaunch>& launches,
                         const std::vector<LinearKernel>& kernels, const LoadedOp& op,
                         const Rows& rows) {
  const auto& linear = std::get<FusedLinear>(op.fused->op);
  unsigned* const told = tickets_.as<unsigned>() + tickets_.bytes() / sizeof(unsigned) - 1;
  if (std::exchange(told_, nullptr) == &linear) {
    for (LinearLaunch& launch : launches) launch.heeds = told;
  }
  if (!rows.dependent || !rows.next || linear.epilogue != Epilogue::Gated) return;
  const auto* next = std::get_if<FusedLinear>(&rows.next->fused->op);
  if (!next || next->norm || next->in != linear.out) return;
  const std::vector<LinearLaunch> heeding = this->launches(*rows.next, *next, rows.count);
  if (!is_one_gemv_q(launches, kernels) || !is_one_gemv_q(heeding, selected(heeding))) return;
  for (LinearLaunch& launch : launches) launch.tells = told;
  told_ = next;
}

void Products::start_attention_late(std::vector<LinearLaunch>& launches,
                                    const std::vector<LinearKernel>& kernels) const {
  int64_t bytes = 0;
  for (const LinearLaunch& launch : launches) {
    bytes += matrix_bytes(launch.format, launch.outs, launch.ins);
  }
  if (bytes > kMostBytesBeforeLateStart) return;
  launches.back().starts_next_late = true;
  if (are_one_kernel(launches, kernels)) launches.front().starts_next_late = true;
}

void Products::multiply(const std::vector<LinearLaunch>& launches,
                        const std::vector<LinearKernel>& kernels) {
  if (are_one_kernel(launches, kernels)) {
    const auto launch =
        kernels[0] == LinearKernel::GemvQSm90 ? launch_gemv_q_pair_sm90 : launch_gemm_q_pair_sm90;
    return launch(launches[0], launches[1], s_.gpu.multiprocessors, stream_);
  }
  for (size_t i = 0; i < launches.size(); ++i) multiply(launches[i], kernels[i]);
}

void Products::multiply(const LinearLaunch& launch, LinearKernel kernel) {
  switch (kernel) {
    case LinearKernel::GemvSm90:
      return launch_gemv_sm90(launch, s_.gpu.multiprocessors, stream_);
    case LinearKernel::GemvQSm90:
      if (mixed_ && (launch.format == mixed_->first || launch.format == mixed_->second)) {
        const DType other = launch.format == mixed_->first ? mixed_->second : mixed_->first;
        return launch_gemv_q_of_pair_sm90(launch, other, s_.gpu.multiprocessors, stream_);
      }
      return launch_gemv_q_sm90(launch, s_.gpu.multiprocessors, stream_);
    case LinearKernel::GemmQSm90:
      return launch_gemm_q_sm90(launch, s_.gpu.multiprocessors, stream_);
    case LinearKernel::GemmExpanded:
      return multiply_expanded(launch);
    case LinearKernel::GemmCublas:
      return gemm_.launch(launch, stream_);
    case LinearKernel::GemvPlain:
      return launch_gemv_plain(launch, stream_);
  }
}

// By the matrix's 16-bit copy, or by parts of one that are made now.
void Products::multiply_expanded(const LinearLaunch& whole) {
  LinearLaunch launch = whole;
  launch.format = launch.type;
  if (launch.copy) {
    launch.weight = launch.copy;
    return gemm_.launch(launch, stream_);
  }
  const int64_t group = tiles::kRows * launch.ins * s_.fused.element;
  const int64_t at_once = s_.sizes.expanded / group * tiles::kRows;
  const DType out_type = launch.epilogue == Epilogue::Store ? launch.type : DType::F32;
  launch.weight = expanded_.as<void>();
  for (int64_t first = 0; first < whole.outs; first += at_once) {
    launch.outs = std::min(at_once, whole.outs - first);
    launch.out = static_cast<std::byte*>(whole.out) + row_bytes(out_type, first);
    launch_expand_q({whole.format, whole.weight, whole.ins, first, launch.outs, launch.type,
                     expanded_.as<void>()},
                    stream_);
    gemm_.launch(launch, stream_);
  }
}

}  // namespace skald::cuda
