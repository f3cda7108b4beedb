// The weights of a DeepSeek folder, in which one matrix makes keys and values of the latent. skald
// has two, as GGUF has them: attn_k_b, transposed in each head, brings a query to the latent's
// place, and attn_v_b brings what a query has seen of latents to a head's values. Early GGUFs
// have the one matrix too.
#pragma once

#include <memory>
#include <span>

#include "models/files/safetensors.h"

namespace skald {

// The tensors that a Program of the family asks for. attn_k_b and attn_v_b have readers. Files that
// have them already are returned as they are.
std::shared_ptr<const WeightFile> deepseek_weights(std::shared_ptr<const WeightFile> weights,
                                                   std::span<const RawTensor> raw);

}  // namespace skald
