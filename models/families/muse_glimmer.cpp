// Muse Glimmer, the text part: norms around each half of a layer, gated attention, rope only in
// layers with a window. Norms of the embedding, of queries and of keys have no weights; queries are
// multiplied by a factor, which GGUFs hold as weights of their norm.
#include <algorithm>
#include <string>

#include "engine/base/error.h"
#include "models/families/families.h"
#include "models/families/gemma.h"
#include "models/families/shared/blocks.h"
#include "models/families/shared/config.h"
#include "models/families/shared/experts.h"
#include "models/families/shared/gguf_fields.h"
#include "models/families/shared/names.h"
#include "models/families/shared/windows.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"muse_glimmer", "muse_glimmer_text"};
constexpr std::string_view kGgufTypes[] = {"muse-glimmer"};
constexpr std::string_view kArchitecture = "muse-glimmer";
constexpr int kPeriod = 4;             // one of so many layers has no window
constexpr float kPostNormEps = 1e-8f;  // of the norms after each half of a layer
constexpr std::string_view kCap = "final_logit_softcapping", kLogitScale = "output_multiplier",
                           kQueryScale = "qk_scale_factor";
constexpr std::string_view kReads[] = {kCap, kLogitScale, kQueryScale};

constexpr NamePart kParts[] = {{".post_attention_layernorm", "post_attention_norm"},
                               {".pre_feedforward_layernorm", "ffn_norm"},
                               {".post_feedforward_layernorm", "post_ffw_norm"},
                               {".self_attn.gate_proj", "attn_gate"}};

constexpr std::string_view kDefaults = R"({"vocab_size": 202048, "head_dim": 128,
    "num_key_value_heads": 2, "max_position_embeddings": 131072, "sliding_window": 2048,
    "final_logit_softcapping": 20.0, "qk_scale_factor": 3.87,
    "output_multiplier": 0.19611613513818404, "post_norm_eps": 1e-8})";

HfDefaults hf_defaults() {
  HfDefaults defaults;
  defaults.norm_eps = 1e-5;
  defaults.reads = kReads;
  return defaults;
}

void complete(ModelConfig& c) {
  c.mlp_bias = false;
  c.qk_norm = QkNorm::Heads;
  c.attention_gate = true;
}

// One of kPeriod layers, counted from the last, has no window.
std::vector<int> usual_windows(const ModelConfig& c) {
  std::vector<int> windows;
  windows.reserve(static_cast<size_t>(c.layers));
  for (int layer = 0; layer < c.layers; ++layer) {
    windows.push_back((c.layers - 1 - layer) % kPeriod == 0 ? 0 : c.window);
  }
  return windows;
}

// layer_rope_theta: 0 for layers without rope.
void read_unrotated(const HfConfig& config, ModelConfig& c) {
  if (!config.has("layer_rope_theta")) {
    for (const int window : usual_windows(c)) c.unrotated.push_back(window == 0);
    return;
  }
  for (const float base : config.floats("layer_rope_theta")) c.unrotated.push_back(base == 0);
  if (std::ssize(c.unrotated) < c.layers) {
    fail(Exit::Model, config.where(), ": 'layer_rope_theta' has ", c.unrotated.size(),
         " values, expected one for each of ", c.layers, " layers");
  }
  c.unrotated.resize(static_cast<size_t>(c.layers));
}

ModelConfig from_hf(const HfConfig& file) {
  const HfConfig config = text_part(file).with_defaults(kDefaults);
  refuse_other_values(config, {{"hidden_activation", "silu"}});
  if (static_cast<float>(config.number("post_norm_eps")) != kPostNormEps) {
    fail(Exit::Model, config.where(), ": 'post_norm_eps' is ", config.number("post_norm_eps"),
         ", expected ", kPostNormEps);
  }
  ModelConfig c = read_common_hf(config, hf_defaults());
  c.architecture = file.text("model_type");
  c.tied = text_part_is_tied(file);
  c.norm_plus = 1;
  c.window = static_cast<int>(config.integer("sliding_window", 1, kMostWindow));
  c.windows = read_layer_windows(config, c.layers, c.window);
  if (c.windows.empty()) c.windows = usual_windows(c);
  read_unrotated(config, c);
  c.bare_query_scale = checked_scale(config.number(kQueryScale), config.where(), kQueryScale);
  c.logit_scale = checked_scale(config.number(kLogitScale), config.where(), kLogitScale);
  c.logit_softcap = read_softcap(config, kCap);
  complete(c);
  return c;
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig c = read_common_gguf(file);
  if (c.window == 0) {
    fail(Exit::Model, file.path(), ": 'muse-glimmer.attention.sliding_window' is missing or 0");
  }
  c.windows = gguf_windows(file, c.layers, c.window, kPeriod);
  for (const int window : c.windows) c.unrotated.push_back(window == 0);
  c.rope.interleaved = true;
  constexpr std::string_view kScale = "muse-glimmer.logit_scale";
  c.logit_scale = checked_scale(file.metadata().number(kScale), file.path(), kScale);
  c.logit_softcap = read_softcap(file, kCap, 0);
  complete(c);
  return c;
}

std::string name(std::string_view hf_name) { return tensor_name(text_model_name(hf_name), kParts); }

Program build(const ModelConfig& c, const WeightFile& file) {
  Blocks b(c, file);
  const auto norm_after = [&](int layer, std::string_view part) {
    const std::string weight = concat("blk.", layer, ".", part, ".weight");
    b.builder().add(
        Norm{b.h(), b.h(), b.builder().norm_weight(weight, c.dim, c.norm_plus), kPostNormEps});
  };
  b.embed();
  b.builder().add(Norm{b.x(), b.x(), WeightId::None, c.norm_eps});
  for (int layer = 0; layer < c.layers; ++layer) {
    b.norm(b.h(), b.x(), layer, "attn_norm");
    b.attention(layer, b.h());
    norm_after(layer, "post_attention_norm");
    b.add();
    b.norm(b.h(), b.x(), layer, "ffn_norm");
    b.mlp(layer, b.h());
    norm_after(layer, "post_ffw_norm");
    b.add();
  }
  return std::move(b).finish({.plus = 0.0f});
}

void to_gguf(const HfConfig& file, const ModelConfig& c, GgufExport& out) {
  const HfConfig config = text_part(file).with_defaults(kDefaults);
  put_common(c, {kArchitecture, read_hf_rope(config, c.head_dim, hf_defaults().rope)}, out);
  std::vector<bool> has_window;
  for (const int window : c.windows) has_window.push_back(window != 0);
  const auto key = [](std::string_view part) { return concat(kArchitecture, ".", part); };
  out.head.put_bools(key("attention.sliding_window_pattern"), has_window);
  out.head.put_f32(key("logit_scale"), c.logit_scale);
  out.head.put_f32(key(kCap), c.logit_softcap);
  complete_norms(c, out);
  interleave_heads(c, out);
  for (MadeTensor& tensor : out.tensors) {
    if (tensor.name == "output_norm.weight") tensor.added = 0;
  }
  for (int layer = 0; layer < c.layers; ++layer) {
    for (const bool is_query : {true, false}) {
      MadeTensor weight;
      weight.name = concat("blk.", layer, is_query ? ".attn_q_norm" : ".attn_k_norm", ".weight");
      weight.shape = {c.head_dim};
      weight.values.assign(static_cast<size_t>(c.head_dim), is_query ? c.bare_query_scale : 1.0f);
      out.tensors.push_back(std::move(weight));
    }
  }
}

}  // namespace

const Family kMuseGlimmer = {"Muse Glimmer", kHfTypes, kGgufTypes, from_hf, from_gguf,
                             name,           build,    to_gguf,    nullptr, true};

}  // namespace skald
