// Reads rope settings (models/families/shared/rope.h) from config.json and GGUF.
#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/families/shared/rope.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr std::string_view kKnownKeys[] = {"rope_type",
                                           "type",
                                           "rope_theta",
                                           "factor",
                                           "low_freq_factor",
                                           "high_freq_factor",
                                           "attention_factor",
                                           "original_max_position_embeddings",
                                           "beta_fast",
                                           "beta_slow",
                                           "mscale",
                                           "mscale_all_dim",
                                           "truncate",
                                           "short_factor",
                                           "long_factor",
                                           "partial_rotary_factor",
                                           "finetuned",  // no effect; nor has the next key
                                           "max_position_embeddings"};

constexpr int64_t kMostTokens = int64_t{1} << 31;

double positive(const HfConfig& config, std::string_view key) {
  const double value = config.number(key);
  if (!(value > 0)) {
    fail(Exit::Model, config.where(), ": '", key, "' is ", value, ", expected more than 0");
  }
  return value;
}

double positive_or(const HfConfig& config, std::string_view key, double otherwise) {
  return config.has(key) ? positive(config, key) : otherwise;
}

// yarn's attention factor grows with the logarithm of the scaling factor.
double yarn_attention(double factor, double weight) {
  return factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1;
}

double longrope_attention(double factor, double original_context) {
  return factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(original_context));
}

void read_llama3(const HfConfig& config, RopeScaling& scaling) {
  scaling.low_freq_factor = positive(config, "low_freq_factor");
  scaling.high_freq_factor = positive(config, "high_freq_factor");
  if (scaling.high_freq_factor <= scaling.low_freq_factor) {
    fail(Exit::Model, config.where(), ": 'high_freq_factor' is ", scaling.high_freq_factor,
         ", expected more than 'low_freq_factor', ", scaling.low_freq_factor);
  }
}

void read_yarn(const HfConfig& config, RopeScaling& scaling) {
  // 0 means the default.
  if (config.number_or("beta_fast", 0) != 0) scaling.beta_fast = positive(config, "beta_fast");
  if (config.number_or("beta_slow", 0) != 0) scaling.beta_slow = positive(config, "beta_slow");
  if (scaling.beta_fast < scaling.beta_slow) {
    fail(Exit::Model, config.where(), ": 'beta_fast' is ", scaling.beta_fast,
         ", expected at least 'beta_slow', ", scaling.beta_slow);
  }
  scaling.truncate = config.boolean_or("truncate", true);
  const double mscale = config.number_or("mscale", 0), all = config.number_or("mscale_all_dim", 0);
  scaling.attention_factor = mscale != 0 && all != 0 ? yarn_attention(scaling.factor, mscale) /
                                                           yarn_attention(scaling.factor, all)
                                                     : yarn_attention(scaling.factor, 1);
}

void check_factors(const std::vector<float>& factors, int dims, std::string_view where,
                   std::string_view name) {
  if (factors.size() != static_cast<size_t>(dims / 2)) {
    fail(Exit::Model, where, ": '", name, "' has ", factors.size(), " values, expected ", dims / 2);
  }
  for (float factor : factors) {
    if (!(factor > 0) || !std::isfinite(factor)) {
      fail(Exit::Model, where, ": '", name, "' holds ", factor, ", expected more than 0");
    }
  }
}

void read_longrope(const HfConfig& config, int dims, RopeScaling& scaling) {
  scaling.short_factor = config.floats("short_factor");
  scaling.long_factor = config.floats("long_factor");
  check_factors(scaling.short_factor, dims, config.where(), "short_factor");
  check_factors(scaling.long_factor, dims, config.where(), "long_factor");
  scaling.attention_factor = longrope_attention(scaling.factor, scaling.original_context);
}

RopeScaling proportional(const HfConfig& config, int dims) {
  const double share = config.number_or("partial_rotary_factor", 1);
  if (!(share > 0 && share <= 1)) {
    fail(Exit::Model, config.where(), ": 'partial_rotary_factor' is ", share,
         ", expected more than 0, at most 1");
  }
  RopeScaling scaling;
  scaling.type = "proportional";
  scaling.divisors.assign(static_cast<size_t>(dims / 2), INFINITY);
  std::fill_n(scaling.divisors.begin(), static_cast<int>(share * dims / 2),
              static_cast<float>(positive_or(config, "factor", 1)));
  return scaling;
}

// `outer` is the model's configuration, which holds the context and the original context; `config`
// is its rope object.
RopeScaling read_hf_scaling(const HfConfig& outer, const HfConfig& config, int dims,
                            const HfRopeDefaults& defaults) {
  constexpr std::string_view kOriginal = "original_max_position_embeddings";
  for (const std::string& key : config.keys()) {
    if (defaults.sections && (key == "mrope_section" || key == "mrope_interleaved")) continue;
    if (key == defaults.reads || (defaults.alpha && key == "alpha")) continue;
    if (std::find(std::begin(kKnownKeys), std::end(kKnownKeys), key) == std::end(kKnownKeys)) {
      fail(Exit::Model, config.where(), ": '", printable(key, 80),
           "' is not known; it may change the result");
    }
  }
  RopeScaling scaling;
  std::string type =
      config.has("rope_type") ? config.text("rope_type") : config.text_or("type", "default");
  if (type == "default" || (defaults.sections && type == "mrope")) return scaling;
  if (defaults.proportional && type == "proportional") return proportional(config, dims);
  if (defaults.yarn_is_longrope && (type == "yarn" || type == "su")) type = "longrope";
  const bool known = type == "linear" || type == "llama3" || type == "dynamic" || type == "yarn" ||
                     type == "longrope";
  if (!known) {
    fail(Exit::Model, config.where(), ": rope type '", printable(type, 80),
         "' is not supported; these are: default, dynamic, linear, llama3, longrope, yarn");
  }
  scaling.type = type;
  const auto tokens = [](const HfConfig& place, std::string_view key, double otherwise) {
    return place.has(key) ? static_cast<double>(place.integer(key, 1, kMostTokens)) : otherwise;
  };
  const double length = tokens(outer, "max_position_embeddings", 2048);
  const double silent = defaults.original_context > 0 ? defaults.original_context : length;
  scaling.original_context =
      type == "dynamic" ? length : tokens(outer, kOriginal, tokens(config, kOriginal, silent));
  const bool by_lengths = (type == "longrope" && !config.has("factor")) ||
                          (type == "yarn" && config.mentions("factor") && !config.has("factor"));
  scaling.factor = by_lengths ? length / scaling.original_context : positive(config, "factor");

  if (type == "llama3") read_llama3(config, scaling);
  if (type == "yarn") read_yarn(config, scaling);
  if (type == "longrope") read_longrope(config, dims, scaling);
  if (type == "yarn" || type == "longrope") {
    scaling.attention_factor = positive_or(config, "attention_factor", scaling.attention_factor);
  }
  return scaling;
}

int rotating_dims(const HfConfig& config, int head_dim, double share, bool partial) {
  const int dims = share > 0 && share <= 1 ? static_cast<int>(head_dim * share) : 0;
  if (share != 1 && !partial) {
    fail(Exit::Model, config.where(), ": 'partial_rotary_factor' is ", share,
         "; this architecture rotates whole heads");
  }
  if (dims < 2 || dims % 2 != 0) {
    fail(Exit::Model, config.where(), ": 'partial_rotary_factor' is ", share,
         ", expected a share of the head dimension, ", head_dim, ", that is an even number");
  }
  return dims;
}

// Reads a tensor of dims / 2 positive numbers; empty if the file does not have the tensor.
std::vector<float> gguf_factors(const GgufFile& file, const std::string& name, int dims) {
  const Tensor* tensor = file.find(name);
  if (!tensor) return {};
  const TensorView& view = tensor->view;
  if (view.rows != 1 || view.cols != dims / 2) {
    fail(Exit::Model, tensor->file, ": tensor '", name, "' has ", view.rows * view.cols,
         " values, expected ", dims / 2);
  }
  std::vector<float> factors(static_cast<size_t>(view.cols));
  info(view.type).decode_row(view.data, factors.data(), view.cols);
  check_factors(factors, dims, tensor->file, name);
  return factors;
}

void read_gguf_yarn(const GgufFile& file, const std::string& prefix, RopeScaling& scaling) {
  const GgufMetadata& metadata = file.metadata();
  const auto number_or = [&](const char* key, double otherwise) {
    const double value = metadata.number_or(prefix + "scaling." + key, otherwise);
    if (!(value > 0) || !std::isfinite(value)) {
      fail(Exit::Model, file.path(), ": '", prefix, "scaling.", key, "' is ", value,
           ", expected more than 0");
    }
    return value;
  };
  if (number_or("yarn_ext_factor", 1) != 1) {
    fail(Exit::Model, file.path(), ": '", prefix,
         "scaling.yarn_ext_factor' is not 1, which is not supported");
  }
  scaling.beta_fast = number_or("yarn_beta_fast", scaling.beta_fast);
  scaling.beta_slow = number_or("yarn_beta_slow", scaling.beta_slow);
  // The key holds mscale_all_dim; mscale is 1.
  const double all = metadata.number_or(prefix + "scaling.yarn_log_multiplier", 0);
  double attention = yarn_attention(scaling.factor, 1);
  if (all > 0) attention /= yarn_attention(scaling.factor, all);
  // The key holds config.json's attention_factor if there was one.
  attention = number_or("yarn_attn_factor", attention);
  scaling.attention_factor = attention * number_or("attn_factor", 1);
}

}  // namespace

RopeConfig read_hf_rope(const HfConfig& config, int head_dim, const HfRopeDefaults& defaults) {
  RopeConfig rope;
  rope.base = positive_or(config, "rope_theta", defaults.base);
  double share = config.number_or("partial_rotary_factor", 1);
  const char* key = config.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!config.has(key)) {
    rope.dims = rotating_dims(config, head_dim, share, defaults.partial);
    return rope;
  }
  const HfConfig parameters = config.object(key);
  rope.base = positive_or(parameters, "rope_theta", rope.base);
  share = parameters.number_or("partial_rotary_factor", share);
  if (defaults.proportional && parameters.text_or("rope_type", "") == "proportional") share = 1;
  rope.dims = rotating_dims(config, head_dim, share, defaults.partial);
  rope.scaling = read_hf_scaling(config, parameters, rope.dims, defaults);
  if (defaults.alpha && rope.scaling.type == "dynamic" && parameters.number_or("alpha", 0) != 0) {
    const double dims = rope.dims;
    rope.base *= std::pow(positive(parameters, "alpha"), dims / (dims - 2));
    rope.scaling = {};
  }
  return rope;
}

RopeConfig read_gguf_rope(const GgufFile& file, int head_dim) {
  const GgufMetadata& metadata = file.metadata();
  const std::string arch(metadata.text("general.architecture"));
  const std::string prefix = arch + ".rope.";
  const auto positive = [&](const std::string& key, double otherwise) {
    const double value = metadata.number_or(prefix + key, otherwise);
    if (!(value > 0) || !std::isfinite(value)) {
      fail(Exit::Model, file.path(), ": '", prefix, key, "' is ", value, ", expected more than 0");
    }
    return value;
  };

  RopeConfig rope;
  const uint64_t dims =
      metadata.uint_or(prefix + "dimension_count", static_cast<uint64_t>(head_dim));
  if (dims < 2 || dims > static_cast<uint64_t>(head_dim) || dims % 2 != 0) {
    fail(Exit::Model, file.path(), ": '", prefix, "dimension_count' is ", dims,
         ", expected an even number up to the head dimension, ", head_dim);
  }
  rope.dims = static_cast<int>(dims);
  rope.base = positive("freq_base", 10000);

  RopeScaling& scaling = rope.scaling;
  scaling.divisors = gguf_factors(file, "rope_freqs.weight", rope.dims);
  scaling.short_factor = gguf_factors(file, "rope_factors_short.weight", rope.dims);
  scaling.long_factor = gguf_factors(file, "rope_factors_long.weight", rope.dims);
  const bool has_factors = !scaling.long_factor.empty();
  if (has_factors == scaling.short_factor.empty()) {
    fail(Exit::Model, file.path(), ": tensor 'rope_factors_", has_factors ? "short" : "long",
         ".weight' is missing, but the other of the two is there");
  }

  scaling.type = metadata.text_or(prefix + "scaling.type", "none");
  const bool is_none = scaling.type == "none" && metadata.find(prefix + "scaling.type");
  if (!is_none) {  // an explicit "none" ignores the factor; a factor of 0 means none
    const double old_spelling = metadata.number_or(prefix + "scale_linear", 1);
    scaling.factor = metadata.number_or(prefix + "scaling.factor", old_spelling);
    if (scaling.factor == 0) scaling.factor = 1;
    if (!(scaling.factor > 0) || !std::isfinite(scaling.factor)) {
      fail(Exit::Model, file.path(), ": rope scaling factor is ", scaling.factor,
           ", expected more than 0");
    }
    if (scaling.type == "none" && scaling.factor != 1) scaling.type = "linear";
    if (scaling.type == "linear" && scaling.factor == 1) scaling.type = "none";
  }
  if (scaling.type == "none" && has_factors) scaling.type = "longrope";
  bool still = false;
  for (float& divisor : scaling.divisors) {
    if (divisor < kStillDivisor) continue;
    divisor = INFINITY;
    still = true;
  }
  if (scaling.type == "none" && !scaling.divisors.empty()) {
    scaling.type = still ? "proportional" : "llama3";
  }

  const double length = static_cast<double>(metadata.uint_or(arch + ".context_length", 2048));
  scaling.original_context =
      std::min(positive("scaling.original_context_length", length), double{kMostTokens});
  if (scaling.type == "yarn") {
    read_gguf_yarn(file, prefix, scaling);
  } else if (scaling.type == "longrope" && has_factors && scaling.factor == 1) {
    scaling.attention_factor =
        longrope_attention(length / scaling.original_context, scaling.original_context);
    scaling.attention_factor = positive("scaling.attn_factor", scaling.attention_factor);
  } else if (scaling.type == "longrope") {
    fail(Exit::Model, file.path(), ": rope scaling 'longrope' ",
         has_factors ? "with a factor beside its tensors is not supported"
                     : "needs the tensors 'rope_factors_short.weight' and "
                       "'rope_factors_long.weight', which are missing");
  } else if (scaling.type != "none" && scaling.type != "linear" && scaling.type != "llama3" &&
             scaling.type != "proportional") {
    fail(Exit::Model, file.path(), ": rope scaling '", printable(scaling.type, 80),
         "' is not supported; these are: none, linear, yarn, longrope");
  }
  return rope;
}

}  // namespace skald
