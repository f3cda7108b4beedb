// Nemotron-H, dense and with experts. Each layer is one half of a usual layer: a state space
// (Mamba-2), attention without rope, a feed-forward, or experts. Neither the feed-forward nor the
// experts have gates: down · relu(up · in)².
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/families/families.h"
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

constexpr std::string_view kHfTypes[] = {"nemotron_h"};
constexpr std::string_view kGgufTypes[] = {"nemotron_h", "nemotron_h_moe"};

constexpr NamePart kParts[] = {{".norm", "attn_norm"},
                               {".mixer.in_proj", "ssm_in"},
                               {".mixer.conv1d", "ssm_conv1d"},
                               {".mixer.A_log", "ssm_a.log"},
                               {".mixer.D", "ssm_d"},
                               {".mixer.dt_bias", "ssm_dt.bias"},
                               {".mixer.norm", "ssm_norm"},
                               {".mixer.out_proj", "ssm_out"},
                               {".mixer.q_proj", "attn_q"},
                               {".mixer.k_proj", "attn_k"},
                               {".mixer.v_proj", "attn_v"},
                               {".mixer.o_proj", "attn_output"},
                               {".mixer.up_proj", "ffn_up"},
                               {".mixer.down_proj", "ffn_down"},
                               {".mixer.gate.e_score_correction_bias", "exp_probs_b.bias"},
                               {".mixer.gate", "ffn_gate_inp"},
                               {".mixer.shared_experts.up_proj", "ffn_up_shexp"},
                               {".mixer.shared_experts.down_proj", "ffn_down_shexp"}};
constexpr NamePart kExpertParts[] = {{"up_proj", "ffn_up"}, {"down_proj", "ffn_down"}};

constexpr std::string_view kDefaults = R"({"vocab_size": 131072, "num_key_value_heads": 8,
    "head_dim": 128, "max_position_embeddings": 4096, "intermediate_size": 21504,
    "mamba_num_heads": 128, "mamba_head_dim": 64, "ssm_state_size": 128, "n_groups": 8,
    "conv_kernel": 4, "mlp_hidden_act": "relu2", "mamba_hidden_act": "silu"})";
constexpr std::string_view kPattern = "hybrid_override_pattern";
constexpr char kSpace = 'M', kAttention = '*', kFeedForward = '-', kExperts = 'E';

HfConfig with_defaults(const HfConfig& file) { return file.with_defaults(kDefaults); }

HfDefaults hf_defaults() {
  HfDefaults defaults;
  defaults.norm_eps = 1e-5;
  defaults.norm_eps_key = "layer_norm_epsilon";
  defaults.activation = Activation::SquaredRelu;
  return defaults;
}

void complete(ModelConfig& c) {
  c.activation = Activation::SquaredRelu;
  c.gated_mlp = false;
  c.attention_bias = c.attention_output_bias = c.mlp_bias = false;
  c.unrotated.assign(static_cast<size_t>(c.layers), true);
  if (c.experts.count == 0) return;
  c.experts.gating = Gating::Sigmoid;
  c.experts.choice_bias = true;
}

// Returns a letter for each layer, which names the layer's kind.
std::string read_pattern(const HfConfig& config, int layers) {
  std::string pattern = config.text(kPattern);
  const size_t known = pattern.find_first_not_of({kSpace, kAttention, kFeedForward, kExperts});
  if (known != pattern.npos) {
    fail(Exit::Model, config.where(), ": '", kPattern, "' has '",
         printable(pattern.substr(known, 1), 4), "', expected M, *, - or E for each layer");
  }
  if (std::ssize(pattern) != layers) {
    fail(Exit::Model, config.where(), ": '", kPattern, "' has ", pattern.size(),
         " letters, expected one for each of ", layers, " layers");
  }
  return pattern;
}

SpaceConfig read_space(const HfConfig& config, const std::string& pattern) {
  SpaceConfig space;
  for (const char kind : pattern) space.layers.push_back(kind == kSpace);
  if (pattern.find(kSpace) == pattern.npos) return {};
  const auto number = [&](std::string_view key, int64_t least, int64_t most) {
    return static_cast<int>(config.integer(key, least, most));
  };
  SpaceSpec& s = space.spec;
  s.heads = number("mamba_num_heads", 1, kMostHeads);
  s.head_dim = number("mamba_head_dim", 1, kMostHeadDim);
  s.groups = number("n_groups", 1, kMostHeads);
  s.state_dim = number("ssm_state_size", 1, kMostHeadDim);
  check_space(s, config.where());
  constexpr std::string_view kSteps = "time_step_limit";
  if (config.has(kSteps)) {
    const std::vector<float> bounds = config.floats(kSteps);
    if (bounds.size() != 2 || !(bounds[0] >= 0 && bounds[0] <= bounds[1])) {
      fail(Exit::Model, config.where(), ": '", kSteps,
           "' must have two numbers, the lower one first, none below 0");
    }
    s.least_step = bounds[0], s.most_step = bounds[1];
  }
  space.taps = number("conv_kernel", 2, kMostConvTaps);
  space.conv_bias = config.boolean_or("use_conv_bias", true);
  return space;
}

ExpertsConfig read_experts(const HfConfig& config, const std::string& pattern) {
  ExpertsConfig e;
  if (pattern.find(kExperts) == pattern.npos) return e;
  if (config.has("moe_latent_size")) {
    fail(Exit::Model, config.where(),
         ": 'moe_latent_size' says that experts compute in a narrower space, which is not "
         "supported");
  }
  e.count = static_cast<int>(config.integer("n_routed_experts", 1, kMostExperts));
  e.used = static_cast<int>(config.integer("num_experts_per_tok", 1, e.count));
  e.ffn_dim = config.integer("moe_intermediate_size", 1, kMostFfnDim);
  e.normalized = config.boolean_or("norm_topk_prob", true);
  constexpr std::string_view kScale = "routed_scaling_factor";
  e.scale = checked_scale(config.number_or(kScale, 1), config.where(), kScale);
  e.groups = static_cast<int>(config.integer_or("n_group", 1, 1, e.count));
  e.used_groups = static_cast<int>(config.integer_or("topk_group", 1, 1, e.groups));
  if (e.used_groups == e.groups) e.groups = e.used_groups = 1;  // all groups count
  if (config.integer_or("n_shared_experts", 1, 0, kMostExperts) > 0) {
    e.shared_dim = config.integer("moe_shared_expert_intermediate_size", 1, kMostFfnDim);
  }
  for (const char kind : pattern) e.dense.push_back(kind != kExperts);
  return e;
}

ModelConfig from_hf(const HfConfig& file) {
  const HfConfig config = with_defaults(file);
  refuse_other_values(config, {{"mlp_hidden_act", "relu2"}, {"mamba_hidden_act", "silu"}});
  for (const char* key : {"use_bias", "mamba_proj_bias", "mlp_bias", "attention_bias"}) {
    if (!config.boolean_or(key, false)) continue;
    fail(Exit::Model, config.where(), ": '", key, "' is true, expected false");
  }
  ModelConfig c = read_common_hf(config, hf_defaults());
  const std::string pattern = read_pattern(config, c.layers);
  c.space = read_space(config, pattern);
  c.experts = read_experts(config, pattern);
  if (c.experts.count > 0 && pattern.find(kFeedForward) == pattern.npos)
    c.ffn_dim = c.experts.ffn_dim;
  complete(c);
  return c;
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig c = read_common_gguf(file, {.lists = true});
  c.space = read_gguf_space(file, c.layers);
  c.experts = read_gguf_experts(file, c.ffn_dim,
                                {.sigmoids = true, .shared_and_dense = true, .groups = true});
  if (c.experts.count > 0) {
    c.experts.dense.clear();
    for (int layer = 0; layer < c.layers; ++layer) {
      c.experts.dense.push_back(!file.find(concat("blk.", layer, ".ffn_gate_inp.weight")));
      const Tensor* up = file.find(concat("blk.", layer, ".ffn_up.weight"));
      if (up) c.ffn_dim = up->view.rows;
    }
    const int64_t shared = c.experts.shared_dim;
    if (shared > 0) c.experts.shared_dim = gguf_shared_width(file, shared);
  }
  complete(c);
  return c;
}

Program build(const ModelConfig& c, const WeightFile& file) {
  Blocks b(c, file);
  std::optional<SpaceLayers> spaces;
  if (!c.space.layers.empty()) spaces.emplace(c, file, b);
  b.embed();
  for (int layer = 0; layer < c.layers; ++layer) {
    if (c.has_experts(layer)) {
      b.feed_forward(layer, "attn_norm");
      continue;
    }
    b.norm(b.h(), b.x(), layer, "attn_norm");
    if (c.has_space(layer)) {
      spaces->add(layer, b.h());
    } else if (file.find(concat("blk.", layer, ".attn_q.weight"))) {
      b.attention(layer, b.h());
    } else {
      b.mlp(layer, b.h());
    }
    b.add();
  }
  return std::move(b).finish();
}

std::string name(std::string_view hf_name) {
  constexpr std::string_view kPrefix = "backbone.";
  std::string name(hf_name);
  if (hf_name.starts_with(kPrefix)) name = concat("model.", hf_name.substr(kPrefix.size()));
  if (name == "model.embeddings.weight") return "token_embd.weight";
  if (name == "model.norm_f.weight") return "output_norm.weight";
  const std::string expert = expert_tensor_name(name, ".mixer.experts.", kExpertParts);
  return expert.empty() ? tensor_name(name, kParts) : expert;
}

// True if the layer has a tensor whose name begins with `part`.
bool has(const GgufExport& out, int layer, std::string_view part) {
  const std::string begin = concat("blk.", layer, ".", part);
  return std::any_of(out.tensors.begin(), out.tensors.end(),
                     [&](const MadeTensor& tensor) { return tensor.name.starts_with(begin); });
}

void to_gguf(const HfConfig& file, const ModelConfig& c, GgufExport& out) {
  const ExpertsConfig& e = c.experts;
  const std::string architecture(kGgufTypes[e.count > 0 ? 1 : 0]);
  CommonExport common{architecture, read_hf_rope(with_defaults(file), c.head_dim)};
  for (int layer = 0; layer < c.layers; ++layer) {
    common.kv_heads.push_back(has(out, layer, "attn_k.") ? c.kv_heads : 0);
    const int64_t width = c.has_experts(layer) ? e.ffn_dim : c.ffn_dim;
    common.ffn_dims.push_back(has(out, layer, "ffn_up.") ? static_cast<int32_t>(width) : 0);
  }
  put_common(c, common, out);
  export_space(c, architecture, out);
  if (e.count == 0) return;
  const std::string prefix = architecture + ".expert_";
  out.head.put_u32(prefix + "shared_count", e.shared_dim > 0 ? 1 : 0);
  if (e.shared_dim > 0) out.head.put_u32(prefix + "shared_feed_forward_length", e.shared_dim);
  out.head.put_u32(prefix + "group_count", e.groups);
  out.head.put_u32(prefix + "group_used_count", e.used_groups);
  export_experts(c, architecture, out);
}

}  // namespace

const Family kNemotronH = {"Nemotron-H", kHfTypes, kGgufTypes, from_hf,
                           from_gguf,    name,     build,      to_gguf};

}  // namespace skald
