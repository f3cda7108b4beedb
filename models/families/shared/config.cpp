#include "models/families/shared/config.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/families/shared/gguf_fields.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

// Far above every published model, and low enough that products of two of them fit in 64 bits.
constexpr int64_t kMostLayers = 1024;
constexpr int64_t kMostWidth = 1 << 20;
constexpr int64_t kMostVocab = 1 << 24;
constexpr int64_t kMostContext = int64_t{1} << 31;

void check_config(const ModelConfig& c, std::string_view where) {
  if (c.heads % c.kv_heads != 0) {
    fail(Exit::Model, where, ": ", c.heads, " heads cannot share ", c.kv_heads,
         " key-value heads evenly");
  }
  if (c.head_dim % 2 != 0) {
    fail(Exit::Model, where, ": the head dimension is ", c.head_dim, ", expected an even number");
  }
  if (!(c.norm_eps >= 0 && c.norm_eps < 1)) {
    fail(Exit::Model, where, ": the norm's epsilon is ", c.norm_eps, ", expected 0 to 1");
  }
}

Activation hf_activation(const HfConfig& config) {
  const std::string name = config.text_or("hidden_act", "silu");
  if (name == "silu") return Activation::Silu;
  if (name == "gelu_pytorch_tanh") return Activation::GeluTanh;
  fail(Exit::Model, config.where(), ": activation '", name,
       "' is not supported; these are: silu, gelu_pytorch_tanh");
}

// Keys that change the result in one family or another, and the values that change nothing.
struct Factor {
  std::string_view key;
  double neutral;
};
constexpr Factor kFactors[] = {{"logit_scale", 1},
                               {"logits_scaling", 1},
                               {"embedding_multiplier", 1},
                               {"residual_multiplier", 1},
                               {"attention_multiplier", 0},
                               {"final_logit_softcapping", 0},
                               {"attn_logit_softcapping", 0},
                               {"output_multiplier", 1},
                               {"qk_scale_factor", 1}};

void refuse_unread_factors(const HfConfig& config, std::span<const std::string_view> read) {
  for (const auto& [key, neutral] : kFactors) {
    if (std::find(read.begin(), read.end(), key) != read.end()) continue;
    const double value = config.number_or(key, neutral);
    if (value == neutral) continue;
    fail(Exit::Model, config.where(), ": '", key, "' is ", value, "; architecture '",
         printable(config.text("model_type"), 80), "' has no such factor");
  }
}

float hf_norm_eps(const HfConfig& config, const HfDefaults& defaults) {
  constexpr std::string_view kRms = "rms_norm_eps", kLayer = "layer_norm_eps";
  const bool layer = defaults.norm == NormKind::Layer, own = !defaults.norm_eps_key.empty();
  const std::string_view key = own ? defaults.norm_eps_key : layer ? kLayer : kRms;
  const double eps = config.number_or(key, defaults.norm_eps);
  for (const std::string_view other : {kRms, kLayer}) {
    if (other == key || config.number_or(other, eps) == eps) continue;
    fail(Exit::Model, config.where(), ": '", other, "' is ", config.number(other),
         ", but this architecture's norms have '", key, "', which is ", eps);
  }
  return static_cast<float>(eps);
}

// Reads a whole number within bounds from a GGUF's metadata.
int64_t bounded(const GgufFile& file, const std::string& key, uint64_t value, int64_t least,
                int64_t most) {
  if (value < static_cast<uint64_t>(least) || value > static_cast<uint64_t>(most)) {
    fail(Exit::Model, file.path(), ": '", key, "' is ", value, ", expected ", least, " to ", most);
  }
  return static_cast<int64_t>(value);
}

}  // namespace

void set_rope(ModelConfig& c, const RopeConfig& rope, std::string_view where) {
  c.rope_base = static_cast<float>(rope.base);
  c.rope_scaling = rope.scaling.type;
  c.rope = rope.spec();
  const bool usable = std::isfinite(c.rope.scale) && c.rope.scale > 0 &&
                      std::all_of(c.rope.inv_freq.begin(), c.rope.inv_freq.end(),
                                  [](float frequency) { return std::isfinite(frequency); });
  if (!usable) {
    fail(Exit::Model, where, ": a rope base of ", rope.base, " with scaling '", rope.scaling.type,
         "' gives no usable rotations");
  }
  c.context = rope.stretched(c.context);
  c.short_context = std::min(rope.short_context(), c.context);
}

void refuse_other_values(const HfConfig& config, std::initializer_list<OnlyValue> values) {
  for (const auto& [key, expected] : values) {
    const std::string value = config.text_or(key, expected);
    if (value == expected) continue;
    fail(Exit::Model, config.where(), ": '", key, "' is '", printable(value, 80), "', expected '",
         expected, "'");
  }
}

HfConfig text_part(const HfConfig& file) {
  return file.has("text_config") ? file.object("text_config") : file;
}

bool text_part_is_tied(const HfConfig& file) {
  constexpr std::string_view kTied = "tie_word_embeddings";
  return file.boolean_or(kTied, false) || text_part(file).boolean_or(kTied, false);
}

ModelConfig read_common_hf(const HfConfig& config, const HfDefaults& defaults) {
  ModelConfig c;
  c.architecture = config.text("model_type");
  c.layers = static_cast<int>(config.integer("num_hidden_layers", 1, kMostLayers));
  c.dim = config.integer("hidden_size", 1, kMostWidth);
  c.ffn_dim = config.integer("intermediate_size", 1, kMostWidth);
  c.heads = static_cast<int>(config.integer("num_attention_heads", 1, kMostHeads));
  c.kv_heads = static_cast<int>(config.integer_or("num_key_value_heads", c.heads, 1, kMostHeads));
  c.head_dim = static_cast<int>(config.integer_or("head_dim", c.dim / c.heads, 1, kMostHeadDim));
  c.vocab = config.integer("vocab_size", 1, kMostVocab);
  c.context = config.integer_or("max_position_embeddings", 2048, 1, kMostContext);
  refuse_unread_factors(config, defaults.reads);
  c.norm = defaults.norm;
  c.norm_eps = hf_norm_eps(config, defaults);
  c.activation = defaults.activation ? *defaults.activation : hf_activation(config);
  c.tied = config.boolean_or("tie_word_embeddings", defaults.tied);
  c.attention_bias = config.boolean_or("attention_bias", false);
  c.attention_output_bias = c.attention_bias;
  c.mlp_bias = config.boolean_or("mlp_bias", false);
  check_config(c, config.where());

  set_rope(c, read_hf_rope(config, c.head_dim, defaults.rope), config.where());
  return c;
}

std::vector<int> read_layer_windows(const HfConfig& config, int layers, int window) {
  std::vector<int> windows;
  if (!config.has("layer_types")) return windows;
  for (const std::string& type : config.texts("layer_types")) {
    const bool slides = type == "sliding_attention";
    if (!slides && type != "full_attention") {
      fail(Exit::Model, config.where(), ": 'layer_types' has '", printable(type, 80),
           "', expected 'full_attention' or 'sliding_attention'");
    }
    if (slides && window == 0) {
      fail(Exit::Model, config.where(),
           ": 'layer_types' has 'sliding_attention', but there is no 'sliding_window'");
    }
    windows.push_back(slides ? window : 0);
  }
  if (windows.size() < static_cast<size_t>(layers)) {
    fail(Exit::Model, config.where(), ": 'layer_types' has ", windows.size(),
         " values, expected one for each of ", layers, " layers");
  }
  windows.resize(static_cast<size_t>(layers));
  return windows;
}

void leave_out_predicting_layers(const GgufFile& file, ModelConfig& c) {
  const std::string key = c.architecture + ".nextn_predict_layers";
  const uint64_t more = file.metadata().uint_or(key, 0);
  if (more >= static_cast<uint64_t>(c.layers)) {
    fail(Exit::Model, file.path(), ": '", key, "' is ", more, ", expected fewer than the ",
         c.layers, " layers");
  }
  c.layers -= static_cast<int>(more);
}

int gguf_integer(const GgufFile& file, std::string_view key, int64_t least, int64_t most) {
  const GgufMetadata& metadata = file.metadata();
  const std::string name = concat(metadata.text("general.architecture"), ".", key);
  return static_cast<int>(bounded(file, name, metadata.uint(name), least, most));
}

int64_t gguf_number_of_layer(const GgufFile& file, const std::string& key, int layer) {
  const GgufValue* value = file.metadata().find(key);
  if (!value || !value->is_array()) return static_cast<int64_t>(file.metadata().uint(key));
  const std::vector<int64_t> all = file.metadata().ints(key);
  return static_cast<size_t>(layer) < all.size() ? all[static_cast<size_t>(layer)] : 0;
}

ModelConfig read_common_gguf(const GgufFile& file, const GgufReads& reads) {
  const GgufMetadata& metadata = file.metadata();
  const std::string prefix = std::string(metadata.text("general.architecture")) + ".";
  auto integer = [&](const std::string& key, int64_t most) {
    return bounded(file, prefix + key, metadata.uint(prefix + key), 1, most);
  };
  auto integer_or = [&](const std::string& key, int64_t otherwise, int64_t most) {
    const uint64_t value = metadata.uint_or(prefix + key, static_cast<uint64_t>(otherwise));
    return bounded(file, prefix + key, value, 1, most);
  };
  // One number, or a list with one number per layer.
  auto of_layers = [&](const std::string& key, int64_t most) -> int64_t {
    const GgufValue* value = metadata.find(prefix + key);
    if (!value || !value->is_array()) return integer(key, most);
    const std::vector<int64_t> all = metadata.ints(prefix + key);
    for (int64_t count : all) {
      if (count != all.front() && !reads.lists) {
        fail(Exit::Model, file.path(), ": '", prefix, key,
             "' differs between layers, which is not supported");
      }
    }
    const auto first = std::find_if(all.begin(), all.end(), [](int64_t n) { return n != 0; });
    const uint64_t count = first == all.end() || *first < 0 ? 0 : static_cast<uint64_t>(*first);
    return bounded(file, prefix + key, count, 1, most);
  };

  ModelConfig c;
  c.architecture = metadata.text("general.architecture");
  c.layers = static_cast<int>(integer("block_count", kMostLayers));
  c.dim = integer("embedding_length", kMostWidth);
  // Some models with experts in all layers have no width for others.
  const std::string width = "feed_forward_length", expert_width = "expert_" + width;
  const bool experts_alone = !metadata.find(prefix + width) && metadata.find(prefix + expert_width);
  c.ffn_dim = of_layers(experts_alone ? expert_width : width, kMostWidth);
  c.heads = static_cast<int>(of_layers("attention.head_count", kMostHeads));
  c.kv_heads = metadata.find(prefix + "attention.head_count_kv")
                   ? static_cast<int>(of_layers("attention.head_count_kv", kMostHeads))
                   : c.heads;
  const std::string length = reads.latent ? "rope.dimension_count" : "attention.key_length";
  c.head_dim = static_cast<int>(integer_or(length, c.dim / c.heads, kMostHeadDim));
  const std::string values = reads.latent ? length : "attention.value_length";
  if (integer_or(values, c.head_dim, kMostHeadDim) != c.head_dim) {
    fail(Exit::Model, file.path(), ": keys and values of different lengths are not supported");
  }
  c.context = integer_or("context_length", 2048, kMostContext);
  c.norm = reads.norm;
  c.norm_eps = static_cast<float>(metadata.number(concat(prefix, gguf_norm_eps(reads.norm))));
  c.window = static_cast<int>(
      std::min<uint64_t>(metadata.uint_or(prefix + "attention.sliding_window", 0), INT32_MAX));
  const Tensor* embedding = file.find("token_embd.weight");
  if (!embedding) {
    fail(Exit::Model, file.path(),
         ": tensor 'token_embd.weight' is missing; the file holds a vocabulary but no model");
  }
  c.vocab = embedding->view.rows;
  c.tied = !file.find("output.weight");
  c.attention_bias = file.find("blk.0.attn_q.bias") != nullptr;
  c.attention_output_bias = file.find("blk.0.attn_output.bias") != nullptr;
  c.mlp_bias = file.find("blk.0.ffn_up.bias") != nullptr;
  check_config(c, file.path());

  set_rope(c, read_gguf_rope(file, c.head_dim), file.path());
  return c;
}

}  // namespace skald
