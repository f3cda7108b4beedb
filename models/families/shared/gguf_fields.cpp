#include "models/families/shared/gguf_fields.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/base/error.h"
#include "models/families/shared/windows.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

void add_values(const char* name, std::vector<float> values, GgufExport& out) {
  MadeTensor tensor;
  tensor.name = name;
  tensor.shape = {static_cast<int64_t>(values.size())};
  tensor.values = std::move(values);
  out.tensors.push_back(std::move(tensor));
}

void put_rope(const ModelConfig& c, const CommonExport& common, const std::string& prefix,
              GgufExport& out) {
  const RopeConfig& rope = common.rope;
  const RopeScaling& scaling = rope.scaling;
  GgufHead& head = out.head;
  head.put_f32(prefix + "freq_base", rope.base);
  head.put_u32(prefix + "dimension_count", rope.dims);
  const std::string key = prefix + "scaling.";
  if (scaling.type == "linear" || scaling.type == "yarn") {
    head.put_text(key + "type", scaling.type);
    head.put_f32(key + "factor", scaling.factor);
  }
  if (scaling.type == "yarn" || scaling.type == "longrope") {
    head.put_u32(key + "original_context_length", static_cast<int64_t>(scaling.original_context));
  }
  if (scaling.type == "yarn") {
    head.put_f32(key + "yarn_beta_fast", scaling.beta_fast);
    head.put_f32(key + "yarn_beta_slow", scaling.beta_slow);
    if (!common.latent) head.put_f32(key + "yarn_attn_factor", scaling.attention_factor);
  } else if (scaling.type == "longrope") {
    head.put_f32(key + "attn_factor", scaling.attention_factor);
    add_values("rope_factors_long.weight", scaling.long_factor, out);
    add_values("rope_factors_short.weight", scaling.short_factor, out);
  } else if ((scaling.type == "llama3" || scaling.type == "proportional") && common.rope_freqs) {
    std::vector<float> divisors = rope_frequencies(rope.base, rope.dims, {});
    for (size_t i = 0; i < divisors.size(); ++i) {
      divisors[i] = std::min(divisors[i] / c.rope.inv_freq[i], kStillDivisor);
    }
    add_values("rope_freqs.weight", std::move(divisors), out);
  }
}

// Brings each head from Hugging Face's order, in which rotated pairs are (i, i + n/2), to pairs
// (2i, 2i + 1).
void interleave(MadeTensor& tensor, int heads) {
  std::vector<int32_t>& order = tensor.shape.size() > 1 ? tensor.row_order : tensor.col_order;
  order = interleaved_rows(tensor.shape.front(), heads);
}

}  // namespace

void put_common(const ModelConfig& c, const CommonExport& common, GgufExport& out) {
  GgufHead& head = out.head;
  head.put_text("general.architecture", common.architecture);
  head.put_text("general.type", "model");
  const std::string prefix = concat(common.architecture, ".");
  head.put_u32(prefix + "block_count", c.layers);
  head.put_u32(prefix + "context_length", c.context);
  head.put_u32(prefix + "embedding_length", c.dim);
  const auto put = [&](const char* key, int64_t value, const std::vector<int32_t>& of_layers) {
    if (of_layers.empty()) return head.put_u32(prefix + key, value);
    head.put_ints(prefix + key, of_layers);
  };
  put("feed_forward_length", c.ffn_dim, common.ffn_dims);
  head.put_u32(prefix + "attention.head_count", c.heads);
  put("attention.head_count_kv", c.kv_heads, common.kv_heads);
  const int head_dim = common.head_dim > 0 ? common.head_dim : c.head_dim;
  head.put_u32(prefix + "attention.key_length", head_dim);
  head.put_u32(prefix + "attention.value_length",
               common.value_dim > 0 ? common.value_dim : head_dim);
  head.put_f32(concat(prefix, gguf_norm_eps(c.norm)), c.norm_eps);
  head.put_u32(prefix + "vocab_size", c.vocab);
  if (c.window > 0) head.put_u32(prefix + "attention.sliding_window", c.window);
  put_rope(c, common, prefix + "rope.", out);
}

void put_rope_sections(const HfConfig& config, std::string_view architecture, GgufExport& out) {
  constexpr std::string_view kSections = "mrope_section";
  constexpr size_t kCount = 4;
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (!config.has(key) || !config.object(key).has(kSections)) continue;
    std::vector<int32_t> sections;
    for (const int64_t pairs : config.object(key).integers(kSections)) {
      if (pairs < 0 || pairs > INT32_MAX || sections.size() == kCount) {
        fail(Exit::Model, config.where(), ": '", kSections, "' is not a list of up to ", kCount,
             " sizes");
      }
      sections.push_back(static_cast<int32_t>(pairs));
    }
    sections.resize(kCount);
    out.head.put_ints(concat(architecture, ".rope.dimension_sections"), sections);
    return;
  }
}

std::string_view gguf_norm_eps(NormKind norm) {
  switch (norm) {
    case NormKind::Rms:
      return "attention.layer_norm_rms_epsilon";
    case NormKind::Layer:
      return "attention.layer_norm_epsilon";
  }
  fail(Exit::Failed, "unknown kind of norm");
}

void put_window_period(const ModelConfig& c, std::string_view architecture, int usual,
                       GgufExport& out) {
  const auto is = [&](int period) {
    return c.windows == windows_by_period(c.layers, c.window, period);
  };
  if (c.windows.empty() || is(usual)) return;
  for (int period = 1; period <= c.layers; ++period) {
    if (!is(period)) continue;
    out.head.put_u32(concat(architecture, ".attention.sliding_window_pattern"), period);
    return;
  }
}

std::vector<int32_t> interleaved_rows(int64_t rows, int heads) {
  const int64_t head_dim = rows / heads;
  std::vector<int32_t> order;
  order.reserve(static_cast<size_t>(rows));
  for (int64_t to = 0; to < rows; ++to) {
    const int64_t i = to % head_dim;
    order.push_back(static_cast<int32_t>(to - i + i % 2 * (head_dim / 2) + i / 2));
  }
  return order;
}

void interleave_heads(const ModelConfig& c, GgufExport& out) {
  for (MadeTensor& tensor : out.tensors) {
    if (tensor.name.find(".attn_q.") != std::string::npos) interleave(tensor, c.heads);
    if (tensor.name.find(".attn_k.") != std::string::npos) interleave(tensor, c.kv_heads);
  }
}

void complete_norms(const ModelConfig& c, GgufExport& out) {
  for (MadeTensor& tensor : out.tensors) {
    if (tensor.name.ends_with("_norm.weight")) tensor.added = c.norm_plus;
  }
}

}  // namespace skald
