// The CPU kernels as plain loops: each is its formula. All other kernels are tested against them.
// One thread; sums have one fixed order.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "engine/cpu/cache_rows.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/product_observer.h"
#include "engine/memory/kv_pages.h"

namespace skald::cpu {
namespace {

// Gives -infinity to the experts of groups that are not among the best.
void leave_out_groups(const ExpertsSpec& spec, std::vector<float>& scores) {
  if (spec.used_groups == spec.groups) return;
  const auto size = static_cast<std::ptrdiff_t>(scores.size()) / spec.groups;
  std::vector<std::pair<float, int>> groups;
  for (int g = 0; g < spec.groups; ++g) {
    std::vector<float> own(scores.begin() + g * size, scores.begin() + (g + 1) * size);
    std::sort(own.begin(), own.end(), std::greater<>());
    const bool two = spec.gating == Gating::Sigmoid && own.size() > 1;
    groups.emplace_back(-(two ? own[0] + own[1] : own[0]), g);
  }
  std::stable_sort(groups.begin(), groups.end());
  for (auto g = groups.begin() + spec.used_groups; g != groups.end(); ++g) {
    std::fill_n(scores.begin() + g->second * size, size, -INFINITY);
  }
}

class ReferenceKernels final : public Kernels {
 public:
  void embed(const EmbedArgs& a) override {
    for (int64_t r = 0; r < a.rows; ++r) {
      info(a.weight.type)
          .decode_row(a.weight.row(a.tokens[r]), a.out + r * a.weight.cols, a.weight.cols);
    }
    for (int64_t i = 0; i < a.rows * a.weight.cols; ++i) a.out[i] *= a.scale;
  }

  void rms_norm(const RmsNormArgs& a) override {
    for (int64_t r = 0; r < a.rows; ++r) {
      const float* in = a.in + r * a.dim;
      const float* weight = a.weight_of(r);
      float* out = a.out + r * a.dim;
      double squares = 0;
      for (int64_t i = 0; i < a.dim; ++i) squares += double{in[i]} * in[i];
      const float scale = static_cast<float>(1 / std::sqrt(squares / a.dim + a.eps));
      for (int64_t i = 0; i < a.dim; ++i) out[i] = in[i] * scale * (weight ? weight[i] : 1);
    }
  }

  void layer_norm(const LayerNormArgs& a) override {
    for (int64_t r = 0; r < a.rows; ++r) {
      const float* in = a.in + r * a.dim;
      float* out = a.out + r * a.dim;
      double sum = 0, squares = 0;
      for (int64_t i = 0; i < a.dim; ++i) sum += in[i];
      const double mean = sum / a.dim;
      for (int64_t i = 0; i < a.dim; ++i) squares += (in[i] - mean) * (in[i] - mean);
      const double scale = 1 / std::sqrt(squares / a.dim + a.eps);
      for (int64_t i = 0; i < a.dim; ++i) {
        out[i] =
            static_cast<float>((in[i] - mean) * scale * a.weight[i] + (a.bias ? a.bias[i] : 0));
      }
    }
  }

  void linear(const LinearArgs& a) override {
    const int64_t outs = a.weight.rows, ins = a.weight.cols;
    weight_row_.resize(static_cast<size_t>(ins));
    for (int64_t o = 0; o < outs; ++o) {
      info(a.weight.type).decode_row(a.weight.row(o), weight_row_.data(), ins);
      for (int64_t r = 0; r < a.rows; ++r) {
        double sum = a.bias ? a.bias[o] : 0;
        for (int64_t i = 0; i < ins; ++i) sum += double{weight_row_[i]} * a.in[r * ins + i];
        a.out[r * outs + o] = static_cast<float>(sum);
      }
    }
  }

  void rope(const RopeArgs& a) override {
    const int half = static_cast<int>(a.spec->inv_freq.size());
    const int stride = a.spec->interleaved ? 2 : 1;
    const int partner = a.spec->interleaved ? 1 : half;
    for (int64_t r = 0; r < a.rows; ++r) {
      for (int h = 0; h < a.heads; ++h) {
        float* head = a.x + (r * a.heads + h) * a.head_dim;
        for (int i = 0; i < half; ++i) {
          // A float32 product, as in Hugging Face: at long positions its rounding is visible.
          const float angle = static_cast<float>(a.positions[r]) * a.spec->inv_freq[i];
          const float cos = std::cos(angle) * a.spec->scale;
          const float sin = std::sin(angle) * a.spec->scale;
          float& x = head[i * stride];
          float& y = head[i * stride + partner];
          const float rotated_x = x * cos - y * sin;
          y = y * cos + x * sin;
          x = rotated_x;
        }
      }
    }
  }

  void attention(const AttentionArgs& a) override {
    const AttentionSpec& s = a.spec;
    const int64_t group = s.heads / s.kv_heads;
    const bool rotates = is_rotated(a.cache.types.keys);
    const bool rotates_back = is_rotated(a.cache.types.values);
    std::vector<float> head(static_cast<size_t>(s.head_dim));
    for (int64_t r = 0; r < (a.k ? a.rows : 0); ++r) {
      append_row(a, r, head.data(), [&](CacheType type, const float* from, auto to) {
        encode_cache(type, from, s.head_dim, to);
      });
    }
    std::vector<double> sum(static_cast<size_t>(s.head_dim));
    std::vector<float> query(sum.size());
    for (int64_t r = 0; r < a.rows; ++r) {
      const int64_t last = a.at[r].position;
      const int64_t first = s.window ? std::max<int64_t>(0, last - s.window + 1) : 0;
      const double scale = s.scale * s.growth.at(last);
      probabilities_.resize(static_cast<size_t>(last + 1));
      for (int64_t h = 0; h < s.heads; ++h) {
        std::copy_n(a.q + (r * s.heads + h) * s.head_dim, s.head_dim, query.begin());
        if (rotates) rotate_hadamard(query.data(), s.head_dim);
        double best = a.sinks ? a.sinks[h] : -INFINITY;
        for (int64_t t = first; t <= last; ++t) {
          load(a, a.at[r], Half::Keys, h / group, t, head);
          double dot = 0;
          for (int i = 0; i < s.head_dim; ++i) dot += double{query[i]} * head[i];
          probabilities_[t] = dot * scale;
          if (s.softcap != 0) {
            probabilities_[t] = s.softcap * std::tanh(probabilities_[t] / s.softcap);
          }
          best = std::max(best, probabilities_[t]);
        }
        double total = a.sinks ? std::exp(a.sinks[h] - best) : 0;
        std::fill(sum.begin(), sum.end(), 0);
        for (int64_t t = first; t <= last; ++t) {
          const double p = std::exp(probabilities_[t] - best);
          total += p;
          load(a, a.at[r], Half::Values, h / group, t, head);
          for (int i = 0; i < s.head_dim; ++i) sum[i] += p * head[i];
        }
        float* out = a.out + (r * s.heads + h) * s.head_dim;
        for (int i = 0; i < s.head_dim; ++i) out[i] = static_cast<float>(sum[i] / total);
        if (rotates_back) rotate_hadamard(out, s.head_dim);
      }
    }
  }

  void gated_act(const GatedActArgs& a) override {
    for (int64_t i = 0; i < a.count; ++i) {
      const bool clamped = a.activation == Activation::ClampedSwiglu;
      a.out[i] = clamped ? clamped_swiglu(a.gate[i], a.up[i])
                         : activated(a.gate[i], a.activation) * a.up[i];
    }
  }

  void activate(const ActivateArgs& a) override {
    for (int64_t i = 0; i < a.count; ++i) a.out[i] = activated(a.in[i], a.activation);
  }

  void head_part(const HeadPartArgs& a) override {
    const HeadPart& p = a.part;
    for (int64_t r = 0; r < a.rows; ++r) {
      for (int64_t h = 0; h < p.heads; ++h) {
        std::copy_n(a.in + r * a.in_cols + h * (a.in_cols / p.heads) + p.first, p.cols,
                    a.out + r * a.out_cols + p.to + h * (p.width == 0 ? p.cols : p.width));
      }
    }
  }

  void causal_conv(const CausalConvArgs& a) override {
    const int64_t kept = a.taps - 1;
    for (int64_t r = 0; r < a.rows; ++r) {
      float* state = a.at[r].state;
      if (a.at[r].position == 0) std::fill_n(state, kept * a.cols, 0.0f);
      const float* in = a.in + r * a.cols;
      for (int64_t c = 0; c < a.cols; ++c) {
        const float* weight = a.weight + c * a.taps;
        double sum = (a.bias ? double{a.bias[c]} : 0) + double{weight[kept]} * in[c];
        for (int64_t t = 0; t < kept; ++t) sum += double{weight[t]} * state[t * a.cols + c];
        a.out[r * a.cols + c] = activated(static_cast<float>(sum), a.activation);
      }
      std::copy_n(state + a.cols, (kept - 1) * a.cols, state);
      std::copy_n(in, a.cols, state + (kept - 1) * a.cols);
    }
  }

  void delta_net(const DeltaNetArgs& a) override {
    const DeltaSpec& s = a.spec;
    std::vector<double> key(static_cast<size_t>(s.key_dim)), query(key.size());
    for (int64_t r = 0; r < a.rows; ++r) {
      if (a.at[r].position == 0) std::fill_n(a.at[r].state, s.state_floats(), 0.0f);
      const float* queries = a.in + r * (2 * s.keys() + s.values());
      const float *keys = queries + s.keys(), *values = keys + s.keys();
      for (int h = 0; h < s.value_heads; ++h) {
        const int64_t first = int64_t{s.key_head(h)} * s.key_dim;
        scale_to_one(queries + first, query);
        scale_to_one(keys + first, key);
        const int64_t at = r * s.value_heads + h;
        const double kept = std::exp(a.rate[h] * softplus(double{a.decay[at]} + a.bias[h]));
        const double corrected = 1 / (1 + std::exp(-double{a.beta[at]}));
        const float* value = values + int64_t{h} * s.value_dim;
        float* out = a.out + r * s.values() + int64_t{h} * s.value_dim;
        float* state = a.at[r].state + int64_t{h} * s.key_dim * s.value_dim;
        for (int j = 0; j < s.value_dim; ++j) {
          double held = 0;
          for (int i = 0; i < s.key_dim; ++i) held += kept * state[i * s.value_dim + j] * key[i];
          const double error = corrected * (value[j] - held);
          double sum = 0;
          for (int i = 0; i < s.key_dim; ++i) {
            float& number = state[i * s.value_dim + j];
            number = static_cast<float>(kept * number + key[i] * error);
            sum += double{number} * query[i];
          }
          out[j] = static_cast<float>(sum / std::sqrt(double(s.key_dim)));
        }
      }
    }
  }

  void state_space(const StateSpaceArgs& a) override {
    const SpaceSpec& s = a.spec;
    for (int64_t r = 0; r < a.rows; ++r) {
      const float* in = a.in + r * s.inputs();
      for (int h = 0; h < s.heads; ++h) {
        float* state = a.at[r].state + int64_t{h} * s.head_dim * s.state_dim;
        if (a.at[r].position == 0) std::fill_n(state, int64_t{s.head_dim} * s.state_dim, 0.0f);
        const float* value = in + int64_t{h} * s.head_dim;
        const float* key = in + s.values() + int64_t{h / (s.heads / s.groups)} * s.state_dim;
        const float* query = key + s.keys();
        const double step = std::clamp(softplus(double{a.step[r * s.heads + h]} + a.bias[h]),
                                       double{s.least_step}, double{s.most_step});
        const double kept = std::exp(a.rate[h] * step);
        for (int64_t j = 0; j < s.head_dim; ++j) {
          double sum = double{a.skip[h]} * value[j];
          for (int64_t i = 0; i < s.state_dim; ++i) {
            float& number = state[j * s.state_dim + i];
            number = static_cast<float>(kept * number + step * value[j] * key[i]);
            sum += double{number} * query[i];
          }
          a.out[r * s.values() + int64_t{h} * s.head_dim + j] = static_cast<float>(sum);
        }
      }
    }
  }

  void row_gate(const RowGateArgs& a) override {
    for (int64_t r = 0; r < a.rows; ++r) {
      double dot = 0;
      for (int64_t i = 0; i < a.dim; ++i) dot += double{a.weight[i]} * a.in[r * a.dim + i];
      const float factor = static_cast<float>(1 / (1 + std::exp(-dot)));
      for (int64_t i = 0; i < a.cols; ++i) a.x[r * a.cols + i] *= factor;
    }
  }

  void experts(const ExpertsArgs& a) override {
    const int64_t dim = a.router.cols, ffn_dim = a.up->view.rows;
    std::vector<float> gate(static_cast<size_t>(ffn_dim)), up(gate.size()),
        y(static_cast<size_t>(dim));
    for (int64_t r = 0; r < a.rows; ++r) {
      const float* in = a.in + r * dim;
      std::vector<double> sum(y.size());
      for (const auto& [e, weight] : a.chosen ? given(a, r) : route(a, r)) {
        const auto bias = [e = e](const float* all, int64_t width) {
          return all ? all + static_cast<int64_t>(e) * width : nullptr;
        };
        if (a.observer) {
          if (a.gate) a.observer->see(a.gate[e], in, 1);
          a.observer->see(a.up[e], in, 1);
        }
        linear({a.up[e].view, bias(a.up_bias, ffn_dim), in, up.data(), 1});
        if (a.gate) {
          linear({a.gate[e].view, bias(a.gate_bias, ffn_dim), in, gate.data(), 1});
          gated_act({gate.data(), up.data(), gate.data(), ffn_dim, a.spec.activation});
        } else {
          activate({up.data(), gate.data(), ffn_dim, a.spec.activation});
        }
        if (a.observer) a.observer->see(a.down[e], gate.data(), 1);
        linear({a.down[e].view, bias(a.down_bias, dim), gate.data(), y.data(), 1});
        const double scaled = weight * (a.expert_scale ? a.expert_scale[e] : 1);
        for (size_t k = 0; k < y.size(); ++k) sum[k] += scaled * y[k];
      }
      std::copy(sum.begin(), sum.end(), a.out + r * dim);
    }
  }

  void add(const AddArgs& a) override {
    for (int64_t i = 0; i < a.count; ++i) a.x[i] = a.keep * a.x[i] + a.scale * a.y[i];
  }

  void cap(const CapArgs& a) override {
    for (int64_t i = 0; i < a.count; ++i) {
      const float x = a.scale * a.x[i];
      a.x[i] = a.softcap == 0 ? x : a.softcap * std::tanh(x / a.softcap);
    }
  }

  uint64_t read_all(std::span<const std::byte> bytes) override {
    uint64_t sum = 0;
    for (std::byte b : bytes) sum += static_cast<uint8_t>(b);
    return sum;
  }

  std::string description() const override { return "reference, 1 thread"; }

 private:
  struct Choice {
    size_t expert;
    double weight;
  };
  static std::vector<Choice> given(const ExpertsArgs& a, int64_t row) {
    std::vector<Choice> choices;
    for (int64_t i = row * a.spec.used; i < (row + 1) * a.spec.used; ++i) {
      if (a.chosen[i] >= 0) choices.push_back({static_cast<size_t>(a.chosen[i]), a.weights[i]});
    }
    return choices;
  }

  // A row's experts, in the order of their numbers.
  std::vector<Choice> route(const ExpertsArgs& a, int64_t row) {
    const size_t count = static_cast<size_t>(a.spec.count), used = static_cast<size_t>(a.spec.used);
    std::vector<float> logits(count);
    std::vector<size_t> order(count);
    linear({a.router, a.router_bias, (a.route ? a.route : a.in) + row * a.router.cols,
            logits.data(), 1});
    for (float& logit : logits) logit *= a.spec.router_scale;
    std::iota(order.begin(), order.end(), size_t{0});
    const bool sigmoid = a.spec.gating == Gating::Sigmoid;
    const double best = *std::max_element(logits.begin(), logits.end());
    // What an expert is chosen by, and its weight before it is divided by the sum.
    std::vector<float> scores = logits;
    for (size_t e = 0; sigmoid && e < count; ++e) {
      scores[e] = 1 / (1 + std::exp(-logits[e])) + (a.choice_bias ? a.choice_bias[e] : 0);
    }
    leave_out_groups(a.spec, scores);
    const auto score = [&](size_t e) { return scores[e]; };
    const auto share = [&](size_t e) {
      return sigmoid ? 1 / (1 + std::exp(-double{logits[e]})) : std::exp(logits[e] - best);
    };
    std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t j) {
      if (std::isnan(score(i)) || std::isnan(score(j))) {
        return !std::isnan(score(i)) && std::isnan(score(j));
      }
      return score(i) > score(j);
    });
    std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(used));
    double total = 0;
    for (size_t i = 0; i < (a.spec.normalized ? used : count); ++i) total += share(order[i]);
    if (sigmoid) total = a.spec.normalized ? total + 1e-20 : 1;
    std::vector<Choice> choices;
    for (size_t i = 0; i < used; ++i) {
      choices.push_back({order[i], a.spec.scale * share(order[i]) / total});
    }
    return choices;
  }

  static float clamped_swiglu(float gate, float up) {
    if (gate > kSwigluLimit) gate = kSwigluLimit;
    up = std::clamp(up, -kSwigluLimit, kSwigluLimit);
    return gate / (1 + std::exp(-kSwigluSlope * gate)) * (up + 1);
  }

  // Not for ClampedSwiglu.
  static float activated(float x, Activation activation) {
    if (activation == Activation::Identity) return x;
    if (activation == Activation::Sigmoid) return 1 / (1 + std::exp(-x));
    if (activation == Activation::SquaredRelu) return x < 0 ? 0 : x * x;
    return activation == Activation::Silu ? x / (1 + std::exp(-x)) : gelu_tanh(x);
  }

  static double softplus(double x) { return x > 20 ? x : std::log1p(std::exp(x)); }

  static void scale_to_one(const float* in, std::vector<double>& out) {
    double squares = kDeltaNormEps;
    for (size_t i = 0; i < out.size(); ++i) squares += double{in[i]} * in[i];
    for (size_t i = 0; i < out.size(); ++i) out[i] = in[i] / std::sqrt(squares);
  }

  static float gelu_tanh(float x) {
    constexpr float kSqrt2OverPi = 0.7978845608028654f;
    return 0.5f * x * (1 + std::tanh(kSqrt2OverPi * (x + 0.044715f * x * x * x)));
  }

  static void load(const AttentionArgs& a, const AttentionRow& row, Half half, int64_t head,
                   int64_t position, std::vector<float>& out) {
    const CacheBytes<std::byte> bytes = cache_bytes(a, row, half, head, position);
    decode_cache(type_of(a.cache, half), {bytes.codes, bytes.scales}, a.spec.head_dim, out.data());
  }

  std::vector<float> weight_row_;
  std::vector<double> probabilities_;
};

}  // namespace

std::unique_ptr<Kernels> reference_kernels(const KernelOptions&) {
  return std::make_unique<ReferenceKernels>();
}

}  // namespace skald::cpu
