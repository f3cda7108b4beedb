// Llama 1, 2, 3.x and all that share its layers: Mistral, TinyLlama, OpenLLaMA, CodeLlama, SmolLM2.
#include <charconv>
#include <cmath>
#include <utility>

#include "engine/error.h"
#include "models/config.h"
#include "models/families.h"
#include "models/gguf.h"
#include "models/gguf_export.h"
#include "models/hf_config.h"
#include "models/llama.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"llama", "mistral"};
constexpr std::string_view kGgufTypes[] = {"llama"};

ModelConfig from_hf(const HfConfig& config) {
  ModelConfig c = read_common_hf(config);
  if (c.architecture == "mistral") {
    // A config that does not mention the window means 4096, one that says null means none.
    const int64_t unsaid = config.mentions("sliding_window") ? 0 : 4096;
    c.window = static_cast<int>(config.integer_or("sliding_window", unsaid, 0, 1 << 30));
  }
  return c;
}

// GGUF keeps llama3's scaling as one divisor for each frequency.
void apply_rope_factors(const GgufFile& file, RopeSpec& rope) {
  const Tensor* factors = file.find("rope_freqs.weight");
  if (!factors) return;
  const size_t count = rope.inv_freq.size();
  if (factors->view.rows != 1 || factors->view.cols != static_cast<int64_t>(count)) {
    fail(Exit::Model, factors->file, ": tensor 'rope_freqs.weight' has ",
         factors->view.rows * factors->view.cols, " values, expected ", count);
  }
  std::vector<float> divisors(count);
  info(factors->view.type).decode_row(factors->view.data, divisors.data(), factors->view.cols);
  for (size_t i = 0; i < count; ++i) {
    if (!(divisors[i] > 0) || !std::isfinite(divisors[i])) {
      fail(Exit::Model, factors->file, ": tensor 'rope_freqs.weight' holds ", divisors[i],
           ", expected more than 0");
    }
    rope.inv_freq[i] /= divisors[i];
  }
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig c = read_common_gguf(file);
  if (file.metadata().uint_or("llama.expert_count", 0) > 0) {
    fail(Exit::Model, file.path(),
         ": a mixture of experts is not supported in architecture 'llama'");
  }
  c.rope.interleaved = true;
  apply_rope_factors(file, c.rope);
  if (file.find("rope_freqs.weight")) c.rope_scaling = "llama3";
  return c;
}

// Mistral's window is no part of the format's "llama", but skald reads it there.
void to_gguf(const HfConfig& config, const ModelConfig& c, GgufExport& out) {
  if (c.activation != Activation::Silu) {
    fail(Exit::Model, config.where(),
         ": a GGUF of the architecture 'llama' has the activation "
         "silu alone, and this model has another");
  }
  put_common(config, c, {.architecture = "llama", .rope_tensor = true}, out);
  interleave_heads("attn_q", c.heads, out);
  interleave_heads("attn_k", c.kv_heads, out);
}

}  // namespace

std::string llama_tensor_name(std::string_view name) {
  if (name == "model.embed_tokens.weight") return "token_embd.weight";
  if (name == "model.norm.weight") return "output_norm.weight";
  if (name == "lm_head.weight") return "output.weight";

  constexpr std::string_view kPrefix = "model.layers.";
  if (!name.starts_with(kPrefix)) return "";
  name.remove_prefix(kPrefix.size());
  int layer = 0;
  const auto [rest, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  if (error != std::errc() || layer < 0) return "";
  name.remove_prefix(static_cast<size_t>(rest - name.data()));

  constexpr std::pair<std::string_view, std::string_view> kParts[] = {
      {".input_layernorm", "attn_norm"},    {".self_attn.q_proj", "attn_q"},
      {".self_attn.k_proj", "attn_k"},      {".self_attn.v_proj", "attn_v"},
      {".self_attn.o_proj", "attn_output"}, {".post_attention_layernorm", "ffn_norm"},
      {".mlp.gate_proj", "ffn_gate"},       {".mlp.up_proj", "ffn_up"},
      {".mlp.down_proj", "ffn_down"},
  };
  for (const auto& [from, to] : kParts) {
    if (!name.starts_with(from)) continue;
    const std::string_view kind = name.substr(from.size());
    if (kind == ".weight" || kind == ".bias") return concat("blk.", layer, ".", to, kind);
  }
  return "";
}

Program build_llama(const ModelConfig& c, const WeightFile& file) {
  ProgramBuilder b(file);
  const int64_t q_dim = int64_t{c.heads} * c.head_dim;
  const int64_t kv_dim = int64_t{c.kv_heads} * c.head_dim;

  const ActId x = b.act("x", c.dim);  // the residual stream
  const ActId h = b.act("h", c.dim);
  const ActId q = b.act("q", q_dim);
  const ActId k = b.act("k", kv_dim);
  const ActId v = b.act("v", kv_dim);
  const ActId attended = b.act("attended", q_dim);
  const ActId gate = b.act("gate", c.ffn_dim);
  const ActId up = b.act("up", c.ffn_dim);
  const int rope = b.rope(c.rope);
  const AttentionSpec attention{c.heads, c.kv_heads, c.head_dim,
                                static_cast<float>(1 / std::sqrt(double(c.head_dim))), c.window};

  auto linear = [&](ActId out, ActId in, const std::string& name, int64_t rows, int64_t cols,
                    bool bias) {
    const WeightId weight = b.weight(name + ".weight", rows, cols);
    b.add(Linear{out, in, weight, bias ? b.weight(name + ".bias", 1, rows) : WeightId::None});
  };

  const WeightId embedding = b.weight("token_embd.weight", c.vocab, c.dim);
  b.add(Embed{x, embedding});
  for (int layer = 0; layer < c.layers; ++layer) {
    const std::string block = concat("blk.", layer, ".");
    const int kv = b.kv_layer({c.kv_heads, c.head_dim});

    b.add(RmsNorm{h, x, b.weight(block + "attn_norm.weight", 1, c.dim), c.norm_eps});
    linear(q, h, block + "attn_q", q_dim, c.dim, c.attention_bias);
    linear(k, h, block + "attn_k", kv_dim, c.dim, c.attention_bias);
    linear(v, h, block + "attn_v", kv_dim, c.dim, c.attention_bias);
    b.add(Rope{q, c.heads, c.head_dim, rope});
    b.add(Rope{k, c.kv_heads, c.head_dim, rope});
    b.add(Attention{attended, q, k, v, kv, attention});
    linear(h, attended, block + "attn_output", c.dim, q_dim, c.attention_output_bias);
    b.add(Add{x, h});

    b.add(RmsNorm{h, x, b.weight(block + "ffn_norm.weight", 1, c.dim), c.norm_eps});
    linear(gate, h, block + "ffn_gate", c.ffn_dim, c.dim, c.mlp_bias);
    linear(up, h, block + "ffn_up", c.ffn_dim, c.dim, c.mlp_bias);
    b.add(GatedAct{gate, gate, up, c.activation});
    linear(h, gate, block + "ffn_down", c.dim, c.ffn_dim, c.mlp_bias);
    b.add(Add{x, h});
  }
  b.add(RmsNorm{h, x, b.weight("output_norm.weight", 1, c.dim), c.norm_eps});
  b.add(Logits{h, c.tied ? embedding : b.weight("output.weight", c.vocab, c.dim)});
  return std::move(b).finish();
}

const Family kLlama = {"Llama",   kHfTypes,          kGgufTypes,  from_hf,
                       from_gguf, llama_tensor_name, build_llama, to_gguf};

}  // namespace skald
