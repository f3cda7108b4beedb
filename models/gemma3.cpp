// Gemma 3, its text part: Gemma 2's layers with norms of each head's query and key instead of caps,
// five layers with a window to each without, and a rope of their own for those with one.
#include "engine/error.h"
#include "models/config.h"
#include "models/families.h"
#include "models/gemma.h"
#include "models/gguf.h"
#include "models/gguf_export.h"
#include "models/hf_config.h"
#include "models/names.h"
#include "models/rope.h"
#include "models/windows.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"gemma3", "gemma3_text"};
constexpr std::string_view kGgufTypes[] = {"gemma3"};
constexpr int kPeriod = 6;
constexpr int kLayersOf27B = 62;
constexpr double kWindowBase = 10000;

// Published configurations of the larger models leave most of it out.
constexpr std::string_view kDefaults = R"({"model_type": "gemma3_text", "vocab_size": 262208,
    "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
    "max_position_embeddings": 131072, "rope_theta": 1000000.0, "query_pre_attn_scalar": 256,
    "sliding_window": 4096, "sliding_window_pattern": 6})";

// Layers without a window have the rope of the whole configuration, the others one of their own:
// in transformers 5 both stand in rope_parameters, by the layers' type.
struct Ropes {
  HfConfig full;
  RopeConfig windowed;
};

Ropes find_ropes(const HfConfig& config, int head_dim) {
  Ropes ropes{config, {}};
  ropes.windowed.dims = head_dim;
  ropes.windowed.base = config.number_or("rope_local_base_freq", kWindowBase);
  if (!(ropes.windowed.base > 0)) {
    fail(Exit::Model, config.where(), ": 'rope_local_base_freq' is ", ropes.windowed.base,
         ", expected more than 0");
  }
  constexpr const char* kKey = "rope_parameters";
  if (!config.has(kKey)) return ropes;
  const HfConfig both = config.object(kKey);
  if (!both.has("full_attention") || !both.has("sliding_attention")) {
    fail(Exit::Model, both.where(), ": expected full_attention and sliding_attention");
  }
  ropes.full = config.with(kKey, both.object("full_attention"));
  HfRopeDefaults defaults;
  defaults.base = ropes.windowed.base;
  const HfConfig windowed = both.with(kKey, both.object("sliding_attention"));
  ropes.windowed = read_hf_rope(windowed, head_dim, defaults);
  if (ropes.windowed.scaling.type != "none") {
    fail(Exit::Model, both.where(), ": rope type '", ropes.windowed.scaling.type,
         "' of 'sliding_attention' is not supported; expected default");
  }
  return ropes;
}

HfConfig text_config(const HfConfig& file) {
  const bool more_than_text = file.has("text_config");
  const HfConfig text = more_than_text ? file.object("text_config") : file;
  return text.with_defaults(kDefaults);
}

ModelConfig from_hf(const HfConfig& file) {
  refuse_quantized(file);
  const HfConfig config = text_config(file);
  constexpr int64_t kMostHeadDim = 1024;
  const Ropes ropes =
      find_ropes(config, static_cast<int>(config.integer("head_dim", 2, kMostHeadDim)));
  ModelConfig c = read_gemma_hf(ropes.full);
  c.architecture = file.text("model_type");
  c.window_rope = ropes.windowed.spec();
  c.qk_norm = QkNorm::Heads;
  read_gemma2_scale(config, c);
  if (config.has("attn_logit_softcapping")) {
    fail(Exit::Model, config.where(),
         ": 'attn_logit_softcapping' is not supported in architecture 'gemma3'");
  }
  c.logit_softcap = read_softcap(config, "final_logit_softcapping");
  c.window = static_cast<int>(config.integer("sliding_window", 1, kMostWindow));
  c.windows = read_layer_windows(config, c.layers, c.window);
  if (c.windows.empty()) {
    const int64_t period = config.integer("sliding_window_pattern", 1, INT32_MAX);
    c.windows = windows_by_period(c.layers, c.window, period);
  }
  return c;
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig c = read_gemma_gguf(file);
  guess_gemma2_scale(c, kLayersOf27B);
  c.qk_norm = QkNorm::Heads;
  c.logit_softcap = read_softcap(file, "final_logit_softcapping", 0);
  if (c.window == 0) return c;
  c.windows = gguf_windows(file, c.layers, c.window, kPeriod);
  const double base = file.metadata().number_or("gemma3.rope.freq_base_swa", kWindowBase);
  if (!(base > 0)) {
    fail(Exit::Model, file.path(), ": 'gemma3.rope.freq_base_swa' is ", base,
         ", expected more than 0");
  }
  c.window_rope.inv_freq = rope_frequencies(base, c.head_dim, {});
  return c;
}

std::string name(std::string_view hf_name) { return gemma2_tensor_name(text_model_name(hf_name)); }

void to_gguf(const HfConfig& file, const ModelConfig& c, GgufExport& out) {
  const Ropes ropes = find_ropes(text_config(file), c.head_dim);
  put_common(c, {"gemma3", read_hf_rope(ropes.full, c.head_dim)}, out);
  out.head.put_f32("gemma3.rope.freq_base_swa", ropes.windowed.base);
  if (c.logit_softcap > 0) out.head.put_f32("gemma3.final_logit_softcapping", c.logit_softcap);
  complete_norms(c, out);
}

}  // namespace

const Family kGemma3 = {"Gemma 3", kHfTypes, kGgufTypes,   from_hf,
                        from_gguf, name,     build_gemma2, to_gguf};

}  // namespace skald
