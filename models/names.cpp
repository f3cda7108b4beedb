#include "models/names.h"

#include <charconv>

#include "engine/error.h"

namespace skald {
namespace {

constexpr NamePart kParts[] = {
    {".input_layernorm", "attn_norm"},
    {".self_attn.q_proj", "attn_q"},
    {".self_attn.k_proj", "attn_k"},
    {".self_attn.v_proj", "attn_v"},
    {".self_attn.qkv_proj", "attn_qkv"},
    {".self_attn.q_norm", "attn_q_norm"},
    {".self_attn.k_norm", "attn_k_norm"},
    {".self_attn.o_proj", "attn_output"},
    {".mlp.gate_proj", "ffn_gate"},
    {".mlp.up_proj", "ffn_up"},
    {".mlp.gate_up_proj", "ffn_up"},
    {".mlp.down_proj", "ffn_down"},
    {".post_attention_layernorm", "ffn_norm"},
};

// `rest` is a part's name in Hugging Face's spelling, then ".weight" or ".bias".
std::string layer_tensor(int layer, std::string_view rest, std::span<const NamePart> parts) {
  for (const auto& [hf, gguf] : parts) {
    if (!rest.starts_with(hf)) continue;
    const std::string_view kind = rest.substr(hf.size());
    if (kind == ".weight" || kind == ".bias") return concat("blk.", layer, ".", gguf, kind);
  }
  return "";
}

}  // namespace

std::string tensor_name(std::string_view name, std::span<const NamePart> own) {
  if (name == "model.embed_tokens.weight") return "token_embd.weight";
  if (name == "model.norm.weight") return "output_norm.weight";
  if (name == "lm_head.weight") return "output.weight";

  constexpr std::string_view kPrefix = "model.layers.";
  if (!name.starts_with(kPrefix)) return "";
  name.remove_prefix(kPrefix.size());
  int layer = 0;
  const auto [rest, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  if (error != std::errc() || layer < 0) return "";
  name.remove_prefix(static_cast<size_t>(rest - name.data()));
  const std::string found = layer_tensor(layer, name, own);
  return found.empty() ? layer_tensor(layer, name, kParts) : found;
}

std::string text_model_name(std::string_view name) {
  constexpr std::string_view kOuter = "language_model.", kInner = "model.language_model.";
  if (name.starts_with(kInner)) return concat("model.", name.substr(kInner.size()));
  if (name.starts_with(kOuter)) name.remove_prefix(kOuter.size());
  return std::string(name);
}

}  // namespace skald
