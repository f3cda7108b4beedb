#include "cuda/load/loaded_model.h"

#include <cmath>
#include <utility>

#include "cuda/gpu/check.h"
#include "cuda/kernels/tiles/layout.h"
#include "cuda/kernels/tiles/row_lengths.h"

namespace skald::cuda {
namespace {

// read: kernels will read the memory.
HostMemory::Lock lock_of(HostMemoryKind kind, bool read) {
  if (kind == HostMemoryKind::Pageable) return HostMemory::Lock::Never;
  const bool may_fail = kind == HostMemoryKind::Auto && !read;
  return may_fail ? HostMemory::Lock::Try : HostMemory::Lock::Must;
}

}  // namespace

LoadedModel::LoadedModel(const FusedProgram& fused, const Sizes& sizes, Stream stream,
                         const Loading& loading)
    : fused_(fused),
      weights_(sizes.placement.device, sizes.copies),
      slots_(sizes.placement.slots, "slots for streamed weights") {
  try {
    load_all(sizes, stream, loading);
  } catch (...) {
    cudaStreamSynchronize(stream);  // copies to memory that is freed now
    throw;
  }
}

void LoadedModel::load_all(const Sizes& sizes, Stream stream, const Loading& loading) {
  const FusedProgram& fused = fused_;
  const Placement& placement = sizes.placement;
  if (placement.host > 0) hosted_.resize(fused.ops.size());
  int64_t done = 0;
  for (size_t i = 0; i < fused.ops.size(); ++i) {
    const FusedOp& op = fused.ops[i];
    const size_t first = fused.first_with_weights[i];
    LoadedOp loaded = first == i ? LoadedOp() : ops_[first];
    loaded.fused = &op;
    ops_.push_back(std::move(loaded));
    if (first == i) load(i, ops_.back(), placement, stream);
    if (placement.ops[i].home != Home::Device) done += placement.ops[i].bytes;
    if (loading) loading(weights_.used() + done, placement.device + placement.host);
  }
  for (const RopeSpec& rope : fused.program.ropes) {
    TensorView view;
    view.data = reinterpret_cast<const std::byte*>(rope.inv_freq.data());
    view.rows = 1;
    view.cols = static_cast<int64_t>(rope.inv_freq.size());
    ropes_.push_back(weights_.upload_floats({&view, 1}, false, stream));
  }
  weights_.finish(stream);
  find_bounds();
}

// Matrices that are streamed are packed in their slot, and moved to the host from there.
void LoadedModel::load(size_t index, LoadedOp& op, const Placement& placement, Stream stream) {
  const OpPlace& place = placement.ops[index];
  const auto load_op = [&] {
    std::visit([&](const auto& o) { load(op, o, stream); }, op.fused->op);
  };
  if (place.home == Home::Device) return load_op();
  const bool experts = std::holds_alternative<FusedExperts>(op.fused->op);
  HostedOp& hosted = hosted_[index];
  hosted.memory =
      HostMemory(place.bytes, lock_of(placement.kind, place.home == Home::InPlace || experts));
  if (place.home == Home::Streamed) hosted.slot = slots_.as<std::byte>() + place.slot;
  weights_.upload_to(hosted.slot ? hosted.slot : hosted.memory.data());
  load_op();
  weights_.upload_to(nullptr);
  if (hosted.slot) weights_.save(hosted.slot, hosted.memory.data(), place.bytes, stream);
}

const void* LoadedModel::in_place(size_t op, const void* in_slot) const {
  const HostedOp& hosted = hosted_[op];
  if (!hosted.slot) return in_slot;  // it is there
  return hosted.memory.data() + (static_cast<const std::byte*>(in_slot) - hosted.slot);
}

int64_t LoadedModel::unlocked_bytes() const {
  int64_t bytes = 0;
  for (const HostedOp& op : hosted_) bytes += op.memory.locked() ? 0 : op.memory.bytes();
  return bytes;
}

// The length of a normed row is at most the square root of its columns. A product with the row is
// at most this length times the weight row's length. An activation's result is at most its input.
void LoadedModel::find_bounds() {
  for (const Bounded& bounded : bounded_) {
    LoadedOp& op = ops_[bounded.op];
    const auto& linear = std::get<FusedLinear>(op.fused->op);
    RowLengths lengths;
    SKALD_CUDA(cudaMemcpy(&lengths, bounded.lengths, sizeof(lengths), cudaMemcpyDeviceToHost));
    const float longest = longest_row(lengths);
    if (longest == kNoBound) continue;
    const float most =
        longest * std::sqrt(static_cast<float>(fused_.ins(linear))) + bounded.most_bias;
    const bool gated = linear.epilogue == Epilogue::Gated;
    (gated ? op : ops_[bounded.op + 1]).bound = gated ? most * most : most;
  }
  for (size_t i = 0; i < ops_.size(); ++i) {
    const size_t first = fused_.first_with_weights[i];
    const auto* linear = std::get_if<FusedLinear>(&ops_[i].fused->op);
    if (!linear || first == i || !fused_.bounded(*linear)) continue;
    const size_t at = linear->epilogue == Epilogue::Gated ? 0 : 1;
    ops_[i + at].bound = ops_[first + at].bound;
  }
  for (LoadedOp& op : ops_) {
    const auto* attention = std::get_if<FusedAttention>(&op.fused->op);
    if (attention) op.bound = fused_.own_bound(*attention).value_or(op.bound);
  }
}

void LoadedModel::load(LoadedOp& op, const Embed& embed, Stream stream) {
  op.pieces = {
      weights_.upload(joined({&embed.weight, 1}, false), fused_.format(embed.weight), stream)};
  if (embed.out == fused_.hidden) embedding_ = op.pieces.front();
}

void LoadedModel::load(LoadedOp& op, const Norm& norm, Stream stream) {
  op.norm = norm_weight(norm.weight, fused_.cols(norm.in), stream);
  if (norm.bias != WeightId::None) op.norm_bias = norm_weight(norm.bias, stream);
}

void LoadedModel::load(LoadedOp& op, const BufferNorm& norm, Stream stream) {
  op.norm = norm_weight(norm.weight, fused_.cols(norm.out), stream);
}

void LoadedModel::load(LoadedOp& op, const HeadProducts& products, Stream stream) {
  op.pieces = {weights_.upload(joined({&products.weight, 1}, false), fused_.type, stream)};
}

void LoadedModel::load(LoadedOp& op, const FusedLinear& linear, Stream stream) {
  const bool alternate = fused_.alternates(linear);
  const std::span<const WeightId> parts(linear.parts);
  if (fused_.shares_embedding(linear)) {
    op.pieces = {embedding_};
  } else {
    for (const Piece& piece : fused_.pieces(linear)) {
      op.pieces.push_back(
          weights_.upload(joined(parts.subspan(piece.first, piece.last - piece.first), alternate),
                          piece.format, stream));
    }
  }
  for (Matrix& matrix : op.pieces) weights_.add_copy(matrix, fused_.type, stream);
  if (linear.norm) load(op, *linear.norm, stream);
  if (fused_.bounded(linear)) {
    const Matrix& last = op.pieces.back();
    auto* lengths = reinterpret_cast<int32_t*>(weights_.zeros(sizeof(RowLengths), stream));
    launch_row_lengths({last.format, last.data, last.outs, last.ins, op.norm, lengths}, stream);
    bounded_.push_back({ops_.size() - 1, lengths, 0});
  }
  if (linear.post_norm) {
    op.post_norm =
        norm_weight(linear.post_norm->weight, fused_.outs(linear) / linear.norm_parts, stream);
  }
  if (!fused_.has_bias(linear)) return;
  std::vector<TensorView> biases;
  for (size_t i = 0; i < linear.parts.size(); ++i) {
    TensorView none;
    none.cols = fused_.program.weight(linear.parts[i]).view.rows;
    const bool has = linear.biases[i] != WeightId::None;
    biases.push_back(has ? fused_.program.weight(linear.biases[i]).view : none);
    if (!has || !fused_.bounded(linear)) continue;
    std::vector<float> values(static_cast<size_t>(biases.back().cols));
    std::vector<std::byte> scratch;
    biases.back().decode_row(0, values.data(), scratch);
    float& most = bounded_.back().most_bias;
    for (float value : values) most = std::max(most, std::fabs(value));
  }
  op.bias = weights_.upload_floats(biases, alternate, stream);
}

void LoadedModel::load(LoadedOp& op, const FusedAttention& attention, Stream stream) {
  if (attention.sinks != WeightId::None) op.sinks = norm_weight(attention.sinks, stream);
  if (!attention.norm) return;
  const QkNorm& norm = *attention.norm;
  const AttentionSpec& s = attention.spec;
  op.q_norm = norm_weight(norm.q, norm.cols(s, s.heads), stream);
  if (attention.appends) op.k_norm = norm_weight(norm.k, norm.cols(s, s.kv_heads), stream);
}

void LoadedModel::load(LoadedOp& op, const FusedExperts& experts, Stream stream) {
  op.norm = norm_weight(experts.norm.weight, fused_.cols(fused_.hidden), stream);
  if (fused_.routes_apart(experts)) op.route_norm = route_norm(experts, stream);
  if (experts.expert_scale != WeightId::None) {
    op.expert_scale = norm_weight(experts.expert_scale, stream);
  }
  op.router = float_rows(experts.router, stream);
  for (const ExpertStack& stack : fused_.stacks(experts)) {
    op.stacks.push_back(load(stack, experts.spec.count, stream));
    op.stacks.back().bias = experts_bias(stack, experts.spec.count, stream);
  }
  if (experts.router_bias != WeightId::None) {
    op.router_bias = norm_weight(experts.router_bias, stream);
  }
  if (experts.choice_bias != WeightId::None) {
    op.choice_bias = norm_weight(experts.choice_bias, stream);
  }
}

void LoadedModel::load(LoadedOp& op, const FusedDelta& net, Stream stream) {
  op.conv = float_rows(net.conv, stream);
  op.rate = norm_weight(net.rate, stream);
  op.bias = norm_weight(net.bias, stream);
  op.norm = norm_weight(net.norm, stream);
}

void LoadedModel::load(LoadedOp& op, const FusedSpace& space, Stream stream) {
  op.conv = float_rows(space.conv, stream);
  if (space.conv_bias != WeightId::None) op.conv_bias = norm_weight(space.conv_bias, stream);
  op.rate = float_rows(space.rate, stream);
  op.bias = norm_weight(space.bias, stream);
  op.skip = float_rows(space.skip, stream);
  op.norm = float_rows(space.norm, stream);
}

void LoadedModel::load(LoadedOp& op, const FusedShortConv& conv, Stream stream) {
  op.conv = float_rows(conv.conv, stream);
}

void LoadedModel::load(LoadedOp& op, const SumOfNorms& sum, Stream stream) {
  const int64_t dim = fused_.cols(sum.out);
  op.norm = norm_weight(sum.norm, dim, stream);
  op.a_norm = norm_weight(sum.a_norm, dim, stream);
  op.b_norm = norm_weight(sum.b_norm, dim, stream);
}

void LoadedModel::load(LoadedOp& op, const FusedExchange& exchange, Stream stream) {
  if (!exchange.norm) return;
  op.post_norm = norm_weight(exchange.norm->weight, fused_.cols(exchange.in), stream);
}

void LoadedModel::load(LoadedOp& op, const RowGate& gate, Stream stream) {
  op.gate = norm_weight(gate.weight, stream);
}

// Uploads a file's stack of experts as one matrix if the bytes are those of separate matrices:
// separate uploads take longer.
LoadedStack LoadedModel::load(const ExpertStack& stack, int count, Stream stream) {
  const int64_t bytes = matrix_bytes(stack.format, stack.outs, stack.ins);
  const bool whole = bytes == padded(bytes) &&
                     (info(stack.format).block_elems == 1 || stack.outs % tiles::kRows == 0);
  const auto follows = [](const TensorView& next, const TensorView& part) {
    if (next.reader || part.reader) {
      return next.reader == part.reader && next.first_row == part.first_row + part.rows;
    }
    return next.data == (part.data ? part.row(part.rows) : nullptr);
  };
  // The rows of some experts as one matrix; no parts if the experts do not follow one another.
  const auto rows_of = [&](int expert, int experts) {
    JoinedRows rows;
    rows.alternate = stack.parts.size() > 1;
    for (WeightId first : stack.parts) {
      const auto weight = [&](int e) -> const Weight& {
        return fused_.program.weight(static_cast<WeightId>(static_cast<int32_t>(first) + e));
      };
      Weight& part = rows.parts.emplace_back(weight(expert));
      for (int e = expert + 1; e < expert + experts; ++e) {
        const Weight& next = weight(e);
        if (!follows(next.view, part.view) || !follows(next.source, part.source)) {
          return JoinedRows();
        }
        part.view.rows += next.view.rows;
        part.source.rows += next.source.rows;
      }
    }
    return rows;
  };
  const JoinedRows all = whole ? rows_of(0, count) : JoinedRows();
  if (!all.parts.empty()) return {weights_.upload(all, stack.format, stream).data, bytes};
  const void* first = nullptr;
  for (int e = 0; e < count; ++e) {
    const Matrix matrix = weights_.upload(rows_of(e, 1), stack.format, stream);
    if (e == 0) first = matrix.data;
  }
  return {first, padded(bytes)};
}

// Each expert's biases in the order of its matrix's rows: those of gate and up alternate.
const float* LoadedModel::experts_bias(const ExpertStack& stack, int count, Stream stream) {
  if (stack.biases.empty()) return nullptr;
  const auto parts = std::ssize(stack.biases);
  std::vector<float> all(static_cast<size_t>(count * stack.outs));
  std::vector<float> row(static_cast<size_t>(stack.outs / parts));
  std::vector<std::byte> scratch;
  for (int e = 0; e < count; ++e) {
    for (int64_t part = 0; part < parts; ++part) {
      const TensorView& view = fused_.program.weight(stack.biases[static_cast<size_t>(part)]).view;
      view.decode_row(e, row.data(), scratch);
      float* to = all.data() + e * stack.outs + part;
      for (int64_t i = 0; i < view.cols; ++i) to[i * parts] = row[static_cast<size_t>(i)];
    }
  }
  TensorView floats;
  floats.data = reinterpret_cast<const std::byte*>(all.data());
  floats.rows = 1;
  floats.cols = std::ssize(all);
  return weights_.upload_floats({&floats, 1}, false, stream);
}

const float* LoadedModel::norm_weight(WeightId id, Stream stream) {
  const Weight& weight = fused_.program.weight(id);
  return weights_.upload_floats({&weight.view, 1}, false, stream, weight.plus);
}

const float* LoadedModel::norm_weight(WeightId id, int64_t cols, Stream stream) {
  if (id != WeightId::None) return norm_weight(id, stream);
  TensorView zeros;
  zeros.rows = 1;
  zeros.cols = cols;
  return weights_.upload_floats({&zeros, 1}, false, stream, 1);
}

// The weights of the norm of the router's input, times the router's scale.
const float* LoadedModel::route_norm(const FusedExperts& experts, Stream stream) {
  const WeightId id = experts.route_norm.value_or(experts.norm.weight);
  std::vector<float> values(static_cast<size_t>(fused_.cols(fused_.hidden)), 1);
  if (id != WeightId::None) {
    const Weight& weight = fused_.program.weight(id);
    std::vector<std::byte> scratch;
    weight.view.decode_row(0, values.data(), scratch);
    for (float& value : values) value += weight.plus;
  }
  for (float& value : values) value *= experts.spec.router_scale;
  TensorView floats;
  floats.data = reinterpret_cast<const std::byte*>(values.data());
  floats.rows = 1;
  floats.cols = std::ssize(values);
  return weights_.upload_floats({&floats, 1}, false, stream);
}

// A matrix that kernels read as float32, whatever format the file has.
const float* LoadedModel::float_rows(WeightId id, Stream stream) {
  const TensorView& matrix = fused_.program.weight(id).view;
  std::vector<TensorView> rows;
  for (int64_t r = 0; r < matrix.rows; ++r) rows.push_back(slice_rows(matrix, r, 1));
  return weights_.upload_floats(rows, false, stream);
}

JoinedRows LoadedModel::joined(std::span<const WeightId> ids, bool alternate) const {
  JoinedRows rows;
  rows.alternate = alternate;
  for (WeightId id : ids) rows.parts.push_back(fused_.program.weight(id));
  return rows;
}

}  // namespace skald::cuda
