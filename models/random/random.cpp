#include "models/random/random.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/buffer.h"
#include "engine/base/error.h"
#include "engine/base/half.h"
#include "engine/base/rng.h"
#include "engine/base/size_text.h"
#include "engine/cpu/machine.h"
#include "engine/cpu/thread_pool.h"
#include "engine/quant/block_scales.h"
#include "models/families/shared/rope.h"
#include "models/families/shared/windows.h"
#include "models/random/random_shapes.h"

namespace skald {
namespace {

bool norms_heads(const RandomShape& s) {
  return s.family == &kQwen3 || s.family == &kQwen3Moe || s.family == &kGemma3 ||
         s.family == &kQwen35 || s.family == &kGemma4;
}
// Layers without a window may have heads of their own.
bool has_full_heads(const RandomShape& s, int layer) {
  return s.full.head_dim > 0 && (layer + 1) % s.period == 0;
}
// True for layers with a gated delta net in the place of attention.
bool has_net(const RandomShape& s, int layer) {
  return s.delta.value_heads > 0 && (layer + 1) % 4 != 0;
}
bool norms_halves_twice(const RandomShape& s) {
  return s.family == &kGemma2 || s.family == &kGemma3 || s.family == &kGemma4;
}

// True for families whose attention and feed-forward run in parallel, after one norm.
bool norms_once(const RandomShape& s) { return s.family == &kCohere2; }

// True for families with biases everywhere and a feed-forward without a gate.
bool is_starcoder2(const RandomShape& s) { return s.family == &kStarcoder2; }
bool is_gpt_oss(const RandomShape& s) { return s.family == &kGptOss; }
bool biases_qkv(const RandomShape& s) {
  return is_starcoder2(s) || is_gpt_oss(s) || s.family == &kQwen2Moe;
}

bool is_dense(const RandomShape& s, int layer) { return s.latent.rank > 0 && layer == 0; }

// A type is one format, or a mix of a quantizer: `head` for the output (or the tied embedding),
// `more` for attn_v and ffn_down of the layers that lose most, `experts` for experts.
struct Mix {
  std::string name;
  DType most, more, head;
  std::optional<DType> experts = {};  // else as `most` and `more`
};

// Formats that quantizers mix. Every other format of dtype.cpp is a type of its own.
const Mix kMixes[] = {
    {"q2_k", DType::Q2_K, DType::Q3_K, DType::Q6_K},
    {"q3_k", DType::Q3_K, DType::Q5_K, DType::Q6_K},
    {"q4_k_m", DType::Q4_K, DType::Q6_K, DType::Q6_K},
    {"q5_k_m", DType::Q5_K, DType::Q6_K, DType::Q6_K},
    {"mxfp4", DType::MXFP4, DType::MXFP4, DType::Q8_0},
    {"fp8", DType::FP8, DType::FP8, DType::BF16},
    {"nvfp4", DType::NVFP4, DType::NVFP4, DType::BF16},
};

Mix mix_of(const DTypeInfo& format) {
  for (const Mix& mix : kMixes) {
    if (mix.most == format.type) return mix;
  }
  std::string name(format.name);
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const bool precise = format.block_bytes >= format.block_elems;  // 8 bits or more a weight
  return {std::move(name), format.type, format.type, precise ? format.type : DType::Q6_K};
}

const std::vector<Mix>& all_mixes() {
  static const std::vector<Mix> kAll = [] {
    std::vector<Mix> all;
    all.reserve(all_dtypes().size() + 1);
    for (const DTypeInfo& format : all_dtypes()) all.push_back(mix_of(format));
    // The types in which gpt-oss is published.
    all.push_back({"mxfp4_bf16", DType::BF16, DType::BF16, DType::BF16, DType::MXFP4});
    return all;
  }();
  return kAll;
}

template <class Table>
auto names(const Table& table) {
  std::vector<std::string_view> all;
  all.reserve(std::size(table));
  for (const auto& row : table) all.push_back(row.name);
  return all;
}

// The row of this name, in any case.
template <class Table>
const auto& find_row(const Table& table, std::string_view name, std::string_view what) {
  const auto is_same = [](unsigned char a, unsigned char b) { return a == std::tolower(b); };
  std::string known;
  for (const auto& row : table) {
    if (std::ranges::equal(std::string_view(row.name), name, is_same)) return row;
    known += concat(known.empty() ? "" : ", ", row.name);
  }
  fail(Exit::Usage, "unknown ", what, " '", name, "'; these are: ", known);
}

bool needs_more_bits(int layer, int layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

constexpr int kDeltaTaps = 4;  // of the convolution before a delta net

enum class Fill { Noise, Nothing };

class RandomWeights final : public WeightFile {
 public:
  RandomWeights(const RandomShape& shape, const Mix& mix, Fill fill)
      : WeightFile(concat("random ", shape.name, " ", mix.name)), fill_(fill) {
    plan("token_embd.weight", shape.tied ? mix.head : mix.most, shape.vocab, shape.dim);
    for (int layer = 0; layer < shape.layers; ++layer) {
      const std::string block = concat("blk.", layer, ".");
      const DType more = needs_more_bits(layer, shape.layers) ? mix.more : mix.most;
      const bool full = has_full_heads(shape, layer);
      const int head_dim = full ? shape.full.head_dim : shape.head_dim;
      const int64_t q_dim = int64_t{shape.heads} * head_dim;
      const int64_t kv_dim = int64_t{full ? shape.full.kv_heads : shape.kv_heads} * head_dim;
      plan(block + "attn_norm.weight", DType::F32, 1, shape.dim);
      const bool net = has_net(shape, layer), gated = shape.family == &kQwen35;
      if (net) {
        plan_net(block, shape, mix.most, more);
      } else if (shape.latent.rank > 0) {
        plan_latent(block, shape, mix.most);
      } else {
        plan(block + "attn_q.weight", mix.most, gated ? 2 * q_dim : q_dim, shape.dim);
        plan(block + "attn_k.weight", mix.most, kv_dim, shape.dim);
        if (!full) plan(block + "attn_v.weight", more, kv_dim, shape.dim);
        plan(block + "attn_output.weight", mix.most, shape.dim, q_dim);
      }
      const char* ffn_norm = is_gpt_oss(shape) || gated ? "post_attention_norm" : "ffn_norm";
      if (!norms_once(shape)) plan(concat(block, ffn_norm, ".weight"), DType::F32, 1, shape.dim);
      if (is_gpt_oss(shape)) {
        plan(block + "attn_sinks.weight", DType::F32, 1, shape.heads);
        plan(block + "attn_output.bias", DType::F32, 1, shape.dim);
      }
      if (biases_qkv(shape)) {
        plan(block + "attn_q.bias", DType::F32, 1, q_dim);
        plan(block + "attn_k.bias", DType::F32, 1, kv_dim);
        plan(block + "attn_v.bias", DType::F32, 1, kv_dim);
      }
      if (norms_heads(shape) && !net) {
        plan(block + "attn_q_norm.weight", DType::F32, 1, head_dim);
        plan(block + "attn_k_norm.weight", DType::F32, 1, head_dim);
      }
      if (norms_halves_twice(shape)) {
        plan(block + "post_attention_norm.weight", DType::F32, 1, shape.dim);
        plan(block + "post_ffw_norm.weight", DType::F32, 1, shape.dim);
      }
      if (shape.experts.count > 0 && !is_dense(shape, layer)) {
        plan_experts(block, shape, mix.experts.value_or(mix.most), mix.experts.value_or(more));
        if (shape.family != &kGemma4) continue;  // whose experts stand beside a feed-forward
        for (const char* norm : {"pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"}) {
          plan(concat(block, norm, ".weight"), DType::F32, 1, shape.dim);
        }
        plan(block + "ffn_gate_inp.scale", DType::F32, 1, shape.dim);
        plan(block + "ffn_down_exps.scale", DType::F32, 1, shape.experts.count);
      }
      if (is_starcoder2(shape)) {
        plan_biases(block, shape);
      } else {
        plan(block + "ffn_gate.weight", mix.most, shape.ffn_dim, shape.dim);
      }
      plan(block + "ffn_up.weight", mix.most, shape.ffn_dim, shape.dim);
      plan(block + "ffn_down.weight", more, shape.dim, shape.ffn_dim);
    }
    plan("output_norm.weight", DType::F32, 1, shape.dim);
    if (is_starcoder2(shape)) plan("output_norm.bias", DType::F32, 1, shape.dim);
    if (!shape.tied) plan("output.weight", mix.head, shape.vocab, shape.dim);
    if (fill == Fill::Noise) make_noise();
    for (const Planned& p : planned_) {
      std::vector<int64_t> dims{p.rows, p.cols};
      if (p.stacked > 0) dims = {p.stacked, p.rows / p.stacked, p.cols};
      add({p.name, std::move(dims), view(p), path()});
    }
    if (fill == Fill::Noise) fill_tensors();
    planned_.clear();
    noise_.clear();
  }

  // Weights without memory stand for a file of that shape, which would be mapped.
  bool mapped() const override { return fill_ == Fill::Nothing; }

 private:
  struct Planned {
    std::string name;
    DType type;
    int64_t rows, cols, offset;
    int64_t stacked;  // number of experts' matrices in the tensor; 0: a single matrix
  };

  void plan_net(const std::string& block, const RandomShape& shape, DType most, DType more) {
    const DeltaSpec& s = shape.delta;
    const int64_t mixed = 2 * s.keys() + s.values();
    plan(block + "attn_qkv.weight", more, mixed, shape.dim);
    plan(block + "attn_gate.weight", most, s.values(), shape.dim);
    plan(block + "ssm_beta.weight", most, s.value_heads, shape.dim);
    plan(block + "ssm_alpha.weight", most, s.value_heads, shape.dim);
    plan(block + "ssm_conv1d.weight", DType::F32, mixed, kDeltaTaps);
    // The logarithm: whatever the noise, states then fade.
    plan(block + "ssm_a.log", DType::F32, 1, s.value_heads);
    plan(block + "ssm_dt.bias", DType::F32, 1, s.value_heads);
    plan(block + "ssm_norm.weight", DType::F32, 1, s.value_dim);
    plan(block + "ssm_out.weight", most, shape.dim, s.values());
  }

  void plan_latent(const std::string& block, const RandomShape& shape, DType type) {
    const LatentConfig& l = shape.latent;
    const int64_t heads = shape.heads;
    plan(block + "attn_q_a.weight", type, l.query_rank, shape.dim);
    plan(block + "attn_q_a_norm.weight", DType::F32, 1, l.query_rank);
    plan(block + "attn_q_b.weight", type, heads * (l.key_dim + l.rope_dim), l.query_rank);
    plan(block + "attn_kv_a_mqa.weight", type, l.rank + l.rope_dim, shape.dim);
    plan(block + "attn_kv_a_norm.weight", DType::F32, 1, l.rank);
    plan(block + "attn_k_b.weight", type, heads * l.rank, l.key_dim, heads);
    plan(block + "attn_v_b.weight", type, heads * l.value_dim, l.rank, heads);
    plan(block + "attn_output.weight", type, shape.dim, heads * l.value_dim);
  }

  void plan_experts(const std::string& block, const RandomShape& shape, DType most, DType down) {
    const ExpertsConfig& e = shape.experts;
    plan(block + "ffn_gate_inp.weight", DType::F32, e.count, shape.dim);
    plan(block + "ffn_gate_exps.weight", most, e.count * e.ffn_dim, shape.dim, e.count);
    plan(block + "ffn_up_exps.weight", most, e.count * e.ffn_dim, shape.dim, e.count);
    plan(block + "ffn_down_exps.weight", down, e.count * shape.dim, e.ffn_dim, e.count);
    if (e.shared_dim > 0) {
      plan(block + "ffn_gate_shexp.weight", most, e.shared_dim, shape.dim);
      plan(block + "ffn_up_shexp.weight", most, e.shared_dim, shape.dim);
      plan(block + "ffn_down_shexp.weight", down, shape.dim, e.shared_dim);
    }
    if (e.shared_gate) plan(block + "ffn_gate_inp_shexp.weight", DType::F32, 1, shape.dim);
    if (e.choice_bias) plan(block + "exp_probs_b.bias", DType::F32, 1, e.count);
    if (!e.bias) return;
    plan(block + "ffn_gate_inp.bias", DType::F32, 1, e.count);
    plan(block + "ffn_gate_exps.bias", DType::F32, e.count, e.ffn_dim);
    plan(block + "ffn_up_exps.bias", DType::F32, e.count, e.ffn_dim);
    plan(block + "ffn_down_exps.bias", DType::F32, e.count, shape.dim);
  }

  // The biases other than those of q, k and v.
  void plan_biases(const std::string& block, const RandomShape& shape) {
    for (const char* part : {"attn_norm", "ffn_norm", "attn_output", "ffn_down"}) {
      plan(concat(block, part, ".bias"), DType::F32, 1, shape.dim);
    }
    plan(block + "ffn_up.bias", DType::F32, 1, shape.ffn_dim);
  }

  void plan(std::string name, DType type, int64_t rows, int64_t cols, int64_t stacked = 0) {
    // If rows are no whole blocks of the format, take the fallback format, as quantizers do.
    if (cols % info(type).block_elems != 0) type = cols % 32 == 0 ? DType::Q8_0 : DType::F16;
    planned_.push_back({std::move(name), type, rows, cols, bytes_, stacked});
    bytes_ += (rows * row_bytes(type, cols) + 63) / 64 * 64;
  }

  void make_noise() {
    const int64_t machine = cpu::machine_memory().free;
    if (bytes_ > machine) {
      fail(Exit::Memory, path(), ": needs ", size_text(bytes_), " of memory, and this machine has ",
           size_text(machine), "; choose a smaller shape or type");
    }
    memory_ = Buffer(bytes_, "random weights");
    noise_.resize(kNoiseWords);
    for (size_t i = 0; i < noise_.size(); ++i) {
      noise_[i] = static_cast<uint32_t>(0x1p32 * uniform(1, 0, static_cast<int64_t>(i), 0));
    }
  }

  std::byte* place(const Planned& p) const { return memory_.data() + p.offset; }
  TensorView view(const Planned& p) const {
    return {fill_ == Fill::Noise ? place(p) : nullptr, p.type, p.rows, p.cols,
            row_bytes(p.type, p.cols)};
  }

  // All threads fill the memory, because most time goes into touching pages for the first time.
  void fill_tensors() {
    const auto bytes = [](const Planned& p) { return p.rows * row_bytes(p.type, p.cols); };
    std::sort(planned_.begin(), planned_.end(),
              [&](const Planned& x, const Planned& y) { return bytes(x) > bytes(y); });
    std::atomic<size_t> next = 0;
    cpu::ThreadPool pool(cpu::available_threads());
    pool.run([&](int, int) {
      for (size_t i; (i = next++) < planned_.size();) {
        const Planned& p = planned_[i];
        if (p.name.ends_with(".bias")) {
          std::memset(place(p), 0, static_cast<size_t>(bytes(p)));
        } else {
          fill_tensor(place(p), view(p));
        }
      }
    });
  }

  void fill_tensor(std::byte* data, const TensorView& view) const {
    if (view.rows == 1) {
      std::fill_n(reinterpret_cast<float*>(data), view.cols, 1.0f);
    } else {
      fill_matrix(data, view, noise_);
    }
  }

  // Weights of about 1 / sqrt(cols) keep the size of activations from layer to layer. The noise is
  // repeated over the memory; each weight still has memory of its own.
  static void fill_matrix(std::byte* data, const TensorView& view,
                          const std::vector<uint32_t>& noise) {
    const DTypeInfo& format = info(view.type);
    const float size = 1.7f / std::sqrt(static_cast<float>(view.cols));
    const int64_t bytes = view.bytes();
    const int64_t noise_bytes = static_cast<int64_t>(noise.size() * sizeof(uint32_t));
    const int64_t filled = std::min(bytes, noise_bytes - noise_bytes % format.block_bytes);
    if (format.block_elems == 1) {
      for (int64_t i = 0; i < filled / format.block_bytes; ++i) {
        const float unit =
            static_cast<float>(noise[static_cast<size_t>(i) % noise.size()]) * 0x1p-31f;
        store(data + i * format.block_bytes, view.type, size * (unit - 1));
      }
    } else {
      std::memcpy(data, noise.data(), static_cast<size_t>(filled));
      // A minimum of half the size makes weights of both signs. All blocks get one scale.
      const BlockScales scales = scales_for(view.type, data, size, -size / 2);
      for (int64_t at = 0; at < filled; at += format.block_bytes) {
        format.set_scales(data + at, scales.scale, scales.min);
      }
    }
    for (int64_t at = filled; at < bytes; at += filled) {
      std::memcpy(data + at, data, static_cast<size_t>(std::min(filled, bytes - at)));
    }
  }

  static void store(std::byte* to, DType type, float value) {
    info(type).encode_row(&value, to, 1, nullptr);
  }

  static constexpr size_t kNoiseWords = 1 << 18;

  Fill fill_;
  std::vector<Planned> planned_;
  std::vector<uint32_t> noise_;
  int64_t bytes_ = 0;
  Buffer memory_;
};

ModelConfig config_of(const RandomShape& shape) {
  ModelConfig c;
  c.architecture = shape.family->gguf_types.front();
  c.layers = shape.layers;
  c.dim = shape.dim;
  c.ffn_dim = shape.ffn_dim;
  c.heads = shape.heads;
  c.kv_heads = shape.kv_heads;
  c.head_dim = shape.head_dim;
  c.vocab = shape.vocab;
  c.context = shape.context;
  c.tied = shape.tied;
  const bool gemma3 = shape.family == &kGemma3, gemma4 = shape.family == &kGemma4,
             gpt_oss = is_gpt_oss(shape);
  RopeScaling scaling;
  if (shape.rope_factor != 1) {
    scaling.type = gemma3 ? "linear" : gpt_oss ? "yarn" : "llama3";
    scaling.factor = shape.rope_factor;
    scaling.original_context = gpt_oss ? 4096 : 8192;
  }
  c.rope_base = static_cast<float>(shape.rope_base);
  c.rope_scaling = scaling.type;
  const bool delta = shape.delta.value_heads > 0;
  const LatentConfig& latent = shape.latent;
  const int rotated = delta             ? shape.head_dim / 4
                      : latent.rank > 0 ? latent.rope_dim
                                        : shape.head_dim;
  c.rope.inv_freq =
      rope_frequencies(shape.rope_base, gemma4 ? shape.full.head_dim : rotated, scaling);
  if (gemma4) {  // a quarter of the pairs turns
    const auto first = c.rope.inv_freq.begin() + std::ssize(c.rope.inv_freq) / 4;
    std::fill(first, c.rope.inv_freq.end(), 0.0f);
  }
  c.full = shape.full;
  if (delta) {
    c.attention_gate = true;
    c.delta = {{}, shape.delta, kDeltaTaps};
    for (int layer = 0; layer < c.layers; ++layer) c.delta.layers.push_back(has_net(shape, layer));
  }
  if (norms_heads(shape)) c.qk_norm = QkNorm::Heads;
  c.attention_bias = biases_qkv(shape);
  if (shape.family == &kNanbeige) {
    c.loops = 2;
    c.loop_norm = true;
  }
  c.experts = shape.experts;
  if (latent.rank > 0) {
    c.latent = latent;
    c.rope.interleaved = true;
    c.attention_scale = 1 / std::sqrt(static_cast<float>(latent.rope_dim + latent.key_dim));
    for (int layer = 0; layer < c.layers; ++layer)
      c.experts.dense.push_back(is_dense(shape, layer));
  }
  if (shape.window == 0) return c;

  c.window = shape.window;
  if (is_starcoder2(shape)) {
    c.norm = NormKind::Layer;
    c.activation = Activation::GeluTanh;
    c.gated_mlp = false;
    c.norm_bias = c.attention_output_bias = c.mlp_bias = true;
    return c;
  }
  c.windows = windows_by_period(c.layers, c.window, shape.period);
  if (gpt_oss) {
    c.activation = Activation::ClampedSwiglu;
    c.attention_bias = c.attention_output_bias = c.attention_sinks = true;
    return c;
  }
  if (shape.family == &kCohere2) {
    c.norm = NormKind::Layer;
    c.rope.interleaved = true;
    for (int window : c.windows) c.unrotated.push_back(window == 0);
    c.logit_scale = 0.25f;
    return c;
  }
  c.activation = Activation::GeluTanh;
  c.embedding_scale = std::sqrt(static_cast<float>(c.dim));
  if (gemma4) {
    c.attention_scale = 1;
    c.logit_softcap = 30;
  }
  if (gemma3 || gemma4) {
    c.window_rope_base = 10000;
    c.window_rope.inv_freq = rope_frequencies(c.window_rope_base, c.head_dim, {});
  } else {
    c.attention_softcap = 50;
    c.logit_softcap = 30;
  }
  return c;
}

Model make_model(std::string_view shape_name, std::string_view type_name, Fill fill) {
  const RandomShape& shape = find_row(kRandomShapes, shape_name, "shape");
  const Mix& mix = find_row(all_mixes(), type_name, "type");
  return {config_of(shape), std::make_shared<RandomWeights>(shape, mix, fill), shape.family->build};
}

}  // namespace

std::vector<std::string_view> random_shapes() { return names(kRandomShapes); }
std::vector<std::string_view> random_types() { return names(all_mixes()); }

Model random_model(std::string_view shape, std::string_view type) {
  return make_model(shape, type, Fill::Noise);
}

Model shape_model(std::string_view shape, std::string_view type) {
  return make_model(shape, type, Fill::Nothing);
}

}  // namespace skald
