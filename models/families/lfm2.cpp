// LFM2 and LFM2-MoE: most layers have a short convolution with two gates in the place of attention.
// The layers of a mixture choose experts by sigmoids with a bias; its first layers have none.
#include <algorithm>
#include <string>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/families/families.h"
#include "models/families/shared/blocks.h"
#include "models/families/shared/config.h"
#include "models/families/shared/experts.h"
#include "models/families/shared/gguf_fields.h"
#include "models/families/shared/names.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"lfm2", "lfm2_moe"};
constexpr std::string_view kGgufTypes[] = {"lfm2", "lfm2moe"};
constexpr std::string_view kLastNorm = "token_embd_norm";  // GGUF's name for the last norm
constexpr int64_t kMostTaps = 64, kMostWidth = 1 << 20;

constexpr NamePart kParts[] = {{".operator_norm", "attn_norm"},
                               {".ffn_norm", "ffn_norm"},
                               {".self_attn.q_layernorm", "attn_q_norm"},
                               {".self_attn.k_layernorm", "attn_k_norm"},
                               {".self_attn.out_proj", "attn_output"},
                               {".conv.conv.weight", "shortconv.conv.weight"},
                               {".conv.in_proj.weight", "shortconv.in_proj.weight"},
                               {".conv.out_proj.weight", "shortconv.out_proj.weight"},
                               {".feed_forward.w1", "ffn_gate"},
                               {".feed_forward.w3", "ffn_up"},
                               {".feed_forward.w2", "ffn_down"},
                               {".feed_forward.gate", "ffn_gate_inp"},
                               {".feed_forward.expert_bias", "exp_probs_b.bias"},
                               {".feed_forward.experts.gate_up_proj", "ffn_gate_up_exps.weight"},
                               {".feed_forward.experts.down_proj", "ffn_down_exps.weight"}};

constexpr std::string_view kDefaults = R"({"vocab_size": 65536, "num_key_value_heads": 8,
    "max_position_embeddings": 128000, "intermediate_size": 12288, "conv_L_cache": 3,
    "block_auto_adjust_ff_dim": true, "block_ffn_dim_multiplier": 1.0, "block_multiple_of": 256})";
constexpr std::string_view kMoeDefaults = R"({"vocab_size": 65536, "num_key_value_heads": 8,
    "max_position_embeddings": 128000, "intermediate_size": 7168, "conv_L_cache": 3,
    "moe_intermediate_size": 1792, "num_dense_layers": 2, "routed_scaling_factor": 1.0})";

HfDefaults hf_defaults() {
  HfDefaults defaults;
  defaults.norm_eps = 1e-5;
  defaults.norm_eps_key = "norm_eps";
  defaults.tied = true;
  defaults.rope.base = 1e6;
  return defaults;
}

HfConfig with_defaults(const HfConfig& file) {
  return file.with_defaults(file.text("model_type") == "lfm2_moe" ? kMoeDefaults : kDefaults);
}

// The width that the keys block_* make of intermediate_size: two thirds of it, rounded up.
int64_t adjusted_width(const HfConfig& config) {
  const char* key = config.has("block_ff_dim") ? "block_ff_dim" : "intermediate_size";
  int64_t width = config.integer(key, 1, kMostWidth);
  if (!config.boolean_or("block_auto_adjust_ff_dim", false)) return width;
  width = 2 * width / 3;
  const double factor = config.number_or("block_ffn_dim_multiplier", 0);
  if (factor == 0) return width;  // null: neither multiplied nor rounded
  if (!(factor > 0 && factor <= 1024)) {
    fail(Exit::Model, config.where(), ": 'block_ffn_dim_multiplier' is ", factor,
         ", expected a number above 0, at most 1024");
  }
  width = static_cast<int64_t>(factor * static_cast<double>(width));
  const int64_t unit = config.integer("block_multiple_of", 1, kMostWidth);
  return (width + unit - 1) / unit * unit;
}

// layer_types, or the numbers of the layers with attention; without both, all layers have it.
std::vector<bool> read_conv_layers(const HfConfig& config, int layers) {
  std::vector<bool> conv(static_cast<size_t>(layers), false);
  if (config.has("layer_types")) {
    const std::vector<std::string> types = config.texts("layer_types");
    if (std::ssize(types) < layers) {
      fail(Exit::Model, config.where(), ": 'layer_types' has ", types.size(),
           " values, expected one for each of ", layers, " layers");
    }
    for (size_t layer = 0; layer < conv.size(); ++layer) {
      if (types[layer] != "conv" && types[layer] != "full_attention") {
        fail(Exit::Model, config.where(), ": 'layer_types' has '", printable(types[layer], 80),
             "', expected 'full_attention' or 'conv'");
      }
      conv[layer] = types[layer] == "conv";
    }
  } else if (config.has("full_attn_idxs")) {
    conv.assign(conv.size(), true);
    for (const int64_t layer : config.integers("full_attn_idxs")) {
      if (layer >= 0 && layer < layers) conv[static_cast<size_t>(layer)] = false;
    }
  }
  return conv;
}

void complete(ModelConfig& c) {
  c.mlp_bias = c.attention_bias = c.attention_output_bias = false;
  c.qk_norm = QkNorm::Heads;
}

ExpertsConfig read_experts(const HfConfig& config, int layers) {
  ExpertsConfig e = read_hf_experts(config, 32, 4);
  e.ffn_dim = config.integer("moe_intermediate_size", 1, kMostFfnDim);
  e.normalized = config.boolean_or("norm_topk_prob", true);
  constexpr std::string_view kScale = "routed_scaling_factor";
  e.scale = checked_scale(config.number(kScale), config.where(), kScale);
  e.gating = Gating::Sigmoid;
  e.choice_bias = config.boolean_or("use_expert_bias", true);
  const int64_t dense = config.integer("num_dense_layers", 0, 1 << 20);
  for (int layer = 0; dense > 0 && layer < layers; ++layer) e.dense.push_back(layer < dense);
  return e;
}

ModelConfig from_hf(const HfConfig& file) {
  const HfConfig config = with_defaults(file);
  if (config.boolean_or("conv_bias", false)) {
    fail(Exit::Model, config.where(), ": 'conv_bias' is true, expected false");
  }
  ModelConfig c = read_common_hf(config, hf_defaults());
  c.tied = config.boolean_or("tie_embedding", c.tied);
  c.short_conv.layers = read_conv_layers(config, c.layers);
  c.short_conv.taps = static_cast<int>(config.integer("conv_L_cache", 2, kMostTaps));
  if (c.architecture == "lfm2_moe") {
    c.experts = read_experts(config, c.layers);
  } else {
    c.ffn_dim = adjusted_width(config);
  }
  complete(c);
  return c;
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig c = read_common_gguf(file, {.lists = true});
  const std::string heads = c.architecture + ".attention.head_count_kv";
  for (int layer = 0; layer < c.layers; ++layer) {
    const int64_t of_layer = gguf_number_of_layer(file, heads, layer);
    c.short_conv.layers.push_back(of_layer == 0);
    if (of_layer == 0 || of_layer == c.kv_heads) continue;
    fail(Exit::Model, file.path(), ": '", heads, "' has ", of_layer, " for layer ", layer,
         ", expected ", c.kv_heads, " as in other layers with attention, or 0");
  }
  c.short_conv.taps = gguf_integer(file, "shortconv.l_cache", 2, kMostTaps);
  if (c.architecture == "lfm2moe") {
    c.experts = read_gguf_experts(file, c.ffn_dim, {.sigmoids = true, .shared_and_dense = true});
    c.experts.choice_bias = true;
  }
  complete(c);
  return c;
}

// The convolutions of a program's layers: h = out_proj · (c * conv(b * x)), where b, c and x are
// the thirds of in_proj · in.
class ShortConvs {
 public:
  ShortConvs(const ModelConfig& config, Blocks& blocks) : config_(config), blocks_(blocks) {
    ProgramBuilder& b = blocks.builder();
    before_ = b.act("conv_gate_before", config.dim);
    after_ = b.act("conv_gate_after", config.dim);
    in_ = b.act("conv_in", config.dim);
    out_ = b.act("conv_out", config.dim);
  }

  void add(int layer, ActId in) {
    ProgramBuilder& b = blocks_.builder();
    const int64_t dim = config_.dim;
    const int taps = config_.short_conv.taps;
    const auto name = [&](std::string_view part) {
      return concat("blk.", layer, ".shortconv.", part, ".weight");
    };
    int64_t first = 0;
    for (const ActId third : {before_, after_, in_}) {
      b.add(Linear{third, in, b.weight_rows(name("in_proj"), 3 * dim, dim, first, dim),
                   WeightId::None});
      first += dim;
    }
    b.add(GatedAct{in_, before_, in_, Activation::Identity});
    const int state = b.state({(taps - 1) * dim});
    b.add(CausalConv{out_, in_, b.weight(name("conv"), dim, taps), taps, state,
                     Activation::Identity});
    b.add(GatedAct{out_, after_, out_, Activation::Identity});
    blocks_.linear(blocks_.h(), out_, layer, "shortconv.out_proj", false);
  }

 private:
  const ModelConfig& config_;
  Blocks& blocks_;
  ActId before_, after_, in_, out_;
};

Program build(const ModelConfig& c, const WeightFile& file) {
  Blocks b(c, file);
  ShortConvs convs(c, b);
  b.embed();
  for (int layer = 0; layer < c.layers; ++layer) {
    b.norm(b.h(), b.x(), layer, "attn_norm");
    if (c.has_short_conv(layer)) {
      convs.add(layer, b.h());
    } else {
      b.attention(layer, b.h());
    }
    b.add();
    b.feed_forward(layer, "ffn_norm");
  }
  return std::move(b).finish({.name = kLastNorm});
}

std::string name(std::string_view hf_name) {
  if (hf_name == "model.embedding_norm.weight") return concat(kLastNorm, ".weight");
  const std::string expert = expert_tensor_name(hf_name, ".feed_forward.experts.", kW1W3W2);
  return expert.empty() ? tensor_name(hf_name, kParts) : expert;
}

void to_gguf(const HfConfig& file, const ModelConfig& c, GgufExport& out) {
  const HfConfig config = with_defaults(file);
  const bool experts = c.experts.count > 0;
  const std::string architecture = experts ? "lfm2moe" : "lfm2";
  CommonExport common{architecture, read_hf_rope(config, c.head_dim, hf_defaults().rope)};
  for (int layer = 0; layer < c.layers; ++layer) {
    common.kv_heads.push_back(c.has_short_conv(layer) ? 0 : c.kv_heads);
  }
  put_common(c, common, out);
  out.head.put_u32(architecture + ".shortconv.l_cache", c.short_conv.taps);
  for (MadeTensor& tensor : out.tensors) {
    if (!tensor.name.ends_with("shortconv.conv.weight")) continue;
    tensor.shape = {tensor.source.rows, tensor.source.cols};  // without the middle 1
  }
  if (!experts) return;
  // Programs that read such a GGUF expect both.
  if (!c.experts.normalized || !c.experts.choice_bias) {
    fail(Exit::Model, file.where(), ": a GGUF of the architecture 'lfm2moe' cannot say this ",
         "model's experts, which have no ", c.experts.normalized ? "bias" : "normalized weights");
  }
  split_gate_up_experts(c, out);
  export_experts(c, architecture, out);
  out.head.put_u32(architecture + ".leading_dense_block_count",
                   std::count(c.experts.dense.begin(), c.experts.dense.end(), true));
}

}  // namespace

const Family kLfm2 = {"LFM2", kHfTypes, kGgufTypes, from_hf, from_gguf, name, build, to_gguf};

}  // namespace skald
