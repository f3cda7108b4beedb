// Gemma 2: norms before and after each half of a layer, soft caps, a window in every other layer.
#include "models/families/families.h"
#include "models/families/gemma.h"
#include "models/families/shared/config.h"
#include "models/families/shared/gguf_fields.h"
#include "models/families/shared/windows.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"gemma2"};
constexpr std::string_view kGgufTypes[] = {"gemma2"};
constexpr int kPeriod = 2;
constexpr int kLayersOf27B = 46;

ModelConfig from_hf(const HfConfig& file) {
  const HfConfig config = file.with_defaults(R"({"head_dim": 256, "max_position_embeddings": 8192,
      "query_pre_attn_scalar": 256, "sliding_window": 4096, "attn_logit_softcapping": 50.0,
      "final_logit_softcapping": 30.0})");
  ModelConfig c = read_gemma_hf(config, kGemmaCaps);
  read_gemma2_scale(config, c);
  c.attention_softcap = read_softcap(config, "attn_logit_softcapping");
  c.logit_softcap = read_softcap(config, "final_logit_softcapping");
  c.window = static_cast<int>(config.integer_or("sliding_window", 0, 0, kMostWindow));
  c.windows = read_layer_windows(config, c.layers, c.window);
  if (c.windows.empty()) c.windows = windows_by_period(c.layers, c.window, kPeriod);
  return c;
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig c = read_gemma_gguf(file, {});
  guess_gemma2_scale(c, kLayersOf27B);
  c.attention_softcap = read_softcap(file, "attn_logit_softcapping", 50);
  c.logit_softcap = read_softcap(file, "final_logit_softcapping", 30);
  if (!file.metadata().find("gemma2.attention.sliding_window")) c.window = 4096;
  c.windows = gguf_windows(file, c.layers, c.window, kPeriod);
  return c;
}

void to_gguf(const HfConfig& config, const ModelConfig& c, GgufExport& out) {
  put_common(c, {"gemma2", read_hf_rope(config, c.head_dim)}, out);
  put_window_period(c, "gemma2", kPeriod, out);
  out.head.put_f32("gemma2.attn_logit_softcapping", c.attention_softcap);
  out.head.put_f32("gemma2.final_logit_softcapping", c.logit_softcap);
  complete_norms(c, out);
}

}  // namespace

const Family kGemma2 = {"Gemma 2", kHfTypes,           kGgufTypes,   from_hf,
                        from_gguf, gemma2_tensor_name, build_gemma2, to_gguf};

}  // namespace skald
