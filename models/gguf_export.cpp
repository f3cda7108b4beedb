#include "models/gguf_export.h"

#include <filesystem>
#include <string>

#include "engine/error.h"
#include "engine/printable.h"
#include "models/family.h"
#include "models/gguf.h"
#include "models/hf_config.h"
#include "models/quant_mix.h"
#include "models/rope.h"

namespace skald {
namespace {

MadeTensor as_it_is(const Tensor& tensor) {
  return {.name = tensor.name,
          .shape = tensor.shape,
          .type = tensor.view.type,
          .source = tensor.view,
          .file = tensor.file};
}

// What is about the file as it was, or is said anew.
bool is_about_the_file(std::string_view key) {
  return key.starts_with("split.") || key == "general.alignment" || key == "general.file_type" ||
         key == "general.quantization_version";
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
  const Family& family = family_for_hf(config.text("model_type"), config.where());
  if (!family.to_gguf) {
    fail(Exit::Model, config.where(), ": skald cannot write a GGUF of the architecture '",
         printable(c.architecture, 40), "'");
  }
  GgufExport out;
  for (const Tensor& tensor : opened.model.weights->tensors()) {
    if (c.tied && tensor.name == "output.weight") continue;  // not used
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

void put_rope(const HfConfig& config, const ModelConfig& c, const CommonExport& common,
              const std::string& prefix, GgufExport& out) {
  const HfRope rope = read_hf_rope(config, c.rope_base);
  out.head.put_f32(prefix + "rope.freq_base", rope.base);
  const RopeScaling& scaling = rope.scaling;
  const int dims = static_cast<int>(2 * c.rope.inv_freq.size());
  out.head.put_u32(prefix + "rope.dimension_count", dims);
  if (scaling.type == "none") return;
  if (scaling.type == "linear") {
    out.head.put_text(prefix + "rope.scaling.type", scaling.type);
    out.head.put_f32(prefix + "rope.scaling.factor", scaling.factor);
    return;
  }
  if (scaling.type != "llama3" || !common.rope_tensor) {
    fail(Exit::Model, config.where(), ": a GGUF of the architecture '", common.architecture,
         "' cannot say rope scaling '", scaling.type, "'");
  }
  const std::vector<float> plain = rope_frequencies(rope.base, dims, {});
  MadeTensor factors;
  factors.name = "rope_freqs.weight";
  factors.shape = {static_cast<int64_t>(plain.size())};
  for (size_t i = 0; i < plain.size(); ++i) {
    factors.values.push_back(plain[i] / c.rope.inv_freq[i]);
  }
  out.tensors.push_back(std::move(factors));
}

}  // namespace

GgufExport export_gguf(const OpenedModel& opened) {
  return opened.gguf ? export_of_gguf(opened) : export_of_folder(opened);
}

void put_common(const HfConfig& config, const ModelConfig& c, const CommonExport& common,
                GgufExport& out) {
  GgufHead& head = out.head;
  head.put_text("general.architecture", common.architecture);
  head.put_text("general.type", "model");
  const std::string prefix = concat(common.architecture, ".");
  head.put_u32(prefix + "block_count", c.layers);
  head.put_u32(prefix + "context_length", c.context);
  head.put_u32(prefix + "embedding_length", c.dim);
  head.put_u32(prefix + "feed_forward_length", c.ffn_dim);
  head.put_u32(prefix + "attention.head_count", c.heads);
  head.put_u32(prefix + "attention.head_count_kv", c.kv_heads);
  head.put_u32(prefix + "attention.key_length", c.head_dim);
  head.put_u32(prefix + "attention.value_length", c.head_dim);
  head.put_f32(prefix + "attention.layer_norm_rms_epsilon", c.norm_eps);
  head.put_u32(prefix + "vocab_size", c.vocab);
  if (c.window > 0) head.put_u32(prefix + "attention.sliding_window", c.window);
  put_rope(config, c, common, prefix, out);
}

void interleave_heads(std::string_view part, int heads, GgufExport& out) {
  const std::string infix = concat(".", part, ".");
  for (MadeTensor& tensor : out.tensors) {
    if (tensor.name.starts_with("blk.") && tensor.name.find(infix) != std::string::npos) {
      tensor.interleaved_heads = heads;
    }
  }
}

}  // namespace skald
