// Attention of a step: its launches, with pointers filled in.
#include "cuda/kernels/pointwise/pointwise.h"
#include "cuda/run/launchers.h"
#include "cuda/run/step_ops.h"

namespace skald::cuda {

void StepOps::launch(const Step& step, const StepEntry& entry, const QkNormEntry&) {
  const auto& attention = op<FusedAttention>(entry);
  const LoadedOp& weights = loaded(entry);
  const int64_t q_cols = int64_t{attention.spec.heads} * attention.spec.head_dim;
  const int64_t k_cols = int64_t{attention.spec.kv_heads} * attention.spec.head_dim;
  launch_qk_norm({p_.fused.type, act(attention.qkv), weights.q_norm, weights.k_norm, q_cols, k_cols,
                  q_cols + 2 * k_cols, step.rows, attention.norm->eps, entry.dependent},
                 stream_);
}

void StepOps::launch(const Step& step, const StepEntry& entry, const RopeAppendEntry&) {
  launch_rope_append(attention_launch(step, entry), stream_);
}

void StepOps::launch(const Step& step, const StepEntry& entry, const EncodeCacheEntry&) {
  launch_encode_cache(attention_launch(step, entry), stream_);
}

void StepOps::launch(const Step& step, const StepEntry& entry, const DecodeCacheEntry&) {
  launch_decode_cache(attention_launch(step, entry), stream_);
}

void StepOps::launch(const Step& step, const StepEntry& entry, const AttentionEntry& attention) {
  AttentionLaunch launch = attention_launch(step, entry);
  launch.code = attention.code;
  launch.decode.depth = attention.depth;
  launch.decode.after_append = attention.after_append;
  launch.decode.workspace = memory_.attention.workspace.as<float>();
  launch.decode.tickets = memory_.attention.tickets.as<int>();
  launch.decode.prepares = prepared_rows(step, entry);
  const size_t spec = p_.fused.spec_index(launch.spec);
  launch.prefill = {p_.step.tiles(spec), p_.step.tile_count(spec)};
  cuda::launch(*attention.kernel, launch, stream_);
}

// The fields that decode and prefill share.
AttentionLaunch StepOps::attention_launch(const Step& step, const StepEntry& entry) const {
  const auto& attention = op<FusedAttention>(entry);
  const LoadedOp& weights = loaded(entry);
  AttentionLaunch launch = {};
  launch.type = p_.fused.type;
  launch.cache_types = p_.sizes.cache_types;
  launch.qkv = act(attention.qkv);
  launch.out = act(attention.out);
  launch.rows = step.rows;
  launch.step = p_.step.table();
  launch.cache = {
      p_.cache.as<std::byte>() + p_.sizes.kv_offsets[static_cast<size_t>(attention.layer)],
      p_.sizes.page};
  if (setting_.coded_cache) {
    launch.coded = launch.cache;
    launch.cache = {memory_.attention.plain.as<std::byte>(), p_.sizes.plain_page};
  }
  launch.spec = attention.spec;
  if (attention.rope) {
    const RopeSpec& rope = p_.fused.program.ropes[static_cast<size_t>(*attention.rope)];
    launch.inv_freq = p_.loaded.inv_freq(*attention.rope);
    launch.rope_pairs = static_cast<int>(rope.inv_freq.size());
    launch.rope_interleaved = rope.interleaved;
    launch.rope_scale = rope.scale;
  }
  if (attention.norm && !attention.norm->whole) {
    launch.q_norm = weights.q_norm;
    launch.k_norm = weights.k_norm;
    launch.norm_eps = attention.norm->eps;
    launch.norm_after_rope = attention.norm->after_rope;
    launch.v_norm = attention.v_norm;
  }
  launch.values_are_keys = attention.values_are_keys;
  launch.appends = attention.appends;
  launch.sinks = weights.sinks;
  launch.dependent = entry.dependent;
  launch.multiprocessors = setting_.gpu.multiprocessors;
  return launch;
}

}  // namespace skald::cuda
