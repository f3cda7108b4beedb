// Gemma 4's text part, dense and with experts: Gemma 3's layers, where values have a norm too and
// a layer's result is scaled. Layers without a window have larger heads of their own, and mostly
// take their values from the projection of keys. Experts stand beside the feed-forward. In the
// smallest models a token has an embedding for each layer, and the last layers keep no keys and
// values. The vision and audio parts are ignored.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "engine/base/error.h"
#include "models/families/families.h"
#include "models/families/gemma.h"
#include "models/families/shared/config.h"
#include "models/families/shared/experts.h"
#include "models/families/shared/gguf_fields.h"
#include "models/families/shared/names.h"
#include "models/families/shared/windows.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"gemma4", "gemma4_text", "gemma4_unified",
                                         "gemma4_unified_text"};
constexpr std::string_view kGgufTypes[] = {"gemma4"};
constexpr int kPeriod = 6;  // every sixth layer has no window
constexpr double kWindowBase = 10000;
constexpr int kMostHeads = 4096, kMostHeadDim = 1024;
constexpr int kFullHeadDim = 512;  // unless the file says otherwise
constexpr const char* kRopes = "rope_parameters";

constexpr NamePart kParts[] = {{".post_attention_layernorm", "post_attention_norm"},
                               {".pre_feedforward_layernorm", "ffn_norm"},
                               {".pre_feedforward_layernorm_2", "pre_ffw_norm_2"},
                               {".post_feedforward_layernorm", "post_ffw_norm"},
                               {".post_feedforward_layernorm_1", "post_ffw_norm_1"},
                               {".post_feedforward_layernorm_2", "post_ffw_norm_2"},
                               {".layer_scalar", "layer_output_scale.weight"},
                               {".router.proj", "ffn_gate_inp"},
                               {".router.scale", "ffn_gate_inp.scale"},
                               {".router.per_expert_scale", "ffn_down_exps.scale"},
                               {".experts.gate_up_proj", "ffn_gate_up_exps.weight"},
                               {".experts.down_proj", "ffn_down_exps.weight"},
                               {".per_layer_input_gate", "inp_gate"},
                               {".per_layer_projection", "proj"},
                               {".post_per_layer_input_norm", "post_norm"}};
constexpr std::pair<std::string_view, std::string_view> kWholeNames[] = {
    {"model.embed_tokens_per_layer.weight", "per_layer_token_embd.weight"},
    {"model.per_layer_model_projection.weight", "per_layer_model_proj.weight"},
    {"model.per_layer_projection_norm.weight", "per_layer_proj_norm.weight"}};

constexpr std::string_view kDefaults = R"({"vocab_size": 262144, "hidden_size": 2304,
    "intermediate_size": 9216, "num_hidden_layers": 30, "num_attention_heads": 8,
    "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 131072,
    "hidden_size_per_layer_input": 256, "rope_parameters": {
    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
    "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25,
                       "rope_theta": 1000000.0}}})";

bool is_unified(const HfConfig& file) {
  return file.text("model_type").starts_with("gemma4_unified");
}

HfConfig text_config(const HfConfig& file) {
  const HfConfig text = text_part(file);
  if (!is_unified(file)) {
    return text.with_defaults(R"({"sliding_window": 512})").with_defaults(kDefaults);
  }
  // Without embeddings for each layer.
  return text
      .with_defaults(R"({"sliding_window": 1024, "max_position_embeddings": 262144,
                         "hidden_size_per_layer_input": 0})")
      .with_defaults(kDefaults);
}

// The first layer with or without a window; -1: there is none.
int first_layer(const ModelConfig& c, bool windowed) {
  for (int layer = 0; layer < c.layers; ++layer) {
    if ((c.window_of(layer) != 0) == windowed) return layer;
  }
  return -1;
}

// What all models of the family have, whatever the file.
void complete(ModelConfig& c) {
  complete_gemma(c);
  c.qk_norm = QkNorm::Heads;
  c.attention_scale = 1;
  if (c.experts.count == 0) return;
  c.experts.normalized = true;
  c.experts.router_scale = 1 / std::sqrt(static_cast<float>(c.dim));
  c.experts.expert_scale = true;
}

void check_layers(const ModelConfig& c, std::string_view where) {
  if (c.full.kv_heads > 0 && c.heads % c.full.kv_heads != 0) {
    fail(Exit::Model, where, ": ", c.heads, " heads cannot share ", c.full.kv_heads,
         " key-value heads evenly in layers without a window");
  }
  for (const int head_dim : {c.head_dim, c.full.head_dim}) {
    if (head_dim % 2 == 0) continue;
    fail(Exit::Model, where, ": the head dimension is ", head_dim, ", expected an even number");
  }
  const int keeping = c.layers - c.shared_kv.layers;
  for (int layer = keeping; layer < c.layers; ++layer) {
    const bool windowed = c.window_of(layer) != 0;
    const int first = first_layer(c, windowed);
    if (first < keeping) continue;
    fail(Exit::Model, where, ": layer ", layer, " reads the keys and values of an earlier layer ",
         windowed ? "with" : "without", " a window, but none of the first ", keeping,
         " layers is one");
  }
}

// Newer files list what differs by layer, older ones have keys of their own.
FullLayersConfig read_full_layers(const HfConfig& config, const ModelConfig& c) {
  constexpr const char* kLayers = "per_layer_config";
  const std::string layer = std::to_string(first_layer(c, false));
  const bool listed = config.has(kLayers) && config.object(kLayers).has(layer);
  const auto read = [&](const char* own, const char* key, int unsaid, int most) {
    const HfConfig place = listed ? config.object(kLayers).object(layer) : config;
    return static_cast<int>(place.integer_or(listed ? key : own, unsaid, 1, most));
  };
  FullLayersConfig full;
  full.values_are_keys = config.boolean_or("attention_k_eq_v", false);
  full.head_dim = read("global_head_dim", "head_dim", kFullHeadDim, kMostHeadDim);
  full.kv_heads = c.kv_heads;
  if (listed || full.values_are_keys) {
    full.kv_heads =
        read("num_global_key_value_heads", "num_key_value_heads", c.kv_heads, kMostHeads);
  }
  return full;
}

void read_ropes(const HfConfig& config, ModelConfig& c) {
  const HfConfig both = config.object(kRopes);
  HfRopeDefaults defaults;
  defaults.proportional = true;
  const HfConfig full = config.with(kRopes, both.object("full_attention"));
  set_rope(c, read_hf_rope(full, c.full.head_dim, defaults), config.where());
  read_window_rope(config, kWindowBase, c);
}

ExpertsConfig read_experts(const HfConfig& config) {
  ExpertsConfig e;
  if (!config.boolean_or("enable_moe_block", false)) return e;
  e.count = static_cast<int>(config.integer("num_experts", 1, kMostExperts));
  e.used = static_cast<int>(config.integer("top_k_experts", 1, e.count));
  e.ffn_dim = config.integer("moe_intermediate_size", 1, kMostFfnDim);
  return e;
}

ModelConfig from_hf(const HfConfig& file) {
  const HfConfig config = text_config(file);
  // "vision": the pieces of an image see one another; text is causal.
  refuse_other_values(config, {{"hidden_activation", "gelu_pytorch_tanh"},
                               {"use_bidirectional_attention", "vision"}});
  HfDefaults defaults;
  defaults.tied = true;
  defaults.activation = Activation::GeluTanh;
  constexpr std::string_view kReads[] = {"final_logit_softcapping"};
  defaults.reads = kReads;
  const HfConfig ropes = config.object(kRopes);
  ModelConfig c = read_common_hf(config.with(kRopes, ropes.object("sliding_attention")), defaults);
  c.architecture = file.text("model_type");
  c.tied = config.boolean_or("tie_word_embeddings", true) || text_part_is_tied(file);
  c.logit_softcap = read_softcap(config, "final_logit_softcapping");
  c.window = static_cast<int>(config.integer("sliding_window", 1, kMostWindow));
  c.windows = read_layer_windows(config, c.layers, c.window);
  if (c.windows.empty()) c.windows = windows_by_period(c.layers, c.window, kPeriod);
  c.windows.back() = 0;  // whatever the list says
  c.full = read_full_layers(config, c);
  c.shared_kv.layers =
      static_cast<int>(config.integer_or("num_kv_shared_layers", 0, 0, c.layers - 1));
  if (c.shared_kv.layers > 0) {
    c.shared_kv.ffn_dim =
        config.boolean_or("use_double_wide_mlp", false) ? 2 * c.ffn_dim : c.ffn_dim;
  }
  c.layer_embedding = config.integer_or("hidden_size_per_layer_input", 0, 0, kMostFfnDim);
  c.experts = read_experts(config);
  check_layers(c, config.where());
  read_ropes(config, c);
  complete(c);
  return c;
}

int gguf_number(const GgufFile& file, std::string_view key, uint64_t value, int most) {
  if (value < 1 || value > static_cast<uint64_t>(most)) {
    fail(Exit::Model, file.path(), ": 'gemma4.", key, "' is ", value, ", expected 1 to ", most);
  }
  return static_cast<int>(value);
}

// Which number of heads and which width a layer has, where a list says it.
void read_gguf_layers(const GgufFile& file, ModelConfig& c) {
  const GgufMetadata& metadata = file.metadata();
  const auto of_layer = [&](const char* key, int layer, int most) {
    const int64_t value = gguf_number_of_layer(file, concat("gemma4.", key), layer);
    return gguf_number(file, key, static_cast<uint64_t>(value), most);
  };
  const int full = first_layer(c, false), windowed = first_layer(c, true);
  c.shared_kv.layers = static_cast<int>(std::min<uint64_t>(
      metadata.uint_or("gemma4.attention.shared_kv_layers", 0), static_cast<uint64_t>(c.layers)));
  constexpr const char* kKvHeads = "attention.head_count_kv";
  c.full.head_dim = c.head_dim;
  if (full >= 0) {
    c.full.kv_heads = of_layer(kKvHeads, full, kMostHeads);
    c.full.values_are_keys = !file.find(concat("blk.", full, ".attn_v.weight"));
  }
  for (int layer = 0; layer < c.layers - c.shared_kv.layers; ++layer) {
    const std::string name = concat("blk.", layer, ".attn_v.weight");
    if (c.window_of(layer) != 0 || !file.find(name) == c.full.values_are_keys) continue;
    fail(Exit::Model, file.path(), ": tensor '", name, "' is ",
         c.full.values_are_keys ? "there" : "missing", ", but not in layer ", full,
         "; layers without a window differ");
  }
  if (windowed >= 0) c.kv_heads = of_layer(kKvHeads, windowed, kMostHeads);
  constexpr const char* kHeadDim = "attention.key_length_swa";
  const auto or_unsaid = [&](const char* key, int unsaid) {
    return metadata.uint_or(concat("gemma4.", key), static_cast<uint64_t>(unsaid));
  };
  c.head_dim = gguf_number(file, kHeadDim, or_unsaid(kHeadDim, c.full.head_dim), kMostHeadDim);
  for (const char* key : {"attention.value_length_swa", "rope.dimension_count_swa"}) {
    const uint64_t value = or_unsaid(key, c.head_dim);
    if (value == static_cast<uint64_t>(c.head_dim)) continue;
    fail(Exit::Model, file.path(), ": 'gemma4.", key, "' is ", value, ", expected ", c.head_dim,
         ", which is 'gemma4.", kHeadDim, "'");
  }
  if (c.shared_kv.layers > 0) {
    c.shared_kv.ffn_dim = of_layer("feed_forward_length", c.layers - 1, kMostFfnDim);
  }
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig c = read_gemma_gguf(file, {.lists = true});
  const GgufMetadata& metadata = file.metadata();
  if (c.window == 0) {
    fail(Exit::Model, file.path(),
         ": 'gemma4.attention.sliding_window' is 0 or missing, expected 1 or more");
  }
  c.windows = gguf_windows(file, c.layers, c.window, kPeriod);
  read_gguf_layers(file, c);
  c.logit_softcap = read_softcap(file, "final_logit_softcapping", 0);
  const uint64_t width = metadata.uint_or("gemma4.embedding_length_per_layer_input", 0);
  if (width > 0) {
    c.layer_embedding = gguf_number(file, "embedding_length_per_layer_input", width, kMostFfnDim);
  }
  c.experts = read_gguf_experts(file, c.ffn_dim);
  check_layers(c, file.path());
  read_window_rope(file, kWindowBase, c);
  complete(c);
  return c;
}

std::string name(std::string_view hf_name) {
  const std::string text = text_model_name(hf_name);
  for (const auto& [hf, gguf] : kWholeNames) {
    if (text == hf) return std::string(gguf);
  }
  return tensor_name(text, kParts);
}

// Tensors of layers that read the keys and values of others.
bool is_unread(const ModelConfig& c, std::string_view name) {
  if (layer_of(name) < c.layers - c.shared_kv.layers) return false;
  for (const char* part : {".attn_k.", ".attn_v.", ".attn_k_norm."}) {
    if (name.find(part) != name.npos) return true;
  }
  return false;
}

void to_gguf(const HfConfig& file, const ModelConfig& c, GgufExport& out) {
  const HfConfig config = text_config(file);
  HfRopeDefaults defaults;
  defaults.proportional = true;
  const HfConfig full = config.with(kRopes, config.object(kRopes).object("full_attention"));
  CommonExport common{"gemma4", read_hf_rope(full, c.full.head_dim, defaults), true};
  common.head_dim = c.full.head_dim;
  std::vector<bool> windowed;
  for (int layer = 0; layer < c.layers; ++layer) {
    windowed.push_back(c.window_of(layer) != 0);
    common.kv_heads.push_back(windowed.back() ? c.kv_heads : c.full.kv_heads);
    const bool wide = layer >= c.layers - c.shared_kv.layers;
    common.ffn_dims.push_back(static_cast<int32_t>(wide ? c.shared_kv.ffn_dim : c.ffn_dim));
  }
  put_common(c, common, out);
  GgufHead& head = out.head;
  head.put_bools("gemma4.attention.sliding_window_pattern", windowed);
  head.put_u32("gemma4.attention.key_length_swa", c.head_dim);
  head.put_u32("gemma4.attention.value_length_swa", c.head_dim);
  head.put_u32("gemma4.rope.dimension_count_swa", c.head_dim);
  head.put_f32("gemma4.rope.freq_base_swa", c.window_rope_base);
  head.put_u32("gemma4.attention.shared_kv_layers", c.shared_kv.layers);
  head.put_u32("gemma4.embedding_length_per_layer_input", c.layer_embedding);
  if (c.logit_softcap > 0) head.put_f32("gemma4.final_logit_softcapping", c.logit_softcap);
  if (c.experts.count > 0) export_experts(c, "gemma4", out);
  std::erase_if(out.tensors, [&](const MadeTensor& t) { return is_unread(c, t.name); });
}

}  // namespace

const Family kGemma4 = {"Gemma 4", kHfTypes, kGgufTypes,   from_hf,
                        from_gguf, name,     build_gemma4, to_gguf};

}  // namespace skald
