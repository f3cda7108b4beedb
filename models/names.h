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

// Files with a vision part put a prefix before the text's names, one that has changed over time:
// what they would be without it.
std::string text_name(std::string_view hf_name);

}  // namespace skald
