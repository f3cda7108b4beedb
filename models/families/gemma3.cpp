// Gemma 3's text part: Gemma 2's layers with norms of each head's query and key instead of caps.
// Five layers with a window follow one without; layers with a window have a rope of their own.
#include "engine/base/error.h"
#include "models/families/families.h"
#include "models/families/gemma.h"
#include "models/families/shared/config.h"
#include "models/families/shared/gguf_fields.h"
#include "models/families/shared/names.h"
#include "models/families/shared/windows.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"gemma3", "gemma3_text"};
constexpr std::string_view kGgufTypes[] = {"gemma3"};
constexpr int kPeriod = 6;
constexpr int kLayersOf27B = 62;
constexpr double kWindowBase = 10000;

// Published configurations of the larger models omit most keys.
constexpr std::string_view kDefaults = R"({"model_type": "gemma3_text", "vocab_size": 262208,
    "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
    "max_position_embeddings": 131072, "rope_theta": 1000000.0, "query_pre_attn_scalar": 256,
    "sliding_window": 4096, "sliding_window_pattern": 6})";

HfConfig text_config(const HfConfig& file) {
  const bool more_than_text = file.has("text_config");
  const HfConfig text = more_than_text ? file.object("text_config") : file;
  return text.with_defaults(kDefaults);
}

ModelConfig from_hf(const HfConfig& file) {
  const HfConfig config = text_config(file);
  ModelConfig c = read_gemma_hf(with_full_rope(config), kGemmaCaps);
  c.architecture = file.text("model_type");
  read_window_rope(config, config.number_or("rope_local_base_freq", kWindowBase), c);
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
  ModelConfig c = read_gemma_gguf(file, {});
  guess_gemma2_scale(c, kLayersOf27B);
  c.qk_norm = QkNorm::Heads;
  c.logit_softcap = read_softcap(file, "final_logit_softcapping", 0);
  if (c.window == 0) return c;
  c.windows = gguf_windows(file, c.layers, c.window, kPeriod);
  read_window_rope(file, kWindowBase, c);
  return c;
}

std::string name(std::string_view hf_name) { return gemma2_tensor_name(text_model_name(hf_name)); }

void to_gguf(const HfConfig& file, const ModelConfig& c, GgufExport& out) {
  const HfConfig config = with_full_rope(text_config(file));
  put_common(c, {"gemma3", read_hf_rope(config, c.head_dim)}, out);
  put_window_period(c, "gemma3", kPeriod, out);
  out.head.put_f32("gemma3.rope.freq_base_swa", c.window_rope_base);
  if (c.logit_softcap > 0) out.head.put_f32("gemma3.final_logit_softcapping", c.logit_softcap);
  complete_norms(c, out);
}

}  // namespace

const Family kGemma3 = {"Gemma 3", kHfTypes, kGgufTypes,   from_hf,
                        from_gguf, name,     build_gemma2, to_gguf};

}  // namespace skald
