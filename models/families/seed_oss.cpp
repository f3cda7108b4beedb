// Seed-OSS: Llama's layers with biases of q, k and v; the heads' total width differs from the
// model's width.
#include "models/families/families.h"
#include "models/families/llama.h"
#include "models/families/shared/config.h"
#include "models/families/shared/gguf_fields.h"
#include "models/families/shared/names.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"seed_oss"};
constexpr std::string_view kGgufTypes[] = {"seed_oss"};

ModelConfig from_hf(const HfConfig& file) {
  const HfConfig config = file.with_defaults(
      R"({"head_dim": 128, "max_position_embeddings": 524288, "attention_bias": true})");
  ModelConfig c = read_common_hf(config);
  c.attention_output_bias = config.boolean_or("attention_out_bias", false);
  return c;
}

ModelConfig from_gguf(const GgufFile& file) { return read_common_gguf(file); }

// GGUF names the feed-forward's norm after its place.
std::string name(std::string_view hf_name) {
  constexpr NamePart kParts[] = {{".post_attention_layernorm", kLateFfnNorm}};
  return tensor_name(hf_name, kParts);
}

void to_gguf(const HfConfig& config, const ModelConfig& c, GgufExport& out) {
  put_common(c, {"seed_oss", read_hf_rope(config, c.head_dim)}, out);
}

}  // namespace

const Family kSeedOss = {"Seed-OSS", kHfTypes, kGgufTypes,       from_hf,
                         from_gguf,  name,     build_llama_late, to_gguf};

}  // namespace skald
