// Tensors have one spelling here, GGUF's; this turns Hugging Face's into it.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace skald {

struct NamePart {
  std::string_view hf, gguf;  // of a layer: ".self_attn.q_proj", "attn_q"
};

// "blk.3.attn_q.weight" of "model.layers.3.self_attn.q_proj.weight"; "" of what is not needed.
// A family's own parts come before those that most have.
std::string tensor_name(std::string_view hf_name, std::span<const NamePart> own = {});

// The same of a tensor of one expert: "blk.3.ffn_gate.7.weight" of
// "model.layers.3.mlp.experts.7.gate_proj.weight", where `experts` is ".mlp.experts." and the parts
// have "gate_proj"; "" of any other name.
std::string expert_tensor_name(std::string_view hf_name, std::string_view experts,
                               std::span<const NamePart> parts);

// "model.layers..." of "language_model.model.layers..." or "model.language_model.layers...", as
// files with a vision part call the text's tensors; other names stay.
std::string text_model_name(std::string_view hf_name);

}  // namespace skald
