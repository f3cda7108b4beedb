// Granite 3 and 4: Llama's layers with four multipliers: for embeddings, attention scores, residual
// additions and logits. Most layers of Granite 4's hybrid models have a state space in the place of
// attention, and some models have experts beside a feed-forward that every token passes through.
// Folders have gate and up in one matrix.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/families/families.h"
#include "models/families/llama.h"
#include "models/families/shared/blocks.h"
#include "models/families/shared/config.h"
#include "models/families/shared/experts.h"
#include "models/families/shared/gguf_fields.h"
#include "models/families/shared/names.h"
#include "models/families/shared/space.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"granite", "granitemoehybrid"};
constexpr std::string_view kGgufTypes[] = {"granite", "granitehybrid"};
constexpr std::string_view kHybrid = kGgufTypes[1];
constexpr std::string_view kRotates = ".rope.scaling.finetuned";
constexpr std::string_view kSharedUp = "ffn_up_shexp.weight";

float multiplier(double value, std::string_view where, std::string_view key) {
  const float multiplier = static_cast<float>(value);
  if (!(multiplier > 0) || !std::isfinite(multiplier)) {
    fail(Exit::Model, where, ": '", key, "' is ", value, ", expected more than 0");
  }
  return multiplier;
}

constexpr std::string_view kReads[] = {"embedding_multiplier", "attention_multiplier",
                                       "residual_multiplier", "logits_scaling"};

bool is_granite4(const HfConfig& config) { return config.text("model_type") != "granite"; }

void set_unrotated(ModelConfig& c) { c.unrotated.assign(static_cast<size_t>(c.layers), true); }

// Which layers have a state space; without layer_types all have.
std::vector<bool> read_layers(const HfConfig& config, int layers) {
  constexpr std::string_view kLayers = "layer_types";
  if (!config.has(kLayers)) return std::vector<bool>(static_cast<size_t>(layers), true);
  std::vector<bool> spaces;
  for (const std::string& type : config.texts(kLayers)) {
    if (type != "attention" && type != "mamba") {
      fail(Exit::Model, config.where(), ": '", kLayers, "' has '", printable(type, 40),
           "', expected 'attention' or 'mamba'");
    }
    spaces.push_back(type == "mamba");
  }
  if (std::ssize(spaces) < layers) {
    fail(Exit::Model, config.where(), ": '", kLayers, "' has ", spaces.size(),
         " values, expected one for each of ", layers, " layers");
  }
  spaces.resize(static_cast<size_t>(layers));
  return spaces;
}

SpaceConfig read_space(const HfConfig& config, const ModelConfig& c) {
  SpaceConfig space;
  space.layers = read_layers(config, c.layers);
  if (std::find(space.layers.begin(), space.layers.end(), true) == space.layers.end()) return {};
  if (config.boolean_or("mamba_proj_bias", false)) {
    fail(Exit::Model, config.where(), ": 'mamba_proj_bias' is true, expected false");
  }
  const auto number = [&](std::string_view key, int64_t otherwise, int64_t least, int64_t most) {
    return static_cast<int>(config.integer_or(key, otherwise, least, most));
  };
  const int64_t inner = number("mamba_expand", 2, 1, kMostHeadDim) * c.dim;
  SpaceSpec& s = space.spec;
  s.heads = number("mamba_n_heads", 128, 1, kMostHeads);
  s.groups = number("mamba_n_groups", 1, 1, kMostHeads);
  s.state_dim = number("mamba_d_state", 256, 1, kMostHeadDim);
  s.head_dim = static_cast<int>(inner / s.heads);
  if (inner % s.heads != 0) {
    fail(Exit::Model, config.where(), ": 'mamba_n_heads' is ", s.heads, ", expected a divisor of ",
         inner, ", the inner width of a state space");
  }
  check_space(s, config.where());
  space.taps = number("mamba_d_conv", 4, 2, kMostConvTaps);
  space.conv_bias = config.boolean_or("mamba_conv_bias", true);
  return space;
}

// Reads the settings that only the folder of a Granite 4 has.
void read_granite4(const HfConfig& config, ModelConfig& c) {
  const int64_t expert_dim = c.ffn_dim;
  c.ffn_dim = config.integer_or("shared_intermediate_size", 1024, 1, kMostFfnDim);
  c.mlp_bias = false;
  if (config.integer_or("num_local_experts", 8, 0, kMostExperts) > 0) {
    c.experts = read_hf_experts(config, 8, 2);
    c.experts.ffn_dim = expert_dim;
    c.experts.normalized = true;
    c.experts.shared_dim = c.ffn_dim;
  }
  c.space = read_space(config, c);
  if (config.text_or("position_embedding_type", "nope") != "rope") set_unrotated(c);
}

ModelConfig from_hf(const HfConfig& config) {
  HfDefaults defaults;
  defaults.reads = kReads;
  ModelConfig c = read_common_hf(config, defaults);
  if (is_granite4(config)) read_granite4(config, c);
  const auto read = [&](const char* key) {
    return multiplier(config.number_or(key, 1), config.where(), key);
  };
  c.embedding_scale = read("embedding_multiplier");
  c.attention_scale = read("attention_multiplier");
  c.residual_scale = read("residual_multiplier");
  c.logit_scale = 1 / read("logits_scaling");
  return c;
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig c = read_common_gguf(file, {.lists = true});
  const auto read = [&](const char* part, float otherwise) {
    const std::string key = concat(c.architecture, part);
    const double value = file.metadata().number_or(key, 0);
    return value == 0 ? otherwise : multiplier(value, file.path(), key);
  };
  c.embedding_scale = read(".embedding_scale", 1);
  c.attention_scale = read(".attention.scale", 0);
  c.residual_scale = read(".residual_scale", 1);
  c.logit_scale = 1 / read(".logit_scale", 1);
  c.rope.interleaved = true;
  // In other architectures the key says how a model was trained; here it switches rope off.
  if (!file.metadata().boolean_or(concat(c.architecture, kRotates), true)) set_unrotated(c);
  if (c.architecture != kHybrid) return c;
  c.space = read_gguf_space(file, c.layers);
  c.experts = read_gguf_experts(file, c.ffn_dim);
  if (c.experts.count > 0) {
    c.experts.shared_dim = gguf_shared_width(file, c.ffn_dim);
    c.ffn_dim = c.experts.shared_dim;
  }
  return c;
}

std::string name(std::string_view hf_name) {
  constexpr NamePart kParts[] = {{".shared_mlp.input_linear", "ffn_up"},
                                 {".shared_mlp.output_linear", "ffn_down"},
                                 {".block_sparse_moe.router.layer", "ffn_gate_inp"},
                                 {".block_sparse_moe.input_linear", "ffn_gate_up_exps"},
                                 {".block_sparse_moe.output_linear", "ffn_down_exps"},
                                 {".mamba.in_proj", "ssm_in"},
                                 {".mamba.conv1d", "ssm_conv1d"},
                                 {".mamba.A_log", "ssm_a.log"},
                                 {".mamba.D", "ssm_d"},
                                 {".mamba.dt_bias", "ssm_dt.bias"},
                                 {".mamba.norm", "ssm_norm"},
                                 {".mamba.out_proj", "ssm_out"}};
  return tensor_name(hf_name, kParts);
}

// The second half of a layer with experts: x += experts + the feed-forward of all tokens, which
// GGUFs call the shared expert.
void add_experts(int layer, const WeightFile& file, Blocks& b) {
  b.norm(b.routed(), b.x(), layer, "ffn_norm");
  b.experts(layer, b.routed());
  b.add();
  if (file.find(concat("blk.", layer, ".", kSharedUp))) {
    b.shared_expert(layer, b.routed());
  } else {
    b.mlp(layer, b.routed());
  }
  b.add();
}

Program build(const ModelConfig& c, const WeightFile& file) {
  if (c.space.layers.empty() && c.experts.count == 0) return build_llama(c, file);
  Blocks b(c, file);
  std::optional<SpaceLayers> spaces;
  if (!c.space.layers.empty()) spaces.emplace(c, file, b);
  b.embed();
  for (int layer = 0; layer < c.layers; ++layer) {
    b.norm(b.h(), b.x(), layer, "attn_norm");
    if (c.has_space(layer)) {
      spaces->add(layer, b.h());
    } else {
      b.attention(layer, b.h());
    }
    b.add();
    if (c.experts.count > 0) {
      add_experts(layer, file, b);
    } else {
      b.feed_forward(layer, "ffn_norm");
    }
  }
  return std::move(b).finish();
}

// GGUF has gate and up in two matrices: the fused matrix's halves. Beside experts they and the
// outer half have other names.
void split_gate_and_up(const ModelConfig& c, GgufExport& out) {
  const std::string end = c.experts.count > 0 ? "_shexp.weight" : ".weight";
  std::vector<MadeTensor> tensors;
  for (MadeTensor& tensor : out.tensors) {
    const size_t down = tensor.name.find(".ffn_down.weight");
    if (down != std::string::npos) tensor.name.replace(down, std::string::npos, ".ffn_down" + end);
    const size_t part = tensor.name.find(".ffn_up.weight");
    if (part == std::string::npos || tensor.source.rows != 2 * c.ffn_dim) {
      tensors.push_back(std::move(tensor));
      continue;
    }
    MadeTensor up = tensor;
    tensor.name.replace(part, std::string::npos, ".ffn_gate" + end);
    up.name.replace(part, std::string::npos, ".ffn_up" + end);
    tensor.shape.front() = up.shape.front() = c.ffn_dim;
    tensor.source.rows = up.source.rows = c.ffn_dim;
    up.source.data = up.source.row(c.ffn_dim);
    tensors.push_back(std::move(tensor));
    tensors.push_back(std::move(up));
  }
  out.tensors = std::move(tensors);
}

void to_gguf(const HfConfig& config, const ModelConfig& c, GgufExport& out) {
  const bool hybrid = !c.space.layers.empty() || c.experts.count > 0;
  const std::string architecture(hybrid ? kHybrid : kGgufTypes[0]);
  CommonExport common{architecture, read_hf_rope(config, c.head_dim), true};
  for (int layer = 0; hybrid && layer < c.layers; ++layer) {
    common.kv_heads.push_back(c.has_space(layer) ? 0 : c.kv_heads);
  }
  put_common(c, common, out);
  out.head.put_f32(architecture + ".embedding_scale", c.embedding_scale);
  out.head.put_f32(architecture + ".attention.scale", c.attention_scale);
  out.head.put_f32(architecture + ".residual_scale", c.residual_scale);
  out.head.put_f32(architecture + ".logit_scale", 1 / c.logit_scale);
  if (!c.unrotated.empty()) out.head.put_bool(concat(architecture, kRotates), false);
  interleave_heads(c, out);
  split_gate_and_up(c, out);
  if (!hybrid) return;
  export_space(c, architecture, out);
  if (c.experts.count == 0) return;
  out.head.put_u32(architecture + ".expert_shared_feed_forward_length", c.experts.shared_dim);
  split_gate_up_experts(c, out);
  export_experts(c, architecture, out);
}

}  // namespace

const Family kGranite = {"Granite", kHfTypes, kGgufTypes, from_hf, from_gguf,
                         name,      build,    to_gguf,    nullptr, true};

}  // namespace skald
