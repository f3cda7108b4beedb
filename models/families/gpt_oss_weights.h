// The weights of a gpt-oss folder. Hugging Face's files hold the experts of a layer as one tensor,
// with the rows of gate and up alternating: in MXFP4 as blocks and scales apart, or in 16 bits with
// inputs as rows. skald has gate, up and down as three matrices, as GGUF has them.
#pragma once

#include <memory>
#include <span>

#include "models/files/safetensors.h"

namespace skald {

// The names of a layer's tensors as a folder holds them, after "blk.<layer>.".
namespace gpt_oss {
inline constexpr std::string_view kGateUp = "ffn_gate_up_exps", kGate = "ffn_gate_exps",
                                  kUp = "ffn_up_exps", kDown = "ffn_down_exps";
}

// The tensors that a Program of the family asks for. Those of experts have readers.
std::shared_ptr<const WeightFile> gpt_oss_weights(std::shared_ptr<const WeightFile> weights,
                                                  std::span<const RawTensor> raw);

}  // namespace skald
