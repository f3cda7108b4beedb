// Fuses attention to latents, in which all heads share one head of keys that serves as values too
// (models/families/deepseek.cpp).
#include "cuda/plan/fuser.h"

namespace skald::cuda {

// Returns the place of columns: those of each head from its column `first` on. A row has `heads`
// heads.
HeadPlace Fuser::place(ActId buffer, int heads, int64_t first) const {
  const int64_t cols = program_.act(buffer).cols;
  return {buffer, first, cols / heads, cols};
}

FusedPart Fuser::fused_part(const HeadPart& part) const {
  HeadPlace to = place(part.out, 1, part.to);
  to.width = part.width > 0 ? part.width : part.cols;
  return {part.out, place(part.in, part.heads, part.first), to, part.heads, part.cols};
}

bool Fuser::latent_attention() {
  constexpr size_t kParts = 3, kProduct = 3, kRopes = 4, kAttention = 6;
  const auto* attention = get<Attention>(at_ + kAttention);
  if (!attention || !attention->appends || attention->v != attention->k ||
      attention->spec.kv_heads != 1 || attention->sinks != WeightId::None) {
    return false;
  }
  const AttentionSpec& spec = attention->spec;
  const ActId q = attention->q, k = attention->k;
  const auto* product = get<Linear>(at_ + kProduct);
  const auto *rope_q = get<Rope>(at_ + kRopes), *rope_k = get<Rope>(at_ + kRopes + 1);
  if (!product || product->out != q || product->heads != spec.heads ||
      product->bias != WeightId::None || product->in == hidden_ || !rope_q || !rope_k ||
      rope_q->x != q || rope_k->x != k || rope_q->spec != rope_k->spec ||
      !absorbs(at_, at_ + kAttention, attention->out)) {
    return false;
  }
  // Queries and the key lie side by side in a row.
  const int64_t head = spec.head_dim, stride = (spec.heads + 1) * head;
  std::vector<FusedPart> parts;
  for (size_t i = at_; i < at_ + kParts; ++i) {
    const auto* part = get<HeadPart>(i);
    if (!part || part->in == hidden_ || (part->out != q && part->out != k)) return false;
    if (part->heads != (part->out == q ? spec.heads : 1)) return false;
    FusedPart& fused = parts.emplace_back(fused_part(*part));
    fused.out = fused.to.buffer = buffers_.qkv;
    fused.to.stride = stride;
    if (part->out == k) fused.to.first += spec.heads * head;
  }
  HeadProducts keys = {buffers_.qkv,
                       place(product->in, product->heads, product->in_first),
                       {buffers_.qkv, product->out_first, head, stride},
                       product->weight,
                       product->heads};
  FusedAttention fused{attention->out, buffers_.qkv, attention->layer, spec, {}, {}};
  fused.rope = rope_q->spec;
  fused.spec.keys_serve = true;
  for (const FusedPart& part : parts) emit(part, 1);
  emit(keys, 1);
  emit(fused, 3);  // with the ropes
  const auto* values = get<Linear>(at_);
  if (values && values->heads > 1 && values->bias == WeightId::None && values->in != hidden_ &&
      values->out != hidden_) {
    emit(HeadProducts{values->out, place(values->in, values->heads, values->in_first),
                      place(values->out, values->heads, values->out_first), values->weight,
                      values->heads},
         1);
  }
  return true;
}

}  // namespace skald::cuda
