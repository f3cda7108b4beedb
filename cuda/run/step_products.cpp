// Products of a step: their launches, with pointers filled in.
#include <array>

#include "cuda/run/launchers.h"
#include "cuda/run/step_ops.h"

namespace skald::cuda {

void StepOps::launch(const Step& step, const StepEntry& entry, const ProductEntry& product) {
  std::array<LinearLaunch, 2> pieces;
  for (size_t i = 0; i < product.pieces.size(); ++i) {
    pieces[i] = product_launch(step, entry, product, product.pieces[i]);
  }
  cuda::launch(*product.kernel, {std::span(pieces).first(product.pieces.size()), product.partner,
                                 setting_.gpu.multiprocessors, cublas_, stream_});
}

LinearLaunch StepOps::product_launch(const Step& step, const StepEntry& entry,
                                     const ProductEntry& product, const ProductPiece& piece) const {
  const LoadedOp& op = loaded(entry);
  const Matrix& matrix = op.pieces[piece.index];
  const Epilogue epilogue = piece.shape.epilogue;
  const bool typed = epilogue == Epilogue::Store || epilogue == Epilogue::Gated;
  LinearLaunch launch = {};
  static_cast<LinearShape&>(launch) = piece.shape;
  launch.dependent = entry.dependent;
  launch.weight = matrix.data;
  launch.in = address(step, product.in, piece.norm ? DType::F32 : p_.fused.type);
  launch.norm_weight = piece.norm ? op.norm : nullptr;
  launch.bias = piece.bias ? op.bias + piece.out.first_col : nullptr;
  launch.out = address(step, piece.out, typed ? p_.fused.type : DType::F32);
  launch.gemv.ticket = memory_.products.tickets.as<unsigned>() + piece.ticket;
  launch.gemv.paired = product.paired;
  launch.gemv_q.next_starts_late = entry.left(EdgeKind::LateStart);
  launch.gemv_q.signal = entry.left(EdgeKind::Signal) ? memory_.products.signal() : nullptr;
  launch.gemv_q.wait = entry.taken(EdgeKind::Signal) ? memory_.products.signal() : nullptr;
  launch.gemm_q = gemm_q_part(step, entry, product, piece);
  launch.cublas.copy = product.copy ? matrix.copy : nullptr;
  launch.cublas.expanded = memory_.products.expanded.as<void>();
  launch.cublas.expanded_rows = product.expanded_rows;
  launch.cublas.pinned = product.pinned;
  return launch;
}

GemmQPart StepOps::gemm_q_part(const Step& step, const StepEntry& entry,
                               const ProductEntry& product, const ProductPiece& piece) const {
  GemmQPart part;
  part.workspace = memory_.products.workspace.as<void>();
  part.room = &room_;
  part.share = piece.share;
  part.first_piece = entry.left(EdgeKind::SharedActivations);
  part.next_piece = entry.taken(EdgeKind::SharedActivations);
  part.takes_carried = entry.taken(EdgeKind::Carried);
  part.takes_prepared = entry.taken(EdgeKind::Prepared);
  part.prepares = prepared_rows(step, entry);
  part.beside_attention = entry.left(EdgeKind::Beside) || entry.taken(EdgeKind::Beside);
  const Edge* const carries = entry.left(EdgeKind::Carried);
  if (product.keeps_norms || carries) part.carried = memory_.products.carried.as<void>();
  if (carries) {
    const StepEntry& next = step.plan.entries[carries->other];
    part.next_norm_weight = loaded(next).norm;
    part.next_format = std::get<ProductEntry>(next.kind).pieces.front().shape.format;
  }
  return part;
}

PreparedRows StepOps::prepared_rows(const Step& step, const StepEntry& entry) const {
  const Edge* const edge = entry.left(EdgeKind::Prepared);
  if (!edge) return {};
  const auto& next = std::get<ProductEntry>(step.plan.entries[edge->other].kind);
  return gemm_q_prepared_rows(next.pieces.front().shape, loaded(entry).bound,
                              memory_.products.workspace.as<void>());
}

}  // namespace skald::cuda
