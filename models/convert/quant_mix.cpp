#include "models/convert/quant_mix.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

constexpr QuantMix kMixes[] = {
    {"f32", DType::F32, 0},      {"f16", DType::F16, 1},        {"bf16", DType::BF16, 32},
    {"q8_0", DType::Q8_0, 7},    {"q6_k", DType::Q6_K, 18},     {"q5_k_m", DType::Q5_K, 17},
    {"q5_k_s", DType::Q5_K, 16}, {"q5_1", DType::Q5_1, 9},      {"q5_0", DType::Q5_0, 8},
    {"q4_k_m", DType::Q4_K, 15}, {"q4_k_s", DType::Q4_K, 14},   {"q4_1", DType::Q4_1, 3},
    {"q4_0", DType::Q4_0, 2},    {"iq4_nl", DType::IQ4_NL, 25}, {"iq4_xs", DType::IQ4_XS, 30},
    {"q2_k", DType::Q2_K, 10},   {"q2_k_s", DType::Q2_K, 21},
};

// 12 for "blk.12.attn_v.weight"; -1 for tensors outside the layers.
int layer_of(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return -1;
  int layer = -1;
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), layer);
  return layer;
}

// True for layers in the first and last eighth, and for every third of the others.
bool has_more_bits(int layer, int layers) {
  const int eighth = layers / 8;
  return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
}

DType by_rules(const QuantMix& mix, const MixedModel& model, std::string_view name) {
  if (info(mix.most).block_elems == 1) return mix.most;
  const bool output = name == "output.weight" || (model.tied && name == "token_embd.weight");
  if (output) return mix.most == DType::Q8_0 ? DType::Q8_0 : DType::Q6_K;

  const auto is = [&](std::string_view part) { return name.find(part) != name.npos; };
  const int layer = layer_of(name);
  const bool medium = mix.name == "q4_k_m" || mix.name == "q5_k_m";
  const bool small = mix.name == "q4_k_s";
  const bool values = mix.name == "iq4_nl" || mix.name == "iq4_xs";
  const bool two = mix.name == "q2_k", small_two = mix.name == "q2_k_s";
  const bool first_eighth = layer >= 0 && layer < model.layers / 8;
  const bool more = medium && layer >= 0 && has_more_bits(layer, model.layers);
  if (is("attn_v.weight")) {
    constexpr int kFirst = 4;
    DType type = more ? DType::Q6_K : mix.most;
    if (small && layer >= 0 && layer < kFirst) type = DType::Q5_K;
    if (two) type = DType::Q3_K;
    if ((two || small_two) && model.few_key_heads) type = DType::Q4_K;
    if (model.small_values && (type == DType::Q3_K || type == DType::Q4_K)) type = DType::Q5_K;
    if (values && model.few_key_heads) type = DType::Q5_K;
    return model.small_attention ? DType::Q8_0 : type;
  }
  if (model.small_attention && is("attn_k.weight")) return DType::Q8_0;
  if (model.small_attention && is("attn_output.weight") &&
      (mix.name == "q4_k_m" || small || values || two)) {
    return DType::Q5_K;
  }
  if (two && (is("attn_output.weight") || is("ffn_down"))) return DType::Q3_K;
  if (is("ffn_down")) {
    if (more) return DType::Q6_K;
    if (first_eighth && (small || (values && !model.importances))) return DType::Q5_K;
    if (first_eighth && small_two) return DType::Q4_K;
    // Formats without a minimum lose most in these matrices where importances differ much.
    if (first_eighth && model.importances && mix.most == DType::Q4_0) return DType::Q4_1;
    if (first_eighth && model.importances && mix.most == DType::Q5_0) return DType::Q5_1;
  }
  if (is("attn_qkv.weight") && medium) {
    return mix.most == DType::Q4_K ? DType::Q5_K : DType::Q6_K;
  }
  return mix.most;
}

// The fallback format: blocks of 32 weights instead of 256, then 16 bits instead of blocks.
DType for_rows(DType type, int64_t cols) {
  if (cols % info(type).block_elems == 0) return type;
  if (type == DType::Q4_K) type = DType::Q5_0;
  if (type == DType::IQ3_S || type == DType::IQ2_S) type = DType::IQ4_NL;
  if (type == DType::Q2_K || type == DType::Q3_K || type == DType::IQ4_XS) type = DType::IQ4_NL;
  if (type == DType::Q5_K) type = DType::Q5_1;
  if (type == DType::Q6_K) type = DType::Q8_0;
  return cols % info(type).block_elems == 0 ? type : DType::F16;
}

}  // namespace

std::vector<std::string_view> quant_mix_names() {
  std::vector<std::string_view> names;
  for (const QuantMix& mix : kMixes) names.push_back(mix.name);
  return names;
}

const QuantMix& find_quant_mix(std::string_view name) {
  std::string lower(name), known;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const QuantMix& mix : kMixes) {
    if (mix.name == lower) return mix;
    known += concat(known.empty() ? "" : ", ", mix.name);
  }
  fail(Exit::Usage, "unknown type '", printable(name, 40), "'; these are: ", known);
}

std::string quant_mix_of(int64_t file_type) {
  std::string upper;
  for (const QuantMix& mix : kMixes) {
    if (mix.file_type == file_type) upper = mix.name;
  }
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return upper;
}

MixedModel mixed_model(const ModelConfig& c) {
  MixedModel model{c.layers, c.tied, false};
  constexpr int kLayersOf70b = 80;
  const bool llama = c.architecture == "llama" || c.architecture == "mistral";
  const bool shared = (llama && c.heads != c.kv_heads) || c.architecture == "qwen2";
  model.small_values = shared && c.layers == kLayersOf70b;
  model.small_attention = c.experts.count == 8;
  model.few_key_heads = c.kv_heads > 0 && c.heads / c.kv_heads >= 4;
  return model;
}

bool is_quantizable(std::string_view name, int64_t rows, size_t dims) {
  if (dims < 2 || rows < 2 || !name.ends_with("weight")) return false;
  for (std::string_view part : {"_norm.weight", "ffn_gate_inp.weight", "conv1d.weight",
                                "shortconv.conv.weight", "per_layer_model_proj.weight"}) {
    if (name.find(part) != name.npos) return false;
  }
  return true;
}

TypeChoice choose_type(const QuantMix& mix, const MixedModel& model, std::string_view name,
                       int64_t cols, const TypeOverride& by_user) {
  const std::optional<DType> chosen = by_user ? by_user(name) : std::nullopt;
  const DType preferred = chosen.value_or(by_rules(mix, model, name));
  const DType type = for_rows(preferred, cols);
  return {type, type != preferred};
}

}  // namespace skald
