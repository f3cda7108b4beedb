#include "engine/selftest/cpu.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/base/error.h"
#include "engine/cpu/kernels.h"
#include "engine/memory/kv_pages.h"
#include "engine/quant/cache_row.h"
#include "engine/selftest/data.h"
#include "engine/selftest/scores.h"
#include "engine/selftest/spaces.h"
#include "engine/selftest/states.h"

namespace skald::selftest {
namespace {

constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();
constexpr size_t kGuard = 64;  // poisoned numbers after an output; they must stay unchanged

std::vector<float> poisoned(int64_t count) {
  return std::vector<float>(static_cast<size_t>(count) + kGuard, kPoison);
}

// Removes the guard. Returns false if a kernel wrote to it.
bool take_guard(std::vector<float>& values) {
  bool untouched = true;
  for (size_t i = values.size() - kGuard; i < values.size(); ++i) {
    untouched = untouched && std::isnan(values[i]);
  }
  values.resize(values.size() - kGuard);
  return untouched;
}

class CpuTest {
 public:
  CpuTest(cpu::KernelSet set, int threads, Report& report) : report_(report) {
    constexpr int64_t kMostRows = 130, kMostCols = 16384;
    const cpu::KernelOptions options{false, threads, kMostRows, kMostCols};
    kernels_ =
        set == cpu::KernelSet::Fast ? cpu::fast_kernels(options) : cpu::reference_kernels(options);
    fast_ = set == cpu::KernelSet::Fast;
    name_ = fast_ ? "fast" : "reference";
  }

  void run(const ProductCase& c, uint64_t seed) {
    ProductData data = make_data(c, seed);
    std::vector<float> normed = data.in;
    if (c.norm) {
      kernels_->rms_norm(
          {data.in.data(), data.norm_weight.data(), normed.data(), c.rows, c.ins, kNormEps});
    }
    std::vector<float> out = poisoned(c.rows * c.outs);
    kernels_->linear(
        {data.weight, c.bias ? data.bias.data() : nullptr, normed.data(), out.data(), c.rows});
    const bool untouched = take_guard(out);
    if (c.ending == Ending::Gated) {
      std::vector<float> gate, up;
      for (size_t i = 0; i < out.size(); i += 2) gate.push_back(out[i]), up.push_back(out[i + 1]);
      out.resize(gate.size());
      kernels_->gated_act(
          {gate.data(), up.data(), out.data(), static_cast<int64_t>(gate.size()), c.activation});
    } else if (c.ending == Ending::Activated) {
      kernels_->activate({out.data(), out.data(), static_cast<int64_t>(out.size()), c.activation});
    } else if (c.ending == Ending::Add) {
      std::vector<float> x = data.residual;
      kernels_->add({x.data(), out.data(), static_cast<int64_t>(x.size()), c.scale});
      out = std::move(x);
    }
    // Activations are float32 for any weights, but for block formats the fast kernels round them to
    // int8. The rounding step is 1/127 of a block's maximum, which gives a mean relative error of
    // 0.0055.
    const bool int8 = fast_ && !has_float_weights(c.type);
    const double numbers = static_cast<double>(c.rows * std::min(c.outs, c.ins / 8));
    const double int8_bound = 8e-3 * (1 + 4 / std::sqrt(std::max(1.0, numbers)));
    add(Sort::Product, c, c.type, data.expected.error(out), int8 ? int8_bound : 3e-6, untouched);
  }

  void run(const AttentionCase& c, uint64_t seed) {
    if (c.type == DType::BF16) return;  // caches are float32 or float16
    if (c.spec.keys_serve) return;      // the CPU's cache has both
    const AttentionData data = make_data(c, seed);
    const AttentionSpec& s = c.spec;
    const int64_t element = c.type == DType::F16 ? 2 : 4, slot = int64_t{kPageTokens} * s.head_dim;
    int64_t pages = 1;  // page 0 belongs to no sequence
    std::vector<std::vector<int32_t>> tables;
    for (const Part& part : c.parts) {
      tables.emplace_back();
      for (int64_t i = 0; i < pages_for(part.before + part.rows); ++i) {
        tables.back().push_back(static_cast<int32_t>(pages++));
      }
    }
    const int64_t page_bytes = 2 * s.kv_heads * slot * element;
    std::vector<std::byte> cache(static_cast<size_t>(pages * page_bytes), std::byte{0xff});
    const auto place = [&](const std::vector<int32_t>& table, int64_t token, int64_t head) {
      return cache.data() + table[static_cast<size_t>(token / kPageTokens)] * page_bytes +
             (head * slot + token % kPageTokens * s.head_dim) * element;
    };
    const size_t dim = static_cast<size_t>(s.head_dim);
    for (size_t p = 0; p < c.parts.size(); ++p) {
      for (int64_t t = 0; t < c.cached(c.parts[p]); ++t) {
        for (int64_t h = 0; h < 2 * s.kv_heads; ++h) {
          const auto& from = h < s.kv_heads ? data.keys[p] : data.values[p];
          const size_t at = static_cast<size_t>(t * s.kv_heads + h % s.kv_heads) * dim;
          const auto bytes = encode(c.type, std::span(from).subspan(at, dim));
          std::memcpy(place(tables[p], t, h), bytes.data(), bytes.size());
        }
      }
    }
    std::vector<float> q, k, v;
    std::vector<int64_t> positions;
    std::vector<cpu::AttentionRow> rows;
    const size_t heads = static_cast<size_t>(s.heads), kv = static_cast<size_t>(s.kv_heads);
    const float* row = data.qkv.data();
    for (size_t p = 0; p < c.parts.size(); ++p) {
      for (int r = 0; r < c.parts[p].rows; ++r, row += (heads + 2 * kv) * dim) {
        positions.push_back(c.parts[p].before + r);
        rows.push_back({tables[p], positions.back()});
        q.insert(q.end(), row, row + heads * dim);
        k.insert(k.end(), row + heads * dim, row + (heads + kv) * dim);
        v.insert(v.end(), row + (heads + kv) * dim, row + (heads + 2 * kv) * dim);
      }
    }
    const auto norm = [&] {
      kernels_->rms_norm({q.data(), data.q_norm.data(), q.data(), int64_t{c.rows()} * s.heads,
                          s.head_dim, kNormEps});
      kernels_->rms_norm({k.data(), data.k_norm.data(), k.data(), int64_t{c.rows()} * s.kv_heads,
                          s.head_dim, kNormEps});
    };
    if (c.head_norm && !c.norm_after_rope) norm();
    if (c.v_norm) {
      kernels_->rms_norm(
          {v.data(), nullptr, v.data(), int64_t{c.rows()} * s.kv_heads, s.head_dim, kNormEps});
    }
    const RopeSpec rope{data.inv_freq, c.interleaved, c.rope_scale};
    if (c.rope_pairs > 0) {
      kernels_->rope({q.data(), positions.data(), &rope, c.rows(), s.heads, s.head_dim});
      kernels_->rope({k.data(), positions.data(), &rope, c.rows(), s.kv_heads, s.head_dim});
    }
    if (c.head_norm && c.norm_after_rope) norm();
    std::vector<float> out = poisoned(int64_t{c.rows()} * s.heads * s.head_dim);
    kernels_->attention({q.data(),
                         c.reads ? nullptr : k.data(),
                         c.reads ? nullptr : v.data(),
                         out.data(),
                         rows.data(),
                         c.rows(),
                         {cache.data(), page_bytes, cache_types_of(c.type)},
                         s,
                         c.sinks ? data.sinks.data() : nullptr});
    const bool untouched = take_guard(out);
    add(Sort::Attention, c, c.type, data.out.error(out), data.out.bound, untouched);
  }

  void run(const PointwiseCase& c, uint64_t seed) {
    // On the CPU these are parts of other ops
    if (c.op == Pointwise::AddBias || c.op == Pointwise::Gather || c.op == Pointwise::CopyPart) {
      return;
    }
    const PointwiseData data = make_data(c, seed);
    std::vector<float> out = poisoned(c.rows * c.cols);
    const bool in_place = c.op == Pointwise::ScaledAdd || c.op == Pointwise::Cap ||
                          c.op == Pointwise::PostNorm || c.op == Pointwise::QkNorm ||
                          c.op == Pointwise::RowGate;
    const int64_t count = c.rows * c.cols;
    if (in_place) std::copy(data.in.begin(), data.in.end(), out.begin());
    if (c.op == Pointwise::Embed || c.op == Pointwise::ScaledEmbed) {
      const auto bytes = encode(c.type, data.in);
      const TensorView view{bytes.data(), c.type, PointwiseData::kVocab, c.cols,
                            row_bytes(c.type, c.cols)};
      const float scale = c.op == Pointwise::Embed ? 1 : kScale;
      kernels_->embed({view, data.picked.data(), out.data(), c.rows, scale});
    } else if (c.op == Pointwise::ScaledAdd) {
      kernels_->add({out.data(), data.weight.data(), c.rows * c.cols, kScale});
    } else if (c.op == Pointwise::RowGate) {
      kernels_->row_gate({out.data(), data.in.data(), data.weight.data(), c.rows, c.cols, c.cols});
    } else if (c.op == Pointwise::Cap) {
      kernels_->cap({out.data(), c.rows * c.cols, kScale, kSoftcap});
    } else if (c.op == Pointwise::QkNorm) {
      kernels_->rms_norm({out.data(), data.weight.data(), out.data(), c.rows, c.cols, kNormEps});
    } else if (c.op == Pointwise::PostNorm) {
      std::vector<float> normed = data.in;
      kernels_->rms_norm(
          {data.in.data(), data.weight.data(), normed.data(), c.rows, c.cols, kNormEps});
      std::copy(data.residual.begin(), data.residual.end(), out.begin());
      kernels_->add({out.data(), normed.data(), c.rows * c.cols, kScale, kKeep});
    } else if (c.op == Pointwise::SumOfNorms) {
      std::vector<float> both = data.in;
      float *a = both.data(), *b = a + count;
      const float* weight = data.weight.data();
      kernels_->rms_norm({a, weight, a, c.rows, c.cols, kNormEps});
      kernels_->rms_norm({b, weight + c.cols, b, c.rows, c.cols, kNormEps});
      kernels_->add({a, b, count});
      kernels_->rms_norm({a, weight + 2 * c.cols, a, c.rows, c.cols, kNormEps});
      std::copy(data.residual.begin(), data.residual.end(), out.begin());
      kernels_->add({out.data(), a, count, kScale, kKeep});
    } else if (c.op == Pointwise::GatedPart) {
      std::vector<float> up;
      for (int64_t r = 0; r < c.rows; ++r) {
        const auto first = data.weight.begin() + r * 2 * c.cols + c.cols / 2;
        up.insert(up.end(), first, first + c.cols);
      }
      kernels_->gated_act({data.in.data(), up.data(), out.data(), count, data.activation});
    } else if (c.op == Pointwise::LayerNorm || c.op == Pointwise::BiasedLayerNorm) {
      kernels_->layer_norm({data.in.data(), data.weight.data(),
                            data.bias.empty() ? nullptr : data.bias.data(), out.data(), c.rows,
                            c.cols, kNormEps});
    } else if (c.op == Pointwise::Norm) {
      kernels_->rms_norm(
          {data.in.data(), data.weight.data(), out.data(), c.rows, c.cols, kNormEps});
    } else {
      std::vector<float> gate, up;
      for (size_t i = 0; i < data.in.size(); i += 2) {
        const size_t at = i % data.weight.size();
        gate.push_back(data.in[i] + data.weight[at]);
        up.push_back(data.in[i + 1] + data.weight[at + 1]);
      }
      kernels_->gated_act({gate.data(), up.data(), out.data(), c.rows * c.cols, data.activation});
    }
    const bool untouched = take_guard(out);
    const double bound = c.op == Pointwise::Embed ? 0 : 2e-6;
    add(Sort::Pointwise, c, c.type, data.expected.error(out), bound, untouched);
  }

  void run(const DeltaCase& c, uint64_t seed) {
    if (c.type != DType::F32) return;  // activations are float32
    const DeltaData data = make_data(c, seed);
    const DeltaSpec& s = c.spec;
    StateRows states(c, data);
    std::vector<float> out = poisoned(c.rows() * s.values());
    const Convolved convolved = convolve(c, data, states, nullptr);
    const std::vector<float> rate = rates(c, data);
    kernels_->delta_net({convolved.rows.data(), data.decay.data(), data.beta.data(), rate.data(),
                         data.bias.data(), out.data(), states.matrix.data(), c.rows(), s});
    const bool untouched = take_guard(out) && convolved.untouched;
    kernels_->rms_norm({out.data(), data.norm.data(), out.data(), int64_t{c.rows()} * s.value_heads,
                        s.value_dim, kNormEps});
    kernels_->gated_act(
        {data.gate.data(), out.data(), out.data(), c.rows() * s.values(), Activation::Silu});
    add_states(c, data, states, out, untouched);
  }

  void run(const SpaceCase& c, uint64_t seed) {
    if (c.type != DType::F32) return;
    const SpaceData data = make_data(c, seed);
    const SpaceSpec& s = c.spec;
    StateRows states(c, data);
    std::vector<float> out = poisoned(c.rows() * s.values());
    const Convolved convolved =
        convolve(c, data, states, c.biased ? data.conv_bias.data() : nullptr);
    const std::vector<float> rate = rates(c, data);
    kernels_->state_space({convolved.rows.data(), data.step.data(), rate.data(), data.bias.data(),
                           data.skip.data(), out.data(), states.matrix.data(), c.rows(), s});
    const bool untouched = take_guard(out) && convolved.untouched;
    kernels_->gated_act(
        {data.gate.data(), out.data(), out.data(), c.rows() * s.values(), Activation::Silu});
    kernels_->rms_norm({out.data(), data.norm.data(), out.data(), c.rows() * int64_t{s.groups},
                        s.values() / s.groups, kNormEps, s.groups});
    add_states(c, data, states, out, untouched);
  }

  // Scoring is the same code for any set of kernels.
  void run(const ScoreCase& c, uint64_t seed) {
    const ScoreData data = make_data(c, seed);
    std::vector<RowComparison> found;
    const auto vocab = static_cast<size_t>(c.vocab);
    for (size_t r = 0; r < data.targets.size(); ++r) {
      found.push_back(compare_rows(std::span(data.logits).subspan(r * vocab, vocab),
                                   std::span(data.base).subspan(r * vocab, vocab),
                                   data.targets[r]));
    }
    const ScoreCheck result = check_scores(data, found);
    report_.add(Sort::Score, c,
                {"score", DType::F32, result.error, kScoreBound, true, result.problem});
  }

 private:
  // The states of a case's sequences, and where each row finds its sequence's.
  struct StateRows {
    template <class Case, class Data>
    StateRows(const Case& c, const Data& data) : states(data.inputs) {
      const int64_t inputs = (c.taps - 1) * c.conv_cols();
      for (size_t p = 0; p < c.parts.size(); ++p) {
        std::vector<float>& state = states[p];
        state.insert(state.end(), data.matrices[p].begin(), data.matrices[p].end());
        for (int r = 0; r < c.parts[p].rows; ++r) {
          ring.push_back({state.data(), c.parts[p].before + r});
          matrix.push_back({state.data() + inputs, c.parts[p].before + r});
        }
      }
    }

    std::vector<std::vector<float>> states;  // the convolution's inputs, then the matrices
    std::vector<cpu::StateRow> ring, matrix;
  };

  struct Convolved {
    std::vector<float> rows;
    bool untouched;  // nothing was written beyond the rows
  };
  template <class Case, class Data>
  Convolved convolve(const Case& c, const Data& data, StateRows& states, const float* bias) {
    std::vector<float> convolved = poisoned(c.rows() * c.conv_cols());
    kernels_->causal_conv({data.mixed.data(), data.conv.data(), convolved.data(),
                           states.ring.data(), c.rows(), c.conv_cols(), c.taps, Activation::Silu,
                           bias});
    const bool untouched = take_guard(convolved);
    return {std::move(convolved), untouched};
  }

  template <class Case, class Data>
  static std::vector<float> rates(const Case& c, const Data& data) {
    std::vector<float> rate = data.rate;
    if (c.log_rate) {
      for (float& x : rate) x = -std::exp(x);
    }
    return rate;
  }

  template <class Case, class Data>
  void add_states(const Case& c, const Data& data, StateRows& rows, const std::vector<float>& out,
                  bool untouched) {
    const int64_t inputs = (c.taps - 1) * c.conv_cols();
    std::vector<float> matrices;
    bool inputs_right = true;
    for (size_t p = 0; p < rows.states.size(); ++p) {
      std::vector<float>& state = rows.states[p];
      matrices.insert(matrices.end(), state.begin() + inputs, state.end());
      state.resize(static_cast<size_t>(inputs));
      inputs_right &= state == data.inputs_after[p];
    }
    add(Sort::State, c, c.type, data.out.error(out), data.out.bound, untouched);
    add(Sort::State, c, c.type, data.learned.error(matrices),
        inputs_right ? data.learned.bound : -1, true);
  }

  template <class Case>
  void add(Sort sort, const Case& c, DType type, double error, double bound, bool untouched) {
    report_.add(sort, c,
                {name_, type, error, bound, true, untouched ? "" : "wrote beyond its output"});
  }

  std::unique_ptr<cpu::Kernels> kernels_;
  std::string_view name_;
  bool fast_ = false;
  Report& report_;
};

}  // namespace

void test_cpu(const Request& request, cpu::KernelSet kernels, int threads, Report& report) {
  CpuTest test(kernels, threads, report);
  uint64_t seed = request.seed << 32;
  if (request.products) {
    for (const ProductCase& c : product_cases(request.extent)) test.run(c, ++seed);
    for (const ProductCase& c : block_product_cases(request.extent)) test.run(c, ++seed);
  }
  if (request.attention) {
    for (const AttentionCase& c : attention_cases(request.extent)) test.run(c, ++seed);
  }
  if (request.pointwise) {
    for (const PointwiseCase& c : pointwise_cases(request.extent)) test.run(c, ++seed);
  }
  if (request.states) {
    for (const DeltaCase& c : delta_cases(request.extent)) test.run(c, ++seed);
    for (const SpaceCase& c : space_cases(request.extent)) test.run(c, ++seed);
  }
  if (request.scores) {
    for (const ScoreCase& c : score_cases(request.extent)) test.run(c, ++seed);
  }
}

}  // namespace skald::selftest
