#include "cuda/run/step_ops.h"

#include <algorithm>

#include "cuda/gpu/check.h"
#include "cuda/kernels/attention/attention.h"
#include "cuda/kernels/pointwise/pointwise.h"
#include "cuda/kernels/tiles/tiles.h"
#include "engine/base/overloaded.h"

namespace skald::cuda {

StepOps::StepOps(const Parts& parts, const Setting& setting, Stream stream)
    : p_(parts),
      s_(setting),
      stream_(stream),
      products_({p_.fused, p_.sizes, p_.acts, s_.gpu, s_.reproducible}, stream),
      experts_({p_.fused, p_.sizes, p_.acts, s_.gpu, s_.reproducible}, stream),
      workspace_(p_.sizes.attention, "attention"),
      tickets_(p_.sizes.tickets, "attention") {
  SKALD_CUDA(
      cudaMemsetAsync(tickets_.as<void>(), 0, static_cast<size_t>(tickets_.bytes()), stream));
}

void StepOps::run(const Rows& rows) {
  const bool dependent = rows.decode && s_.dependent;
  for (const LoadedOp& op : p_.loaded.ops()) {
    const LoadedOp* const next = &op == &p_.loaded.head() ? nullptr : &op + 1;
    std::visit(
        Overloaded{[&](const Embed& o) { run_embed(op, o, rows); },
                   [&](const Norm& o) { run_norm(op, o, rows.count, dependent); },
                   [&](const FusedLinear& o) {
                     if (o.epilogue == Epilogue::Logits && !rows.decode) return;
                     products_.run(op, o,
                                   {act<void>(o.in), rows.count, p_.logits.as<float>(), dependent,
                                    p_.observer != nullptr, next});
                   },
                   [&](const FusedAttention& o) { run_attention(op, o, rows, next); },
                   [&](const FusedExperts& o) { experts_.run(op, o, rows.count, dependent); }},
        op.fused->op);
    if (p_.observer) observe(*op.fused, rows.count);
  }
}

void StepOps::norm_rows(const float* in, float* out, int rows) {
  const LoadedOp& head = p_.loaded.head();
  const FusedLinear& linear = p_.fused.head();
  launch_norm({linear.norm->kind, DType::F32, in, head.norm, head.norm_bias, out, rows,
               p_.fused.ins(linear), linear.norm->eps},
              stream_);
}

void StepOps::run_head(const void* in, int rows, bool decode) {
  products_.run(p_.loaded.head(), p_.fused.head(),
                {in, rows, p_.logits.as<float>(), decode && s_.dependent});
}

void StepOps::run_embed(const LoadedOp& op, const Embed& embed, const Rows& rows) {
  const Matrix& table = op.pieces.front();
  const EmbedLaunch launch = {
      table.format, table.data,  p_.step.table().tokens,         act<float>(embed.out), rows.count,
      table.ins,    embed.scale, rows.after_pick && s_.dependent};
  (table.format == p_.fused.type ? launch_embed : launch_embed_q)(launch, stream_);
}

void StepOps::run_norm(const LoadedOp& op, const Norm& norm, int rows, bool dependent) {
  launch_norm({norm.kind, p_.fused.type, act<float>(norm.in), op.norm, op.norm_bias,
               act<void>(norm.out), rows, p_.fused.cols(norm.in), norm.eps, dependent},
              stream_);
}

void StepOps::run_attention(const LoadedOp& loaded, const FusedAttention& op, const Rows& rows,
                            const LoadedOp* next) {
  AttentionLaunch launch = {};
  launch.type = p_.fused.type;
  launch.cache_type = p_.sizes.cache_type;
  launch.qkv = act<void>(op.qkv);
  launch.out = act<void>(op.out);
  launch.rows = rows.count;
  launch.step = p_.step.table();
  launch.cache = {p_.cache.as<std::byte>() + p_.sizes.kv_offsets[static_cast<size_t>(op.layer)],
                  p_.sizes.page};
  launch.spec = op.spec;
  if (op.rope) {
    const RopeSpec& rope = p_.fused.program.ropes[static_cast<size_t>(*op.rope)];
    launch.inv_freq = p_.loaded.inv_freq(*op.rope);
    launch.rope_pairs = static_cast<int>(rope.inv_freq.size());
    launch.rope_interleaved = rope.interleaved;
    launch.rope_scale = rope.scale;
  }
  launch.code = s_.attention;
  if (rows.decode && !s_.clusters) launch.code = std::min(launch.code, AttentionCode::Mma);
  launch.dependent = rows.decode && s_.dependent;
  launch.depth = rows.depth;
  launch.multiprocessors = s_.gpu.multiprocessors;
  launch.workspace = workspace_.as<float>();
  launch.tickets = tickets_.as<int>();
  const size_t spec = p_.fused.spec_index(op.spec);
  launch.tiles = p_.step.tiles(spec);
  launch.tile_count = p_.step.tile_count(spec);
  check_attention(launch);
  if (op.norm && op.norm->whole) {
    const int64_t q_cols = int64_t{op.spec.heads} * op.spec.head_dim;
    const int64_t k_cols = int64_t{op.spec.kv_heads} * op.spec.head_dim;
    launch_qk_norm({p_.fused.type, launch.qkv, loaded.q_norm, loaded.k_norm, q_cols, k_cols,
                    q_cols + 2 * k_cols, rows.count, op.norm->eps, launch.dependent},
                   stream_);
  } else if (op.norm) {
    launch.q_norm = loaded.q_norm;
    launch.k_norm = loaded.k_norm;
    launch.norm_eps = op.norm->eps;
  }
  if (launch.dependent && !p_.observer && attention_leaves_rows(launch.code, op.spec)) {
    launch.leaves = products_.left_for(next, op.out, loaded.bound, rows.count);
  }
  if (rows.decode) return launch_attention_decode(launch, stream_);
  launch_rope_append(launch, stream_);
  if (launch.tile_count > 0) return launch_attention_prefill(launch, stream_);
  launch_attention_plain(launch, stream_);
}

void StepOps::observe(const FusedOp& op, int rows) {
  const ActId hidden = p_.fused.hidden;
  const ActId out = std::visit(Overloaded{[](const auto& o) { return o.out; }}, op.op);
  const auto* linear = std::get_if<FusedLinear>(&op.op);
  if (out == p_.fused.qkv || (linear && linear->epilogue == Epilogue::Logits)) return;
  const size_t count = static_cast<size_t>(rows * p_.fused.cols(out));
  const size_t element = out == hidden ? 4 : static_cast<size_t>(p_.fused.element);
  std::vector<std::byte> raw(count * element);
  SKALD_CUDA(
      cudaMemcpyAsync(raw.data(), act<void>(out), raw.size(), cudaMemcpyDeviceToHost, stream_));
  SKALD_CUDA(cudaStreamSynchronize(stream_));
  std::vector<float> values(count);
  info(out == hidden ? DType::F32 : p_.fused.type)
      .decode_row(raw.data(), values.data(), static_cast<int64_t>(count));
  p_.observer({op.last, p_.fused.program.act(out).name, values, p_.fused.cols(out)});
}

}  // namespace skald::cuda
