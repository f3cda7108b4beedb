#include "models/families/shared/names.h"

#include <charconv>

#include "engine/base/error.h"

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
    // The next parts belong to a layer that predicts a further token (models/heads).
    {".enorm.weight", "nextn.enorm.weight"},
    {".hnorm.weight", "nextn.hnorm.weight"},
    {".eh_proj.weight", "nextn.eh_proj.weight"},
    {".shared_head.norm.weight", "nextn.shared_head_norm.weight"},
};

// Removes a number from the front and returns it; -1: there is none.
int take_number(std::string_view& text) {
  int number = -1;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return -1;
  text.remove_prefix(static_cast<size_t>(rest - text.data()));
  return number;
}

// Removes a layer's prefix and returns the layer's number; -1: the name belongs to no layer.
int take_layer(std::string_view& name) {
  constexpr std::string_view kPrefix = "model.layers.";
  if (!name.starts_with(kPrefix)) return -1;
  name.remove_prefix(kPrefix.size());
  return take_number(name);
}

// `rest` is a whole name, or a part's name and ".weight" or ".bias", in Hugging Face's spelling.
std::string layer_tensor(int layer, std::string_view rest, std::span<const NamePart> parts) {
  for (const auto& [hf, gguf] : parts) {
    if (!rest.starts_with(hf)) continue;
    const std::string_view kind = rest.substr(hf.size());
    const bool whole = gguf.find('.') != gguf.npos;
    if (kind.empty() || (!whole && (kind == ".weight" || kind == ".bias"))) {
      return concat("blk.", layer, ".", gguf, kind);
    }
  }
  return "";
}

}  // namespace

std::string tensor_name(std::string_view name, std::span<const NamePart> own) {
  if (name == "model.embed_tokens.weight") return "token_embd.weight";
  if (name == "model.norm.weight") return "output_norm.weight";
  if (name == "lm_head.weight") return "output.weight";

  const int layer = take_layer(name);
  if (layer < 0) return "";
  const std::string found = layer_tensor(layer, name, own);
  return found.empty() ? layer_tensor(layer, name, kParts) : found;
}

std::string predictor_name(std::string_view name, int layer) {
  constexpr std::string_view kPrefix = "mtp.", kLayer = "mtp.layers.0.";
  constexpr NamePart kOwn[] = {{"mtp.fc.", "eh_proj."},
                               {"mtp.pre_fc_norm_embedding.", "enorm."},
                               {"mtp.pre_fc_norm_hidden.", "hnorm."},
                               {"mtp.norm.", "shared_head.norm."}};
  if (!name.starts_with(kPrefix)) return std::string(name);
  const std::string to = concat("model.layers.", layer, ".");
  if (name.starts_with(kLayer)) return concat(to, name.substr(kLayer.size()));
  for (const auto& [own, usual] : kOwn) {
    if (name.starts_with(own)) return concat(to, usual, name.substr(own.size()));
  }
  return "";
}

int layer_of(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return -1;
  name.remove_prefix(kPrefix.size());
  return take_number(name);
}

std::string expert_tensor_name(std::string_view name, std::string_view experts,
                               std::span<const NamePart> parts) {
  const int layer = take_layer(name);
  if (layer < 0 || !name.starts_with(experts)) return "";
  name.remove_prefix(experts.size());
  const int expert = take_number(name);
  if (expert < 0 || !name.starts_with('.')) return "";
  name.remove_prefix(1);
  for (const auto& [hf, gguf] : parts) {
    if (name.starts_with(hf) && name.substr(hf.size()) == ".weight") {
      return concat("blk.", layer, ".", gguf, ".", expert, ".weight");
    }
  }
  return "";
}

std::string text_model_name(std::string_view name) {
  constexpr std::string_view kOuter = "language_model.", kInner = "model.language_model.";
  if (name.starts_with(kInner)) return concat("model.", name.substr(kInner.size()));
  if (name.starts_with(kOuter)) name.remove_prefix(kOuter.size());
  return std::string(name);
}

}  // namespace skald
