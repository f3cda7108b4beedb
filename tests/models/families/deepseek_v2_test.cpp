// DeepSeek V2: tiny models whose weights follow from a formula. One is like V2-Lite; the other has
// a low-rank query and chooses experts from groups, like V2. The expected logits are those of
// transformers in float32.
#include <cmath>

#include "cuda/cuda.h"
#include "engine/cpu/executor.h"
#include "models/convert/quantized.h"
#include "tests/exported_gguf.h"
#include "tests/family_golden.h"
#include "tests/gguf_writer.h"

namespace skald::test {
namespace {

using Json = nlohmann::json;

Json lite_config() {
  return {{"model_type", "deepseek_v2"},
          {"vocab_size", 48},
          {"hidden_size", 32},
          {"intermediate_size", 40},
          {"num_hidden_layers", 3},
          {"num_attention_heads", 2},
          {"num_key_value_heads", 2},
          {"max_position_embeddings", 640},
          {"rms_norm_eps", 1e-6},
          {"hidden_act", "silu"},
          {"attention_bias", false},
          {"rope_theta", 10000},
          {"rope_scaling",
           {{"type", "yarn"},
            {"factor", 40},
            {"original_max_position_embeddings", 16},
            {"beta_fast", 32},
            {"beta_slow", 1},
            {"mscale", 0.707},
            {"mscale_all_dim", 0.707}}},
          {"kv_lora_rank", 16},
          {"q_lora_rank", nullptr},
          {"qk_rope_head_dim", 8},
          {"qk_nope_head_dim", 12},
          {"v_head_dim", 10},
          {"moe_intermediate_size", 12},
          {"n_routed_experts", 8},
          {"n_shared_experts", 2},
          {"num_experts_per_tok", 3},
          {"first_k_dense_replace", 1},
          {"moe_layer_freq", 1},
          {"n_group", 1},
          {"topk_group", 1},
          {"topk_method", "greedy"},
          {"scoring_func", "softmax"},
          {"norm_topk_prob", false},
          {"routed_scaling_factor", 1.0}};
}

Json grouped_config() {
  return changed(lite_config(), {{"q_lora_rank", 20},
                                 {"n_routed_experts", 16},
                                 {"num_experts_per_tok", 4},
                                 {"n_group", 4},
                                 {"topk_group", 2},
                                 {"topk_method", "group_limited_greedy"},
                                 {"routed_scaling_factor", 4.0}});
}

// Every tensor of a folder. The numbers are those of a congruential generator, one after the other:
// matrices from -0.5 to 0.5, norms from 0.75 to 1.25.
class TinyWeights {
 public:
  explicit TinyWeights(const Json& c) : dim_(c.at("hidden_size")) {
    const int64_t vocab = c.at("vocab_size"), heads = c.at("num_attention_heads"),
                  rank = c.at("kv_lora_rank"), rope = c.at("qk_rope_head_dim"),
                  key = c.at("qk_nope_head_dim"), value = c.at("v_head_dim"),
                  width = c.at("moe_intermediate_size"), count = c.at("n_routed_experts"),
                  shared = c.at("n_shared_experts"), queries = heads * (key + rope);
    matrix("model.embed_tokens", vocab, dim_);
    for (int layer = 0; layer < c.at("num_hidden_layers"); ++layer) {
      const std::string at = concat("model.layers.", layer, "."), attention = at + "self_attn.";
      norm(at + "input_layernorm", dim_);
      if (c.at("q_lora_rank").is_null()) {
        matrix(attention + "q_proj", queries, dim_);
      } else {
        const int64_t narrow = c.at("q_lora_rank");
        matrix(attention + "q_a_proj", narrow, dim_);
        norm(attention + "q_a_layernorm", narrow);
        matrix(attention + "q_b_proj", queries, narrow);
      }
      matrix(attention + "kv_a_proj_with_mqa", rank + rope, dim_);
      norm(attention + "kv_a_layernorm", rank);
      matrix(attention + "kv_b_proj", heads * (key + value), rank);
      matrix(attention + "o_proj", dim_, heads * value);
      norm(at + "post_attention_layernorm", dim_);
      if (layer < c.at("first_k_dense_replace")) {
        feed_forward(at + "mlp.", c.at("intermediate_size"));
        continue;
      }
      matrix(at + "mlp.gate", count, dim_);
      for (int expert = 0; expert < count; ++expert) {
        feed_forward(concat(at, "mlp.experts.", expert, "."), width);
      }
      feed_forward(at + "mlp.shared_experts.", width * shared);
    }
    norm("model.norm", dim_);
    matrix("lm_head", vocab, dim_);
  }

  std::string file() const { return safetensors(header_.dump(), data_); }

 private:
  void add(const std::string& name, const std::vector<int64_t>& shape, float base, float size) {
    int64_t count = 1;
    for (const int64_t side : shape) count *= side;
    const size_t first = data_.size();
    for (int64_t i = 0; i < count; ++i) {
      state_ = state_ * 1664525 + 1013904223;
      data_ += raw(base + size * (static_cast<float>(state_ >> 8) * 0x1p-24f - 0.5f));
    }
    header_[name + ".weight"] = {
        {"dtype", "F32"}, {"shape", shape}, {"data_offsets", {first, data_.size()}}};
  }
  void matrix(const std::string& name, int64_t rows, int64_t cols) {
    add(name, {rows, cols}, 0, 1);
  }
  void norm(const std::string& name, int64_t count) { add(name, {count}, 1, 0.5f); }
  void feed_forward(const std::string& at, int64_t width) {
    matrix(at + "gate_proj", width, dim_);
    matrix(at + "up_proj", width, dim_);
    matrix(at + "down_proj", dim_, width);
  }

  int64_t dim_;
  uint32_t state_ = 1;
  Json header_ = Json::object();
  std::string data_;
};

// A folder with the model's weights. Its configuration may be another one.
class TinyFolder {
 public:
  explicit TinyFolder(const Json& config) : config_(config) {
    temp_.write("model.safetensors", TinyWeights(config).file());
  }

  OpenedModel open(const Json& changes = Json::object()) const {
    temp_.write("config.json", changed(config_, changes).dump());
    return open_model(temp_.path());
  }
  OpenedModel open_gguf() const {
    return open_model(temp_.write("m.gguf", gguf_bytes(open(), DType::F32)));
  }
  std::string refusal(const char* key, const Json& value) const {
    return error_text([&] { open({{key, value}}); });
  }

 private:
  Json config_;
  TempFolder temp_;
};

// The logits after 40 tokens, of which the yarn's first context has 16.
std::vector<float> last_logits(Executor& executor) {
  std::vector<int32_t> tokens(40);
  for (int i = 0; i < 40; ++i) tokens[static_cast<size_t>(i)] = (i * 7 + 3) % 48;
  const std::vector<float> all = all_logits(executor, tokens);
  return {all.end() - 48, all.end()};
}
std::vector<float> last_logits(const Model& model, cpu::KernelSet kernels) {
  return last_logits(*cpu::make_executor(made_model(model, {}), {.exact = true}, kernels));
}

void check_near(const std::vector<float>& logits, const std::vector<float>& first) {
  for (size_t i = 0; i < first.size(); ++i) CHECK(std::fabs(logits[i] - first[i]) < 1e-4);
}

std::string bytes_of(const Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.view.data),
          static_cast<size_t>(tensor.view.rows * tensor.view.cols) * sizeof(float)};
}

// One matrix of two: of each head the rows of keys, then those of values.
std::string keys_and_values(const Tensor& keys, const Tensor& values) {
  const int64_t heads = keys.shape[0], rank = keys.shape[1], key = keys.shape[2],
                value = values.shape[1];
  const std::string from = bytes_of(keys), of_values = bytes_of(values);
  std::string both;
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t i = 0; i < key * rank; ++i) {
      const int64_t at = (head * rank + i % rank) * key + i / rank;
      both += from.substr(static_cast<size_t>(at) * sizeof(float), sizeof(float));
    }
    const size_t size = static_cast<size_t>(value * rank) * sizeof(float);
    both += of_values.substr(static_cast<size_t>(head) * size, size);
  }
  return both;
}

// The model as an early GGUF: keys and values in one matrix, and no word on how experts are chosen.
template <class Change>
std::string early_gguf(const OpenedModel& lite, const Change& change) {
  GgufWriter w;
  w.text("general.architecture", "deepseek2");
  const auto number = [&](const char* key, uint32_t value) {
    w.u32(concat("deepseek2.", key), value);
  };
  number("block_count", 3);
  number("context_length", 640);
  number("embedding_length", 32);
  number("feed_forward_length", 40);
  number("attention.head_count", 2);
  number("attention.head_count_kv", 2);
  number("attention.key_length", 20);
  number("attention.value_length", 10);
  number("attention.kv_lora_rank", 16);
  w.f32("deepseek2.attention.layer_norm_rms_epsilon", 1e-6f);
  number("leading_dense_block_count", 1);
  number("expert_count", 8);
  number("expert_used_count", 3);
  number("expert_shared_count", 2);
  number("expert_feed_forward_length", 12);
  w.f32("deepseek2.expert_weights_scale", 1);
  number("rope.dimension_count", 8);
  w.f32("deepseek2.rope.freq_base", 10000);
  w.text("deepseek2.rope.scaling.type", "yarn");
  w.f32("deepseek2.rope.scaling.factor", 40);
  number("rope.scaling.original_context_length", 16);
  w.f32("deepseek2.rope.scaling.yarn_log_multiplier", 0.0707f);
  for (const Tensor& tensor : lite.gguf->tensors()) {
    GgufWriter::Tensor out{tensor.name, {}, 0, bytes_of(tensor)};
    out.dims.assign(tensor.shape.rbegin(), tensor.shape.rend());
    const size_t part = tensor.name.find("attn_k_b.");
    if (part != std::string::npos) {
      const std::string layer = tensor.name.substr(0, part);
      out.name = layer + "attn_kv_b.weight";
      out.dims = {16, 2 * (12 + 10)};
      out.data = keys_and_values(tensor, *lite.gguf->find(layer + "attn_v_b.weight"));
    }
    if (tensor.name.find("attn_v_b.") == std::string::npos) w.tensors.push_back(out);
  }
  change(w);
  return w.file();
}

ExpertsSpec experts_of(const Model& model) {
  const Program program = model.program();
  for (const Op& op : program.ops) {
    if (const auto* experts = std::get_if<Experts>(&op)) return experts->spec;
  }
  return {};
}

}  // namespace

TEST_CASE("DeepSeek V2 gives the logits of transformers, from a folder and from its GGUF") {
  struct Case {
    Json config;
    std::vector<float> first;  // of the last token's logits
  };
  const Case cases[] = {
      {lite_config(),
       {1.910355f, 1.667022f, 0.265271f, 2.030610f, 2.064033f, -0.141172f, 1.405488f, 0.392332f}},
      {grouped_config(),
       {0.445711f, 1.463523f, 0.177321f, -0.674690f, 0.527496f, 1.576970f, 1.641992f, 0.538461f}}};
  for (const auto& [config, first] : cases) {
    const TinyFolder folder(config);
    for (const cpu::KernelSet kernels : {cpu::KernelSet::Fast, cpu::KernelSet::Reference}) {
      CAPTURE(config.dump(), kernels == cpu::KernelSet::Fast);
      for (const OpenedModel& opened : {folder.open(), folder.open_gguf()}) {
        check_near(last_logits(opened.model, kernels), first);
      }
    }
    const Model model = made_model(folder.open().model, {});
    check_near(last_logits(*cpu::make_group(model, {.exact = true}, 2)), first);
  }
}

TEST_CASE("DeepSeek V2 chooses experts by softmax, from groups where it says so") {
  const Model lite = TinyFolder(lite_config()).open().model;
  const ModelConfig& c = lite.config;
  CHECK((c.latent.rank == 16 && c.latent.query_rank == 0 && c.latent.rope_dim == 8));
  CHECK((c.kv_heads == 1 && c.head_dim == 24 && c.rope.interleaved && c.rope.scale == 1));
  const double more = 1 + 0.1 * 0.707 * std::log(40.0);
  CHECK(c.attention_scale == Approx(more * more / std::sqrt(20.0)).epsilon(1e-6));
  CHECK(c.experts.shared_dim == 24);
  CHECK(c.experts.dense == std::vector<bool>{true, false, false});
  const ExpertsSpec greedy = experts_of(lite);
  CHECK((greedy.gating == Gating::Softmax && !greedy.normalized && greedy.scale == 1));
  CHECK((greedy.count == 8 && greedy.used == 3 && greedy.groups == 1));

  const Model grouped = TinyFolder(grouped_config()).open().model;
  CHECK(grouped.config.latent.query_rank == 20);
  const ExpertsSpec spec = experts_of(grouped);
  CHECK((spec.gating == Gating::Softmax && spec.groups == 4 && spec.used_groups == 2));
  CHECK(spec.scale == 4);

  // Groups count where the method says so; so does the sum of the weights.
  const TinyFolder folder(grouped_config());
  CHECK(experts_of(folder.open({{"topk_method", "greedy"}}).model).groups == 1);
  const Json sums = {{"norm_topk_prob", true}, {"routed_scaling_factor", 1.0}};
  CHECK(experts_of(folder.open(sums).model).normalized);
}

TEST_CASE("a DeepSeek V2 that skald does not compute is refused") {
  const TinyFolder folder(grouped_config());
  CHECK(has(folder.refusal("topk_method", "noaux_tc"),
            "'topk_method' is 'noaux_tc', expected 'greedy' or 'group_limited_greedy'"));
  CHECK(has(folder.refusal("scoring_func", "sigmoid"), "'scoring_func' is 'sigmoid'"));
  CHECK(has(folder.refusal("moe_layer_freq", 2), "'moe_layer_freq' is not 1"));
  CHECK(has(folder.refusal("mlp_bias", true), "'mlp_bias' is true"));
  CHECK(has(folder.refusal("norm_topk_prob", true),
            "'routed_scaling_factor' is 4, expected 1 where 'norm_topk_prob' is true"));
  CHECK(has(folder.refusal("n_group", nullptr), "'n_group' is missing"));
  CHECK(has(folder.refusal("n_group", 5), "4 of 16 experts cannot be chosen from 2 of 5 groups"));
  CHECK(has(folder.refusal("q_lora_rank", nullptr), "'blk.0.attn_q.weight'"));
  // A GGUF has no place for a factor of cosines and sines.
  const OpenedModel other = folder.open({{"rope_scaling/mscale", 1.0}});
  CHECK(other.model.config.rope.scale > 1);
  CHECK(has(error_text([&] { gguf_bytes(other, DType::F32); }), "rope"));
}

TEST_CASE("a GGUF of DeepSeek V2 says how experts are chosen, and may leave it unsaid") {
  const OpenedModel grouped = TinyFolder(grouped_config()).open_gguf();
  const GgufMetadata& m = grouped.gguf->metadata();
  CHECK(m.uint("deepseek2.expert_gating_func") == 1);
  CHECK(m.uint("deepseek2.expert_group_count") == 4);
  CHECK(m.number("deepseek2.expert_weights_scale") == 4);
  CHECK(m.uint("deepseek2.expert_shared_count") == 2);
  CHECK(m.number("deepseek2.rope.scaling.yarn_log_multiplier") == Approx(0.0707));
  const OpenedModel lite = TinyFolder(lite_config()).open_gguf();
  CHECK(!lite.gguf->metadata().find("deepseek2.attention.q_lora_rank"));
  CHECK(!lite.gguf->metadata().find("deepseek2.expert_group_count"));
}

TEST_CASE("an early GGUF of DeepSeek V2 has keys and values in one matrix, and gives the same") {
  const OpenedModel lite = TinyFolder(lite_config()).open_gguf();
  TempFolder temp;
  const auto opened = [&](const auto& change) {
    return open_model(temp.write("m.gguf", early_gguf(lite, change)));
  };
  const OpenedModel early = opened([](GgufWriter&) {});
  REQUIRE(early.gguf->find("blk.1.attn_kv_b.weight"));
  CHECK(early.model.config.attention_scale == Approx(lite.model.config.attention_scale));
  for (const cpu::KernelSet kernels : {cpu::KernelSet::Fast, cpu::KernelSet::Reference}) {
    check_near(last_logits(early.model, kernels), last_logits(lite.model, kernels));
  }
  const auto refusal = [&](const auto& change) { return error_text([&] { opened(change); }); };
  CHECK(has(refusal([](GgufWriter& w) {
              for (GgufWriter::Tensor& tensor : w.tensors) {
                if (tensor.name == "blk.0.attn_kv_b.weight") tensor.name = "other";
              }
            }),
            "'deepseek2.attention.key_length_mla'"));
  CHECK(has(refusal([](GgufWriter& w) {
              for (GgufWriter::Tensor& tensor : w.tensors) {
                if (tensor.name == "blk.1.attn_kv_b.weight") tensor.dims[1] -= 1;
              }
            }),
            "does not fit the queries and the output of its layer"));
  CHECK(has(refusal([](GgufWriter& w) {
              w.tensors.push_back({"blk.1.exp_probs_b.bias", {8}, 0, std::string(32, 0)});
            }),
            "'deepseek2.expert_gating_func' is not 2 (sigmoids)"));
  CHECK(has(refusal([](GgufWriter& w) { w.u32("deepseek2.expert_gating_func", 3); }),
            "'deepseek2.expert_gating_func' is 3, expected 1 (softmax) or 2 (sigmoids)"));
}

TEST_CASE("GPUs take DeepSeek V2 unless it chooses experts from groups") {
  CHECK(cuda::model_problem(TinyFolder(lite_config()).open().model).empty());
  CHECK(has(cuda::model_problem(TinyFolder(grouped_config()).open().model),
            "experts with groups chosen by softmax"));
}

}  // namespace skald::test
