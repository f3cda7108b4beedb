#include "models/convert/gguf_export.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <string>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/convert/quant_mix.h"
#include "models/families/family.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"
#include "models/files/memory_file.h"

namespace skald {
namespace {

MadeTensor as_it_is(const Tensor& tensor) {
  return {.name = tensor.name,
          .shape = tensor.shape,
          .type = tensor.view.type,
          .source = tensor.view,
          .file = tensor.file};
}

// Keys that describe the old file, or that are written anew.
bool is_about_the_file(std::string_view key) {
  return key.starts_with("split.") || key == "general.alignment" || key == "general.file_type" ||
         key == "general.quantization_version" || key.starts_with("quantize.imatrix.");
}

GgufExport export_of_gguf(const OpenedModel& opened) {
  GgufExport out;
  for (const GgufValue& value : opened.gguf->metadata().values()) {
    if (!is_about_the_file(value.key)) out.head.put(value);
  }
  for (const Tensor& tensor : opened.gguf->tensors()) out.tensors.push_back(as_it_is(tensor));
  return out;
}

GgufExport export_of_folder(const OpenedModel& opened) {
  const HfConfig config = HfConfig::read(opened.path / "config.json");
  const ModelConfig& c = opened.model.config;
  const Family& family = family_for_hf(hf_type(config), config.where());
  if (!family.to_gguf) {
    fail(Exit::Model, config.where(), ": skald cannot write a GGUF of the architecture '",
         printable(c.architecture, 40), "'");
  }
  GgufExport out;
  for (const Tensor& tensor : opened.model.weights->tensors()) {
    if (c.tied && tensor.name == "output.weight") continue;  // the embedding is used instead
    MadeTensor made = as_it_is(tensor);
    if (!is_quantizable(made.name, made.rows(), made.shape.size())) made.type = DType::F32;
    out.tensors.push_back(std::move(made));
  }
  family.to_gguf(config, c, out);
  const std::string folder =
      std::filesystem::absolute(opened.path).lexically_normal().filename().string();
  if (!folder.empty()) out.head.put_text("general.name", folder);
  return out;
}

bool near(float a, float b) {
  constexpr float kRounding = 1e-6f;
  return std::fabs(a - b) <= kRounding * std::max(std::fabs(a), std::fabs(b));
}

bool same_rope(const RopeSpec& a, const RopeSpec& b) {
  return near(a.scale, b.scale) && std::equal(a.inv_freq.begin(), a.inv_freq.end(),
                                              b.inv_freq.begin(), b.inv_freq.end(), near);
}

// The first difference of two configurations that changes the output; "" if there is none.
std::string_view difference(const ModelConfig& a, const ModelConfig& b) {
  if (a.layers != b.layers || a.dim != b.dim || a.ffn_dim != b.ffn_dim || a.vocab != b.vocab) {
    return "sizes";
  }
  if (a.heads != b.heads || a.kv_heads != b.kv_heads || a.head_dim != b.head_dim) return "heads";
  if (a.activation != b.activation || a.gated_mlp != b.gated_mlp) return "activation";
  if (a.norm_eps != b.norm_eps || a.norm_bias != b.norm_bias || a.qk_norm != b.qk_norm ||
      a.norm_after_rope != b.norm_after_rope) {
    return "norms";
  }
  if (a.tied != b.tied) return "output";
  if (a.attention_bias != b.attention_bias || a.mlp_bias != b.mlp_bias ||
      a.attention_output_bias != b.attention_output_bias) {
    return "biases";
  }
  const bool scales = near(a.embedding_scale, b.embedding_scale) &&
                      near(a.scale_of_scores(), b.scale_of_scores()) &&
                      near(a.residual_scale, b.residual_scale) &&
                      near(a.logit_scale, b.logit_scale);
  if (!scales) return "scales";
  if (!near(a.query_growth.rate, b.query_growth.rate) ||
      a.query_growth.length != b.query_growth.length) {
    return "growth of queries";
  }
  const ExpertsConfig &e = a.experts, &f = b.experts;
  if (e.count != f.count || e.used != f.used || e.ffn_dim != f.ffn_dim ||
      e.normalized != f.normalized || e.shared_dim != f.shared_dim ||
      e.shared_gate != f.shared_gate || e.bias != f.bias || e.choice_bias != f.choice_bias ||
      e.gating != f.gating || !near(e.scale, f.scale) || !near(e.router_scale, f.router_scale) ||
      e.expert_scale != f.expert_scale || e.groups != f.groups || e.used_groups != f.used_groups) {
    return "experts";
  }
  const DeltaSpec &d = a.delta.spec, &g = b.delta.spec;
  if (a.delta.layers != b.delta.layers || a.delta.taps != b.delta.taps ||
      d.key_heads != g.key_heads || d.value_heads != g.value_heads || d.key_dim != g.key_dim ||
      d.value_dim != g.value_dim || a.attention_gate != b.attention_gate) {
    return "delta nets";
  }
  if (a.space.layers != b.space.layers || a.space.taps != b.space.taps ||
      a.space.conv_bias != b.space.conv_bias || a.space.spec != b.space.spec) {
    return "state spaces";
  }
  if (a.full.head_dim != b.full.head_dim || a.full.kv_heads != b.full.kv_heads ||
      a.full.values_are_keys != b.full.values_are_keys) {
    return "heads of layers without a window";
  }
  if (a.shared_kv.layers != b.shared_kv.layers || a.shared_kv.ffn_dim != b.shared_kv.ffn_dim) {
    return "layers without keys and values";
  }
  if (a.layer_embedding != b.layer_embedding) return "embeddings for each layer";
  const LatentConfig &l = a.latent, &m = b.latent;
  if (l.rank != m.rank || l.query_rank != m.query_rank || l.rope_dim != m.rope_dim ||
      l.key_dim != m.key_dim || l.value_dim != m.value_dim) {
    return "latents";
  }
  if (a.short_conv.layers != b.short_conv.layers || a.short_conv.taps != b.short_conv.taps) {
    return "short convolutions";
  }
  if (a.loops != b.loops || a.loop_norm != b.loop_norm) return "loops";
  if (a.attention_sinks != b.attention_sinks) return "sinks";
  if (a.attention_softcap != b.attention_softcap || a.logit_softcap != b.logit_softcap) {
    return "soft caps";
  }
  for (int layer = 0; layer < a.layers; ++layer) {
    if (a.window_of(layer) != b.window_of(layer)) return "windows";
    if (a.rotates(layer) != b.rotates(layer)) return "layers without rope";
    if (a.has_experts(layer) != b.has_experts(layer)) return "layers without experts";
  }
  if (a.context != b.context || a.short_context != b.short_context) return "context length";
  const bool ropes = same_rope(a.rope, b.rope) && same_rope(a.window_rope, b.window_rope) &&
                     static_cast<bool>(a.rope.by_context) == static_cast<bool>(b.rope.by_context);
  return ropes ? "" : "rope";
}

}  // namespace

GgufExport export_gguf(const OpenedModel& opened) {
  return opened.gguf ? export_of_gguf(opened) : export_of_folder(opened);
}

void check_export(const OpenedModel& folder, const GgufHead& head,
                  const std::vector<MadeTensor>& tensors) {
  // The file's head; the bytes of the weights are missing.
  const MemoryFile file(head.text(), head.file_bytes());
  const std::vector<GgufHead::Place> places = head.places();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::vector<float>& values = tensors[i].values;
    if (!values.empty()) file.write(places[i].offset, std::as_bytes(std::span(values)));
  }
  const auto gguf = open_gguf(file.path());
  const std::string_view architecture = gguf->metadata().text("general.architecture");
  const Family& family = family_for_gguf(architecture, gguf->path());
  const ModelConfig config = family.from_gguf(*gguf);
  family.build(config, *gguf);  // throws where a tensor is missing or has another shape
  const std::string_view what = difference(folder.model.config, config);
  if (what.empty()) return;
  fail(Exit::Model, printable(folder.path.string()), ": a GGUF of the architecture '", architecture,
       "' cannot say this model's ", what);
}

}  // namespace skald
