// Translates Hugging Face's tensor names to GGUF's, which skald uses everywhere.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace skald {

// A part of a layer, whose tensors are its weight and its bias: {".self_attn.q_proj", "attn_q"}. Or
// one tensor with a whole name: {".self_attn.sinks", "attn_sinks.weight"}, {".mamba.D", "ssm_d"}.
struct NamePart {
  std::string_view hf, gguf;
};

// How Hugging Face's folders call the matrices of one expert.
inline constexpr NamePart kGateUpDown[] = {
    {"gate_proj", "ffn_gate"}, {"up_proj", "ffn_up"}, {"down_proj", "ffn_down"}};
inline constexpr NamePart kW1W3W2[] = {{"w1", "ffn_gate"}, {"w3", "ffn_up"}, {"w2", "ffn_down"}};

// Translates "model.layers.3.self_attn.q_proj.weight" to "blk.3.attn_q.weight"; "": not needed. The
// family's `own` parts are tried before the common ones.
std::string tensor_name(std::string_view hf_name, std::span<const NamePart> own = {});

// Qwen's files call the layer that predicts a further token "mtp"; returns what others call it:
// "model.layers.3.eh_proj.weight" for layer 3. Other names stay; "": not needed.
std::string predictor_name(std::string_view hf_name, int layer);

// The layer of a tensor with skald's name, such as 3 of "blk.3.attn_q.weight"; -1: of no layer.
int layer_of(std::string_view name);

// Translates the name of one expert's tensor: "model.layers.3.mlp.experts.7.gate_proj.weight" to
// "blk.3.ffn_gate.7.weight", if `experts` is ".mlp.experts." and a part has "gate_proj". "" for any
// other name.
std::string expert_tensor_name(std::string_view hf_name, std::string_view experts,
                               std::span<const NamePart> parts);

// Files with a vision part name text tensors "language_model.model.layers..." or
// "model.language_model.layers..."; returns "model.layers...". Other names stay.
std::string text_model_name(std::string_view hf_name);

}  // namespace skald
