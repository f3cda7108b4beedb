// Granite 3 and the dense models of Granite 4: Llama's layers with four multipliers: for
// embeddings, attention scores, residual additions and logits. Granite 4's folders name the
// architecture of its hybrid models, whose Mamba layers and experts skald does not support, and
// have gate and up in one matrix.
#include <cmath>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/families/families.h"
#include "models/families/llama.h"
#include "models/families/shared/config.h"
#include "models/families/shared/gguf_fields.h"
#include "models/families/shared/names.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"granite", "granitemoehybrid"};
constexpr std::string_view kGgufTypes[] = {"granite"};
constexpr std::string_view kRotates = "granite.rope.scaling.finetuned";

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

void check_dense(const HfConfig& config) {
  if (const int64_t count = config.integer_or("num_local_experts", 8, 0, INT32_MAX)) {
    fail(Exit::Model, config.where(), ": 'num_local_experts' is ", count,
         "; a Granite 4 with experts is not supported");
  }
  constexpr std::string_view kLayers = "layer_types";
  if (!config.has(kLayers)) {
    fail(Exit::Model, config.where(), ": '", kLayers, "' is missing: all layers are Mamba layers, ",
         "which are not supported");
  }
  for (const std::string& type : config.texts(kLayers)) {
    if (type == "attention") continue;
    fail(Exit::Model, config.where(), ": '", kLayers, "' has '", printable(type, 40),
         "'; only 'attention' is supported");
  }
}

// Reads the settings that only the folder of a Granite 4 has.
void read_granite4(const HfConfig& config, ModelConfig& c) {
  check_dense(config);
  c.ffn_dim = config.integer_or("shared_intermediate_size", 1024, 1, 1 << 20);
  c.mlp_bias = false;
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
  ModelConfig c = read_common_gguf(file);
  const auto read = [&](const char* key, float otherwise) {
    const double value = file.metadata().number_or(key, 0);
    return value == 0 ? otherwise : multiplier(value, file.path(), key);
  };
  c.embedding_scale = read("granite.embedding_scale", 1);
  c.attention_scale = read("granite.attention.scale", 0);
  c.residual_scale = read("granite.residual_scale", 1);
  c.logit_scale = 1 / read("granite.logit_scale", 1);
  c.rope.interleaved = true;
  // In other architectures the key says how a model was trained; here it switches rope off.
  if (!file.metadata().boolean_or(kRotates, true)) set_unrotated(c);
  return c;
}

std::string name(std::string_view hf_name) {
  constexpr NamePart kParts[] = {{".shared_mlp.input_linear", "ffn_up"},
                                 {".shared_mlp.output_linear", "ffn_down"}};
  return tensor_name(hf_name, kParts);
}

// GGUF has gate and up in two matrices: the fused matrix's halves.
void split_gate_and_up(const ModelConfig& c, GgufExport& out) {
  std::vector<MadeTensor> tensors;
  for (MadeTensor& tensor : out.tensors) {
    const size_t part = tensor.name.find(".ffn_up.weight");
    if (part == std::string::npos || tensor.source.rows != 2 * c.ffn_dim) {
      tensors.push_back(std::move(tensor));
      continue;
    }
    MadeTensor up = tensor;
    tensor.name.replace(part, std::string::npos, ".ffn_gate.weight");
    tensor.shape.front() = up.shape.front() = c.ffn_dim;
    tensor.source.rows = up.source.rows = c.ffn_dim;
    up.source.data = up.source.row(c.ffn_dim);
    tensors.push_back(std::move(tensor));
    tensors.push_back(std::move(up));
  }
  out.tensors = std::move(tensors);
}

void to_gguf(const HfConfig& config, const ModelConfig& c, GgufExport& out) {
  put_common(c, {"granite", read_hf_rope(config, c.head_dim), true}, out);
  out.head.put_f32("granite.embedding_scale", c.embedding_scale);
  out.head.put_f32("granite.attention.scale", c.attention_scale);
  out.head.put_f32("granite.residual_scale", c.residual_scale);
  out.head.put_f32("granite.logit_scale", 1 / c.logit_scale);
  if (!c.unrotated.empty()) out.head.put_bool(kRotates, false);
  interleave_heads(c, out);
  split_gate_and_up(c, out);
}

}  // namespace

const Family kGranite = {"Granite", kHfTypes,    kGgufTypes, from_hf, from_gguf,
                         name,      build_llama, to_gguf,    nullptr, true};

}  // namespace skald
