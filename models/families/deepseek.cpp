// DeepSeek V2, V3 and R1, Kimi K2, and Mistral 4 inside Mistral 3: attention whose keys and values
// are made of one narrow vector, the latent; routed experts beside a shared one. A query is brought
// to the latent's place, so that the cache holds latents alone. The layer that predicts further
// tokens is ignored.
#include <algorithm>
#include <cmath>
#include <string>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/families/deepseek_weights.h"
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

constexpr std::string_view kHfTypes[] = {"deepseek_v2", "deepseek_v3", "glm4_moe_lite",
                                         "mistral3/mistral4"};
constexpr std::string_view kGgufTypes[] = {"deepseek2", "mistral4"};
constexpr std::string_view kGrowth = "llama_4_scaling_beta";
constexpr int64_t kMostRank = 1 << 16, kMostHeadDim = 1024;

constexpr NamePart kParts[] = {{".self_attn.q_a_proj", "attn_q_a"},
                               {".self_attn.q_a_layernorm", "attn_q_a_norm"},
                               {".self_attn.q_b_proj", "attn_q_b"},
                               {".self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
                               {".self_attn.kv_a_layernorm", "attn_kv_a_norm"},
                               {".self_attn.kv_b_proj", "attn_kv_b"},
                               {".mlp.gate", "ffn_gate_inp"},
                               {".mlp.gate.e_score_correction_bias", "exp_probs_b.bias"},
                               {".mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
                               {".mlp.shared_experts.up_proj", "ffn_up_shexp"},
                               {".mlp.shared_experts.down_proj", "ffn_down_shexp"},
                               {".mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight"},
                               {".mlp.experts.down_proj", "ffn_down_exps.weight"}};

constexpr std::string_view kDefaults = R"({"vocab_size": 129280, "num_key_value_heads": 128,
    "max_position_embeddings": 4096, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128, "v_head_dim": 128, "moe_intermediate_size": 2048,
    "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "n_group": 8,
    "topk_group": 4, "first_k_dense_replace": 3, "routed_scaling_factor": 2.5})";
constexpr std::string_view kV2Defaults = R"({"vocab_size": 102400,
    "max_position_embeddings": 2048, "q_lora_rank": 1536, "kv_lora_rank": 512,
    "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
    "moe_intermediate_size": 1407, "n_routed_experts": 64, "n_shared_experts": 2,
    "first_k_dense_replace": 0, "routed_scaling_factor": 1.0})";
constexpr std::string_view kMistralDefaults = R"({"vocab_size": 131072, "num_key_value_heads": 32,
    "max_position_embeddings": 1048576, "kv_lora_rank": 256, "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 64, "v_head_dim": 128, "moe_intermediate_size": 2048,
    "n_routed_experts": 128, "n_shared_experts": 1, "num_experts_per_tok": 4, "n_group": 1,
    "topk_group": 1, "first_k_dense_replace": 0, "routed_scaling_factor": 1.0})";
constexpr std::string_view kGlmDefaults = R"({"vocab_size": 154880, "num_key_value_heads": 20,
    "max_position_embeddings": 202752, "q_lora_rank": 768, "kv_lora_rank": 512,
    "qk_rope_head_dim": 64, "qk_nope_head_dim": 192, "v_head_dim": 256,
    "moe_intermediate_size": 1536, "n_routed_experts": 64, "n_shared_experts": 1,
    "num_experts_per_tok": 4, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1,
    "routed_scaling_factor": 1.8})";

bool is_mistral(const HfConfig& text) { return text.text("model_type") == "mistral4"; }
bool is_v2(const HfConfig& text) { return text.text("model_type") == "deepseek_v2"; }

HfConfig text_config(const HfConfig& file) {
  const HfConfig text = text_part(file);
  const bool glm = text.text("model_type") == "glm4_moe_lite";
  return text.with_defaults(is_mistral(text) ? kMistralDefaults
                            : is_v2(text)    ? kV2Defaults
                            : glm            ? kGlmDefaults
                                             : kDefaults);
}

HfRopeDefaults rope_defaults() {
  HfRopeDefaults defaults;
  defaults.partial = true;
  defaults.reads = kGrowth;
  return defaults;
}

HfDefaults hf_defaults() {
  HfDefaults defaults;
  defaults.rope = rope_defaults();
  return defaults;
}

// Mistral's share of rotating dimensions is one of a query's whole head.
RopeConfig read_rope(const HfConfig& config, const LatentConfig& l) {
  constexpr std::string_view kShare = "partial_rotary_factor", kRope = "rope_parameters";
  const bool has_share =
      config.has(kShare) || (config.has(kRope) && config.object(kRope).has(kShare));
  const bool of_whole = has_share && is_mistral(config);
  const RopeConfig rope =
      read_hf_rope(config, of_whole ? l.rope_dim + l.key_dim : l.rope_dim, rope_defaults());
  if (rope.dims == l.rope_dim) return rope;
  fail(Exit::Model, config.where(), ": '", kShare, "' lets ", rope.dims,
       " dimensions rotate, expected 'qk_rope_head_dim', ", l.rope_dim);
}

LatentConfig read_latent(const HfConfig& config) {
  const auto number = [&](std::string_view key, int64_t most) {
    return static_cast<int>(config.integer(key, 1, most));
  };
  LatentConfig l;
  l.rank = number("kv_lora_rank", kMostRank);
  l.query_rank = static_cast<int>(config.integer_or("q_lora_rank", 0, 0, kMostRank));
  l.rope_dim = number("qk_rope_head_dim", kMostHeadDim);
  l.key_dim = number("qk_nope_head_dim", kMostHeadDim);
  l.value_dim = number("v_head_dim", kMostHeadDim);
  return l;
}

// With yarn, scores are multiplied by the square of what would else multiply cosines and sines.
void set_score_scale(const LatentConfig& l, double factor, double log_scale, ModelConfig& c) {
  const double more = factor > 1 ? 1 + log_scale * std::log(factor) : 1;
  c.attention_scale = static_cast<float>(more * more / std::sqrt(l.rope_dim + l.key_dim));
}

// The first layers, which have no experts.
int64_t dense_layers(const HfConfig& config, int layers) {
  constexpr const char* kTypes = "mlp_layer_types";
  if (!config.has(kTypes)) return config.integer("first_k_dense_replace", 0, 1 << 20);
  const std::vector<std::string> types = config.texts(kTypes);
  const auto first = std::find(types.begin(), types.end(), "sparse");
  if (std::ssize(types) == layers &&
      std::count(types.begin(), first, "dense") == first - types.begin() &&
      std::count(first, types.end(), "sparse") == types.end() - first) {
    return first - types.begin();
  }
  fail(Exit::Model, config.where(), ": '", kTypes, "' is not 'dense' for the first of ", layers,
       " layers and 'sparse' for the others");
}

// V2 says whether experts are chosen from groups. The others choose from groups if they have some.
bool has_groups(const HfConfig& config) {
  if (!is_v2(config)) return true;
  constexpr std::string_view kMethod = "topk_method", kGreedy = "greedy",
                             kGroups = "group_limited_greedy";
  const std::string method = config.text_or(kMethod, kGreedy);
  if (method == kGreedy || method == kGroups) return method == kGroups;
  fail(Exit::Model, config.where(), ": '", kMethod, "' is '", printable(method, 80),
       "', expected '", kGreedy, "' or '", kGroups, "'");
}

ExpertsConfig read_experts(const HfConfig& config, int layers) {
  ExpertsConfig e;
  const int64_t count = config.integer("n_routed_experts", 1, kMostExperts);
  e.count = static_cast<int>(count);
  e.used = static_cast<int>(config.integer("num_experts_per_tok", 1, count));
  e.ffn_dim = config.integer("moe_intermediate_size", 1, kMostFfnDim);
  e.shared_dim = config.integer("n_shared_experts", 0, 1 << 10) * e.ffn_dim;
  e.normalized = config.boolean_or("norm_topk_prob", !is_v2(config));
  constexpr std::string_view kScale = "routed_scaling_factor";
  e.scale = checked_scale(config.number(kScale), config.where(), kScale);
  // DeepSeek's own code leaves out the factor then, other readers multiply by it.
  if (is_v2(config) && e.normalized && e.scale != 1) {
    fail(Exit::Model, config.where(), ": '", kScale, "' is ", e.scale,
         ", expected 1 where 'norm_topk_prob' is true");
  }
  e.gating = is_mistral(config) || is_v2(config) ? Gating::Softmax : Gating::Sigmoid;
  e.choice_bias = e.gating == Gating::Sigmoid;
  if (has_groups(config)) {
    e.groups = static_cast<int>(config.integer("n_group", 1, count));
    e.used_groups = static_cast<int>(config.integer("topk_group", 1, e.groups));
  }
  if (e.used_groups == e.groups) e.groups = e.used_groups = 1;  // all groups count
  const int64_t dense = dense_layers(config, layers);
  for (int layer = 0; dense > 0 && layer < layers; ++layer) e.dense.push_back(layer < dense);
  return e;
}

void check_groups(const ExpertsConfig& e, std::string_view where) {
  if (e.groups == 1) return;
  if (e.count % e.groups == 0 && e.used <= e.count / e.groups * e.used_groups) return;
  fail(Exit::Model, where, ": ", e.used, " of ", e.count, " experts cannot be chosen from ",
       e.used_groups, " of ", e.groups, " groups");
}

// The latent takes the place of one head of keys, which all heads share.
void complete(ModelConfig& c) {
  c.attention_bias = c.attention_output_bias = c.mlp_bias = false;
  c.kv_heads = 1;
  c.head_dim = c.latent.rope_dim + c.latent.rank;
}

ModelConfig from_hf(const HfConfig& file) {
  const HfConfig config = text_config(file);
  refuse_other_values(config, {{"hidden_act", "silu"}});
  if (is_v2(config)) {
    refuse_other_values(config, {{"scoring_func", "softmax"}});
  } else if (!is_mistral(config)) {
    refuse_other_values(config, {{"scoring_func", "sigmoid"}, {"topk_method", "noaux_tc"}});
  }
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    if (!config.boolean_or(key, false)) continue;
    fail(Exit::Model, config.where(), ": '", key, "' is true, expected false");
  }
  if (config.integer_or("moe_layer_freq", 1, 0, 1 << 20) != 1) {
    fail(Exit::Model, config.where(), ": 'moe_layer_freq' is not 1");
  }
  ModelConfig c = read_common_hf(config, hf_defaults());
  c.architecture = config.text("model_type");
  c.tied = text_part_is_tied(file);
  c.latent = read_latent(config);
  const RopeConfig rope = read_rope(config, c.latent);
  set_rope(c, rope, config.where());
  c.rope.interleaved = config.boolean_or("rope_interleave", true);
  double log_scale = 0;
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (!config.has(key)) continue;
    const HfConfig object = config.object(key);
    log_scale = 0.1 * object.number_or("mscale_all_dim", 0);
    if (!is_mistral(config)) break;
    constexpr std::string_view kLength = "original_max_position_embeddings";
    c.query_growth.rate = static_cast<float>(object.number_or(kGrowth, 0));
    c.query_growth.length = static_cast<int>(object.integer_or(kLength, 8192, 1, INT32_MAX));
    break;
  }
  set_score_scale(c.latent, rope.scaling.type == "yarn" ? rope.scaling.factor : 1, log_scale, c);
  c.experts = read_experts(config, c.layers);
  check_groups(c.experts, config.where());
  complete(c);
  return c;
}

LatentConfig read_latent(const GgufFile& file, const std::string& prefix) {
  const GgufMetadata& metadata = file.metadata();
  const auto number = [&](std::string_view key, int64_t most) {
    const std::string name = concat(prefix, key);
    const uint64_t value = metadata.uint(name);
    if (value >= 1 && value <= static_cast<uint64_t>(most)) return static_cast<int>(value);
    fail(Exit::Model, file.path(), ": '", name, "' is ", value, ", expected 1 to ", most);
  };
  LatentConfig l;
  l.rank = number("attention.kv_lora_rank", kMostRank);
  if (metadata.find(prefix + "attention.q_lora_rank")) {
    l.query_rank = number("attention.q_lora_rank", kMostRank);
  }
  // Early files have keys and values in one matrix, and call the heads' sizes by other names.
  const bool early = !metadata.find(prefix + "attention.key_length_mla") &&
                     file.find("blk.0.attn_kv_b.weight") != nullptr;
  const std::string_view keys = early ? "attention.key_length" : "attention.key_length_mla";
  const std::string_view values = early ? "attention.value_length" : "attention.value_length_mla";
  l.rope_dim = number("rope.dimension_count", kMostHeadDim);
  l.key_dim = number(keys, kMostHeadDim) - l.rope_dim;
  l.value_dim = number(values, kMostHeadDim);
  if (l.key_dim <= 0) {
    fail(Exit::Model, file.path(), ": '", prefix, keys, "' is not above '", prefix,
         "rope.dimension_count', ", l.rope_dim);
  }
  return l;
}

ModelConfig from_gguf(const GgufFile& file) {
  const GgufMetadata& metadata = file.metadata();
  ModelConfig c = read_common_gguf(file, {.latent = true});
  const std::string prefix = c.architecture + ".";
  leave_out_predicting_layers(file, c);
  c.latent = read_latent(file, prefix);
  c.rope.interleaved = true;
  c.rope.scale = 1;
  const double log_scale = metadata.number_or(prefix + "rope.scaling.yarn_log_multiplier", 0);
  const double factor = metadata.number_or(prefix + "rope.scaling.factor", 1);
  set_score_scale(c.latent, c.rope_scaling == "yarn" ? factor : 1, log_scale, c);
  const double rate = metadata.number_or(prefix + "attention.temperature_scale", 0);
  if (rate > 0 && std::isfinite(rate)) {
    const uint64_t length = metadata.uint(prefix + "attention.temperature_length");
    if (length == 0 || length > INT32_MAX) {
      fail(Exit::Model, file.path(), ": '", prefix, "attention.temperature_length' is ", length);
    }
    c.query_growth = {static_cast<float>(rate), static_cast<int>(length)};
  }
  c.experts = read_gguf_experts(file, c.ffn_dim,
                                {.shared_and_dense = true, .either_gating = true, .groups = true});
  if (!c.experts.dense.empty()) c.experts.dense.resize(static_cast<size_t>(c.layers));
  c.experts.normalized = metadata.boolean_or(prefix + "expert_weights_norm", false);
  const size_t first =
      static_cast<size_t>(std::count(c.experts.dense.begin(), c.experts.dense.end(), true));
  c.experts.choice_bias = file.find(concat("blk.", first, ".exp_probs_b.bias")) != nullptr;
  if (c.experts.choice_bias && c.experts.gating == Gating::Softmax) {
    fail(Exit::Model, file.path(), ": there are biases for the choice of experts, but '", prefix,
         "expert_gating_func' is not 2 (sigmoids)");
  }
  check_groups(c.experts, file.path());
  complete(c);
  return c;
}

// Attention of a program's layers.
class LatentAttention {
 public:
  LatentAttention(const ModelConfig& config, Blocks& blocks) : config_(config), blocks_(blocks) {
    const LatentConfig& l = config.latent;
    ProgramBuilder& b = blocks.builder();
    const int64_t heads = config.heads;
    if (l.query_rank > 0) narrow_ = b.act("q_narrow", l.query_rank);
    q_ = b.act("q", heads * (l.key_dim + l.rope_dim));
    latent_ = b.act("latent", l.rank);
    rotated_ = b.act("k_rotated", l.rope_dim);
    query_ = b.act("q_of_latents", heads * config.head_dim);
    key_ = b.act("k", config.head_dim);
    seen_ = b.act("attended", heads * config.head_dim);
    values_ = b.act("values", heads * l.value_dim);
  }

  void add(int layer, ActId in) {
    const ModelConfig& c = config_;
    const LatentConfig& l = c.latent;
    ProgramBuilder& b = blocks_.builder();
    const auto name = [&](std::string_view part) {
      return concat("blk.", layer, ".", part, ".weight");
    };
    if (l.query_rank > 0) {
      blocks_.linear(narrow_, in, layer, "attn_q_a", false);
      b.add(Norm{narrow_, narrow_, b.norm_weight(name("attn_q_a_norm"), l.query_rank), c.norm_eps});
      blocks_.linear(q_, narrow_, layer, "attn_q_b", false);
    } else {
      blocks_.linear(q_, in, layer, "attn_q", false);
    }
    const int64_t both = l.rank + l.rope_dim;
    const std::string down = name("attn_kv_a_mqa");
    b.add(Linear{latent_, in, b.weight_rows(down, both, c.dim, 0, l.rank), WeightId::None});
    b.add(
        Linear{rotated_, in, b.weight_rows(down, both, c.dim, l.rank, l.rope_dim), WeightId::None});
    b.add(Norm{latent_, latent_, b.norm_weight(name("attn_kv_a_norm"), l.rank), c.norm_eps});

    // A head is the part that rotates, then the part in the latent's place.
    b.add(HeadPart{key_, rotated_, 1, l.rope_dim, 0, 0});
    b.add(HeadPart{key_, latent_, 1, l.rank, 0, l.rope_dim});
    b.add(HeadPart{query_, q_, c.heads, l.rope_dim, l.key_dim, 0, c.head_dim});
    const WeightId keys = b.weight(name("attn_k_b"), int64_t{c.heads} * l.rank, l.key_dim);
    b.add(Linear{query_, q_, keys, WeightId::None, c.heads, 0, l.rope_dim});
    const int rope = blocks_.rope_of(layer);
    b.add(Rope{query_, c.heads, c.head_dim, rope});
    b.add(Rope{key_, 1, c.head_dim, rope});

    AttentionSpec spec{c.heads, 1, c.head_dim};
    spec.scale = c.scale_of_scores();
    spec.growth = c.query_growth;
    // Keys serve as values: of what a head sees, the part in the latent's place is used.
    b.add(Attention{seen_, query_, key_, key_, b.kv_layer({1, c.head_dim}), spec});
    const WeightId values = b.weight(name("attn_v_b"), int64_t{c.heads} * l.value_dim, l.rank);
    b.add(Linear{values_, seen_, values, WeightId::None, c.heads, l.rope_dim, 0});
    blocks_.linear(blocks_.h(), values_, layer, "attn_output", false);
  }

 private:
  const ModelConfig& config_;
  Blocks& blocks_;
  ActId narrow_{}, q_, latent_, rotated_, query_, key_, seen_, values_;
};

Program build(const ModelConfig& c, const WeightFile& file) {
  Blocks b(c, file);
  LatentAttention attention(c, b);
  b.embed();
  for (int layer = 0; layer < c.layers; ++layer) {
    b.norm(b.h(), b.x(), layer, "attn_norm");
    attention.add(layer, b.h());
    b.add();
    b.feed_forward(layer, "ffn_norm");
  }
  return std::move(b).finish();
}

std::string name(std::string_view hf_name) {
  const std::string text = text_model_name(hf_name);
  const std::string expert = expert_tensor_name(text, ".mlp.experts.", kGateUpDown);
  return expert.empty() ? tensor_name(text, kParts) : expert;
}

void to_gguf(const HfConfig& file, const ModelConfig& c, GgufExport& out) {
  const HfConfig config = text_config(file);
  if (!c.rope.interleaved) {
    fail(Exit::Model, config.where(), ": 'rope_interleave' is false, which a GGUF cannot say");
  }
  const std::string architecture = is_mistral(config) ? "mistral4" : "deepseek2";
  CommonExport common{architecture, read_rope(config, c.latent)};
  common.value_dim = c.latent.rank;
  common.latent = true;
  put_common(c, common, out);
  GgufHead& head = out.head;
  const LatentConfig& l = c.latent;
  const auto key = [&](std::string_view part) { return concat(architecture, ".", part); };
  head.put_u32(key("attention.kv_lora_rank"), l.rank);
  if (l.query_rank > 0) head.put_u32(key("attention.q_lora_rank"), l.query_rank);
  head.put_u32(key("attention.key_length_mla"), l.key_dim + l.rope_dim);
  head.put_u32(key("attention.value_length_mla"), l.value_dim);
  for (const char* rope : {"rope_parameters", "rope_scaling"}) {
    if (common.rope.scaling.type != "yarn" || !config.has(rope)) continue;
    head.put_f32(key("rope.scaling.yarn_log_multiplier"),
                 0.1 * config.object(rope).number_or("mscale_all_dim", 0));
    break;
  }
  if (c.query_growth.rate != 0) {
    head.put_f32(key("attention.temperature_scale"), c.query_growth.rate);
    head.put_u32(key("attention.temperature_length"), c.query_growth.length);
  }
  split_gate_up_experts(c, out);
  export_experts(c, architecture, out);
  const std::string normalized = key("expert_weights_norm");
  if (!head.has(normalized)) head.put_bool(normalized, c.experts.normalized);
  constexpr uint32_t kSoftmax = 1;
  if (c.experts.gating == Gating::Softmax) head.put_u32(key("expert_gating_func"), kSoftmax);
  head.put_u32(key("expert_shared_count"), config.integer("n_shared_experts", 0, 1 << 10));
  head.put_u32(key("leading_dense_block_count"),
               std::count(c.experts.dense.begin(), c.experts.dense.end(), true));
  if (c.experts.groups == 1) return;
  head.put_u32(key("expert_group_count"), c.experts.groups);
  head.put_u32(key("expert_group_used_count"), c.experts.used_groups);
}

}  // namespace

const Family kDeepSeek = {"DeepSeek", kHfTypes,         kGgufTypes, from_hf, from_gguf, name, build,
                          to_gguf,    deepseek_weights, false,      {},      {},        true};

}  // namespace skald
