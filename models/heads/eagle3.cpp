// EAGLE-3: one layer like Llama's. It reads the residual stream of the model before three layers,
// made as wide as one by the matrix "fc", beside the embedding of the token that follows. Its
// attention reads both norms side by side. It may know a part of the vocabulary alone: d2t says how
// far each of its tokens is from the model's.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/families/family.h"
#include "models/families/shared/blocks.h"
#include "models/families/shared/config.h"
#include "models/families/shared/names.h"
#include "models/files/hf_config.h"
#include "models/files/safetensors.h"
#include "models/heads/heads.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

constexpr int kTaps = 3;
constexpr std::string_view kTokens = "d2t";

// Files call the layer "midlayer" or "layers.0", with or without "model." before it.
std::string head_name(std::string_view hf_name) {
  constexpr std::string_view kModel = "model.", kMid = "midlayer.";
  constexpr NamePart kOwn[] = {{".hidden_norm", "hidden_norm"}};
  if (hf_name == kTokens) return std::string(kTokens);
  if (hf_name == "lm_head.weight") return "output.weight";
  std::string_view name = hf_name;
  if (name.starts_with(kModel)) name.remove_prefix(kModel.size());
  if (name == "fc.weight") return "fc.weight";
  if (name.starts_with(kMid)) {
    return tensor_name(concat("model.layers.0.", name.substr(kMid.size())), kOwn);
  }
  return tensor_name(concat("model.", name), kOwn);
}

// The head's tensors, and the model's embedding if the head has none.
class HeadWeights : public WeightFile {
 public:
  HeadWeights(std::shared_ptr<const SafetensorsFile> head, std::shared_ptr<const WeightFile> model)
      : WeightFile(head->path()), head_(std::move(head)), model_(std::move(model)) {
    for (const Tensor& tensor : head_->tensors()) add(tensor);
    constexpr std::string_view kEmbedding = "token_embd.weight";
    const Tensor* embedding = model_->find(kEmbedding);
    if (!find(kEmbedding) && embedding) add(*embedding);
  }
  void check_whole() const override {
    head_->check_whole();
    model_->check_whole();
  }

 private:
  std::shared_ptr<const SafetensorsFile> head_;
  std::shared_ptr<const WeightFile> model_;
};

// Returns the part of config.json that has the layer's settings: some writers keep them in an
// object of their own.
HfConfig layer_config(const HfConfig& file) {
  constexpr const char* kInner = "transformer_layer_config";
  return file.has(kInner) ? file.object(kInner) : file;
}

// norm_before_residual: the residual stream is the norm of the features that the head reads.
template <bool norm_before_residual>
Program build(const ModelConfig& c, const WeightFile& file) {
  Blocks b(c, file);
  ProgramBuilder& builder = b.builder();
  const int64_t dim = c.dim, q_dim = int64_t{c.heads} * c.head_dim,
                kv_dim = int64_t{c.kv_heads} * c.head_dim;
  const Tensor* fc = file.find("fc.weight");
  const int64_t wide = fc ? fc->view.cols : kTaps * dim;
  const ActId next = builder.act("next", dim), taps = builder.act("given_taps", wide),
              both = builder.act("next_and_stream", 2 * dim), q = builder.act("q", q_dim),
              k = builder.act("k", kv_dim), v = builder.act("v", kv_dim),
              attended = builder.act("attended", q_dim);
  b.embed();
  b.norm(next, b.x(), 0, "attn_norm");
  builder.add(Given{b.x()});
  builder.add(Given{taps, dim});
  builder.add(Linear{b.h(), taps, builder.weight("fc.weight", dim, wide), WeightId::None});
  b.add();
  b.norm(b.h(), b.x(), 0, "hidden_norm");
  const auto part = static_cast<int>(dim);
  builder.add(HeadPart{both, next, 1, part});
  builder.add(HeadPart{both, b.h(), 1, part, 0, part});
  if (norm_before_residual) b.norm(b.x(), b.x(), 0, "hidden_norm");
  b.linear(q, both, 0, "attn_q", c.attention_bias);
  b.linear(k, both, 0, "attn_k", c.attention_bias);
  b.linear(v, both, 0, "attn_v", c.attention_bias);
  const int rope = b.rope_of(0);
  builder.add(Rope{q, c.heads, c.head_dim, rope});
  builder.add(Rope{k, c.kv_heads, c.head_dim, rope});
  AttentionSpec spec{c.heads, c.kv_heads, c.head_dim};
  spec.scale = c.scale_of_scores();
  builder.add(Attention{attended, q, k, v, builder.kv_layer({c.kv_heads, c.head_dim}), spec});
  b.linear(b.h(), attended, 0, "attn_output", false);
  b.add();
  b.norm(b.h(), b.x(), 0, "ffn_norm");
  b.mlp(0, b.h());
  b.add();
  const Tensor* logits = file.find("output.weight");
  return std::move(b).finish({.rows = logits ? logits->view.rows : c.vocab});
}

// The text's token of each token of the head.
std::vector<int32_t> head_tokens(const SafetensorsFile& file, int64_t head_vocab, int64_t vocab) {
  for (const RawTensor& raw : file.raw_tensors()) {
    if (raw.name != kTokens) continue;
    if (raw.type != "I64" || raw.shape != std::vector<int64_t>{head_vocab}) {
      fail(Exit::Model, raw.file, ": tensor 'd2t' is not I64 [", head_vocab, "]");
    }
    std::vector<int32_t> tokens;
    for (int64_t token = 0; token < head_vocab; ++token) {
      int64_t offset = 0;
      std::memcpy(&offset, raw.bytes.data() + token * int64_t{sizeof offset}, sizeof offset);
      if (offset < -token || offset >= vocab - token) {
        fail(Exit::Model, raw.file, ": tensor 'd2t' maps token ", token,
             " to one outside of the model's ", vocab);
      }
      tokens.push_back(static_cast<int32_t>(token + offset));
    }
    return tokens;
  }
  if (head_vocab == vocab) return {};
  fail(Exit::Model, file.path(), ": tensor 'd2t' is missing, which says what the head's ",
       head_vocab, " tokens are of the model's ", vocab);
}

// The layers before which the head reads the residual stream.
std::vector<int> tapped_layers(const HfConfig& file, int layers) {
  constexpr const char* kKey = "eagle_aux_hidden_state_layer_ids";
  const HfConfig config = file.has("eagle_config") ? file.object("eagle_config") : file;
  std::vector<int64_t> taps = {2, layers / 2, layers - 3};
  if (config.has(kKey)) {
    taps = config.integers(kKey);
    // The file names the layers behind which the head reads.
    for (int64_t& layer : taps) layer = std::clamp<int64_t>(layer, -1, 1 << 20) + 1;
  }
  for (const int64_t layer : taps) {
    if (layer > 0 && layer < layers && taps.size() == kTaps) continue;
    fail(Exit::Model, config.where(), ": the head reads the stream before layer ", layer,
         ", expected three layers between 1 and ", layers - 1, " of the model");
  }
  return {taps.begin(), taps.end()};
}

}  // namespace

bool is_eagle3(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder / "config.json", error)) return false;
  const HfConfig config = HfConfig::read(folder / "config.json");
  if (config.text_or("speculators_model_type", "") == "eagle3") return true;
  if (!config.has("architectures")) return false;
  for (const std::string& name : config.texts("architectures")) {
    if (name.find("Eagle3") != name.npos) return true;
  }
  return false;
}

OpenedHead open_eagle3(const fs::path& folder, const OpenedModel& model) {
  const HfConfig file = HfConfig::read(folder / "config.json");
  ModelConfig c = read_common_hf(layer_config(file));
  const ModelConfig& of = model.model.config;
  if (c.layers != 1) {
    fail(Exit::Model, file.where(), ": the head has ", c.layers, " layers, expected 1");
  }
  const auto head = open_safetensors(folder, head_name, RawTensors::Kept);
  const Tensor* logits = head->find("output.weight");
  if (!logits) fail(Exit::Model, head->path(), ": tensor 'lm_head.weight' is missing");
  const int64_t head_vocab = logits->view.rows;
  c.architecture = "eagle3";
  c.context = of.context;  // it was trained with shorter texts, and is as good behind them
  c.tied = false;
  const Tensor* fc = head->find("fc.weight");
  if (fc && fc->view.cols != kTaps * of.dim) {
    fail(Exit::Model, fc->file, ": tensor 'fc.weight' has ", fc->view.cols, " columns, expected ",
         kTaps * of.dim, " for a model of width ", of.dim, "; the head belongs to another model");
  }
  OpenedHead result = {{}, {.reads = Features::Taps, .gives = Features::Stream, .both = true}};
  result.kind.tokens = head_tokens(*head, head_vocab, of.vocab);
  result.taps = tapped_layers(file, of.layers);
  const bool before = file.boolean_or("norm_before_residual", false);
  result.opened.model = {c, std::make_shared<HeadWeights>(head, tensors_of_layer(model, -1)),
                         before ? build<true> : build<false>};
  result.opened.path = folder;
  result.opened.family = "EAGLE-3";
  result.opened.model.program();
  return result;
}

}  // namespace skald
