// Nanbeige 4.2, a looped model: Llama's layers run several times, with the last norm between two
// runs. (Nanbeige 4.1 is a Llama.)
#include <string>

#include "engine/base/error.h"
#include "models/families/families.h"
#include "models/families/llama.h"
#include "models/families/shared/config.h"
#include "models/families/shared/gguf_fields.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"nanbeige"};
constexpr std::string_view kGgufTypes[] = {"nanbeige"};

constexpr int64_t kMostLoops = 64;
constexpr int64_t kMostRuns = 4096;  // of all layers together; each run has a cache of its own
constexpr std::string_view kLoops = "nanbeige.num_loops";
constexpr std::string_view kSkipsNorm = "nanbeige.skip_loop_final_norm";

// Keys of parts that the architecture has and no published model uses.
constexpr std::string_view kUnknownParts[] = {
    "enable_double_loop_split", "loop_share_kv", "enable_hyper_connection", "enable_mhc",
    "enable_depth_attention",   "qk_layernorm",  "ngram_insert_all_layers"};
constexpr std::string_view kUnknownValues[] = {"emb_neighbor_num", "emb_split_num",
                                               "ngram_vocab_size_ratio", "insert_ngram_layer_idx"};

void refuse_unknown(const HfConfig& config) {
  for (const std::string_view key : kUnknownParts) {
    if (!config.boolean_or(key, false)) continue;
    fail(Exit::Model, config.where(), ": '", key, "' is true, which skald does not support");
  }
  for (const std::string_view key : kUnknownValues) {
    if (!config.has(key)) continue;
    fail(Exit::Model, config.where(), ": '", key, "' is set, which skald does not support");
  }
}

void set_loops(int64_t loops, bool norms, std::string_view where, ModelConfig& c) {
  if (loops * c.layers > kMostRuns) {
    fail(Exit::Model, where, ": ", loops, " loops of ", c.layers, " layers are more than ",
         kMostRuns, " runs of a layer");
  }
  c.loops = static_cast<int>(loops);
  c.loop_norm = norms && loops > 1;
}

ModelConfig from_hf(const HfConfig& config) {
  refuse_unknown(config);
  ModelConfig c = read_common_hf(config);
  // The list has a factor for the loss of each loop but the last.
  constexpr std::string_view kLosses = "loop_loss_weights";
  int64_t loops = config.integer_or("num_loops", 1, 1, kMostLoops);
  if (config.has(kLosses)) {
    const auto count = static_cast<int64_t>(config.floats(kLosses).size());
    if (count > 0) loops = count + 1;
  }
  const bool norms = !config.boolean_or("skip_loop_final_norm", false);
  set_loops(loops, norms, config.where(), c);
  return c;
}

ModelConfig from_gguf(const GgufFile& file) {
  const GgufMetadata& metadata = file.metadata();
  ModelConfig c = read_common_gguf(file);
  c.rope.interleaved = true;
  const uint64_t loops = metadata.uint_or(std::string(kLoops), 1);
  if (loops < 1 || loops > static_cast<uint64_t>(kMostLoops)) {
    fail(Exit::Model, file.path(), ": '", kLoops, "' is ", loops, ", expected 1 to ", kMostLoops);
  }
  const bool norms = !metadata.boolean_or(std::string(kSkipsNorm), false);
  set_loops(static_cast<int64_t>(loops), norms, file.path(), c);
  return c;
}

void to_gguf(const HfConfig& config, const ModelConfig& c, GgufExport& out) {
  put_common(c, {"nanbeige", read_hf_rope(config, c.head_dim), true}, out);
  out.head.put_u32(kLoops, c.loops);
  out.head.put_bool(kSkipsNorm, c.loops > 1 && !c.loop_norm);
  interleave_heads(c, out);
}

}  // namespace

const Family kNanbeige = {"Nanbeige",        kHfTypes,    kGgufTypes, from_hf, from_gguf,
                          llama_tensor_name, build_llama, to_gguf,    nullptr, true};

}  // namespace skald
