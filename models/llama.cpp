// Llama 1, 2, 3.x and all that share its layers: TinyLlama, OpenLLaMA, CodeLlama, SmolLM2. In GGUF
// Mistral is one of them too.
#include <charconv>
#include <cmath>
#include <utility>

#include "engine/error.h"
#include "models/config.h"
#include "models/families.h"
#include "models/gguf.h"
#include "models/hf_config.h"
#include "models/llama.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"llama"};
constexpr std::string_view kGgufTypes[] = {"llama"};

ModelConfig from_hf(const HfConfig& config) { return read_common_hf(config); }

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig c = read_common_gguf(file);
  if (file.metadata().uint_or("llama.expert_count", 0) > 0) {
    fail(Exit::Model, file.path(),
         ": a mixture of experts is not supported in architecture 'llama'");
  }
  c.rope.interleaved = true;
  return c;
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
      {".mlp.down_proj", "ffn_down"},       {".self_attn.qkv_proj", "attn_qkv"},
      {".mlp.gate_up_proj", "ffn_up"},
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
  AttentionSpec attention{c.heads, c.kv_heads, c.head_dim, c.attention_scale};
  if (attention.scale == 0) attention.scale = static_cast<float>(1 / std::sqrt(double(c.head_dim)));

  auto linear = [&](ActId out, ActId in, const std::string& name, int64_t rows, int64_t cols,
                    bool bias) {
    const WeightId weight = b.weight(name + ".weight", rows, cols);
    b.add(Linear{out, in, weight, bias ? b.weight(name + ".bias", 1, rows) : WeightId::None});
  };
  // Some files hold the matrices of one input as one, row below row.
  auto fused = [&](const std::string& name, ActId in, std::initializer_list<ActId> outs) {
    if (file.find(name + ".bias")) {
      fail(Exit::Model, file.path(), ": tensor '", name, ".bias' is not supported");
    }
    int64_t rows = 0, first = 0;
    for (ActId out : outs) rows += b.cols(out);
    for (ActId out : outs) {
      const WeightId part = b.weight_rows(name + ".weight", rows, c.dim, first, b.cols(out));
      b.add(Linear{out, in, part, WeightId::None});
      first += b.cols(out);
    }
  };

  const WeightId embedding = b.weight("token_embd.weight", c.vocab, c.dim);
  b.add(Embed{x, embedding, c.embedding_scale});
  for (int layer = 0; layer < c.layers; ++layer) {
    const std::string block = concat("blk.", layer, ".");
    const int kv = b.kv_layer({c.kv_heads, c.head_dim});

    b.add(RmsNorm{h, x, b.weight(block + "attn_norm.weight", 1, c.dim), c.norm_eps});
    if (file.find(block + "attn_qkv.weight")) {
      fused(block + "attn_qkv", h, {q, k, v});
    } else {
      linear(q, h, block + "attn_q", q_dim, c.dim, c.attention_bias);
      linear(k, h, block + "attn_k", kv_dim, c.dim, c.attention_bias);
      linear(v, h, block + "attn_v", kv_dim, c.dim, c.attention_bias);
    }
    if (c.rotates(layer)) {
      b.add(Rope{q, c.heads, c.head_dim, rope});
      b.add(Rope{k, c.kv_heads, c.head_dim, rope});
    }
    attention.window = c.window_of(layer);
    b.add(Attention{attended, q, k, v, kv, attention});
    linear(h, attended, block + "attn_output", c.dim, q_dim, c.attention_output_bias);
    b.add(Add{x, h, c.residual_scale});

    b.add(RmsNorm{h, x, b.weight(block + "ffn_norm.weight", 1, c.dim), c.norm_eps});
    const Tensor* gate_and_up = file.find(block + "ffn_up.weight");
    if (gate_and_up && gate_and_up->view.rows == 2 * c.ffn_dim) {
      fused(block + "ffn_up", h, {gate, up});
    } else {
      linear(gate, h, block + "ffn_gate", c.ffn_dim, c.dim, c.mlp_bias);
      linear(up, h, block + "ffn_up", c.ffn_dim, c.dim, c.mlp_bias);
    }
    b.add(GatedAct{gate, gate, up, c.activation});
    linear(h, gate, block + "ffn_down", c.dim, c.ffn_dim, c.mlp_bias);
    b.add(Add{x, h, c.residual_scale});
  }
  b.add(RmsNorm{h, x, b.weight("output_norm.weight", 1, c.dim), c.norm_eps});
  b.add(Logits{h, c.tied ? embedding : b.weight("output.weight", c.vocab, c.dim), c.logit_scale});
  return std::move(b).finish();
}

const Family kLlama = {"Llama",   kHfTypes,          kGgufTypes, from_hf,
                       from_gguf, llama_tensor_name, build_llama};

}  // namespace skald
