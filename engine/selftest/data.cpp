#include "engine/selftest/data.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "engine/base/error.h"
#include "engine/base/half.h"
#include "engine/selftest/random_blocks.h"

namespace skald::selftest {
namespace {

// Numbers with a nearly normal distribution. The generator is fast because cases need hundreds of
// millions of numbers.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}

  uint64_t bits() {  // splitmix64
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  float normal() {
    const uint64_t b = bits();
    const auto word = [&](int i) { return static_cast<int>(b >> (16 * i) & 0xffff); };
    constexpr float kDeviation =
        37837.2f;  // standard deviation of a sum of four uniform 16-bit numbers
    return static_cast<float>(word(0) + word(1) + word(2) + word(3) - 131070) / kDeviation;
  }
  std::vector<float> normals(int64_t count, float size = 1) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = size * normal();
    return values;
  }
  std::vector<float> normals(int64_t count, DType type) {
    return decode(type, encode(type, normals(count)));
  }

 private:
  uint64_t state_;
};

// The error of `numbers` results after `roundings` successive roundings, each by half a unit on
// average. The term 3 / sqrt(numbers) allows for chance in small cases. `sums` is the error of
// float32 sums.
double rounding_bound(DType type, double roundings, double numbers, double sums) {
  const double each = 0.5 * unit_roundoff(type) * std::sqrt(roundings);
  return sums + each * (1 + 3 / std::sqrt(numbers));
}

// The error of float32 sums of up to about ten thousand products. Matrix units truncate where plain
// loops round, so their bound is larger.
double sums_bound(DType type) { return type == DType::F16 || type == DType::BF16 ? 2e-5 : 3e-6; }

double activate(double x, Activation activation) {
  if (activation == Activation::Silu) return x / (1 + std::exp(-x));
  const double u = 0.7978845608028654 * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1 + std::tanh(u));
}

std::vector<std::byte> random_blocks(DType type, int64_t numbers, uint64_t seed) {
  std::vector<std::byte> bytes(static_cast<size_t>(row_bytes(type, numbers)));
  std::mt19937 random(static_cast<uint32_t>(seed));
  for (size_t at = 0; at < bytes.size(); at += 4) {
    const uint32_t four = random();
    std::memcpy(bytes.data() + at, &four, std::min<size_t>(4, bytes.size() - at));
  }
  const size_t block_bytes = static_cast<size_t>(info(type).block_bytes);
  for (size_t at = 0; at < bytes.size(); at += block_bytes) {
    set_scales(type, bytes.data() + at, random);
  }
  return bytes;
}

void norm_head(double* head, const std::vector<float>& weight) {
  double squares = 0;
  for (size_t i = 0; i < weight.size(); ++i) squares += head[i] * head[i];
  const double scale = 1 / std::sqrt(squares / static_cast<double>(weight.size()) + kNormEps);
  for (size_t i = 0; i < weight.size(); ++i) head[i] *= scale * weight[i];
}

// The norm of a row.
template <class T>
std::vector<double> normed_row(const T* x, const float* weight, size_t count) {
  double squares = 0;
  for (size_t i = 0; i < count; ++i) squares += double{x[i]} * x[i];
  const double scale = 1 / std::sqrt(squares / static_cast<double>(count) + double{kNormEps});
  std::vector<double> result(count);
  for (size_t i = 0; i < count; ++i) result[i] = x[i] * scale * weight[i];
  return result;
}

}  // namespace

// Uses as many partial sums as a compiler keeps in vectors, because half of a self-test's time is
// spent here.
Dot dot(const float* weights, const double* in, size_t count) {
  constexpr size_t kLanes = 16;
  double values[kLanes] = {}, squares[kLanes] = {};
  const auto add = [&](size_t lane, size_t i) {
    const double product = weights[i] * in[i];
    values[lane] += product;
    squares[lane] += product * product;
  };
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) add(lane, i + lane);
  }
  for (; i < count; ++i) add(0, i);
  Dot result;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    result.value += values[lane];
    result.squares += squares[lane];
  }
  return result;
}

double unit_roundoff(DType type) {
  return type == DType::F16 ? 0x1p-11 : type == DType::BF16 ? 0x1p-8 : 0x1p-24;
}

std::vector<std::byte> encode(DType type, std::span<const float> values) {
  check(info(type).block_elems == 1, "only plain numbers are encoded here");
  const size_t size = static_cast<size_t>(info(type).block_bytes);
  std::vector<std::byte> bytes(values.size() * size);
  for (size_t i = 0; i < values.size(); ++i) {
    if (type == DType::F32) {
      std::memcpy(bytes.data() + i * size, &values[i], size);
    } else {
      const uint16_t half = type == DType::F16 ? f32_to_f16(values[i]) : f32_to_bf16(values[i]);
      std::memcpy(bytes.data() + i * size, &half, size);
    }
  }
  return bytes;
}

std::vector<float> decode(DType type, std::span<const std::byte> bytes) {
  const int64_t count = static_cast<int64_t>(bytes.size()) / info(type).block_bytes;
  std::vector<float> values(static_cast<size_t>(count));
  if (count > 0) info(type).decode_row(bytes.data(), values.data(), count);
  return values;
}

double Expected::error(std::span<const float> got) const {
  check(got.size() == values.size(), "a result has the expected shape");
  double difference = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double d = got[i] - values[i];
    difference += d * d;
  }
  const double error = std::sqrt(difference) / size;
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

ProductData make_data(const ProductCase& c, uint64_t seed) {
  Random random(seed);
  ProductData data;
  const size_t outs = static_cast<size_t>(c.outs), ins = static_cast<size_t>(c.ins);
  const size_t rows = static_cast<size_t>(c.rows);
  const bool blocks = info(c.type).block_elems > 1;
  const float size = 1.3f / std::sqrt(static_cast<float>(c.ins));
  data.weight_bytes = blocks ? random_blocks(c.type, c.outs * c.ins, random.bits())
                             : encode(c.type, random.normals(c.outs * c.ins, size));
  data.weight = {data.weight_bytes.data(), c.type, c.outs, c.ins, row_bytes(c.type, c.ins)};
  data.norm_weight = random.normals(c.ins);
  const int64_t count = c.rows * c.ins;
  data.in = c.norm ? random.normals(count, 3) : random.normals(count, c.in_type());
  data.bias = c.bias ? random.normals(c.outs) : std::vector<float>(outs);
  if (c.ending == Ending::Add) data.residual = random.normals(c.rows * c.outs);

  std::vector<double> in(data.in.begin(), data.in.end());
  for (size_t r = 0; r < rows && c.norm; ++r) {
    double squares = 0;
    for (size_t i = 0; i < ins; ++i) squares += in[r * ins + i] * in[r * ins + i];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(ins) + double{kNormEps});
    for (size_t i = 0; i < ins; ++i) in[r * ins + i] *= scale * data.norm_weight[i];
  }
  std::vector<float> weight_row(ins);
  std::vector<Dot> sums(rows * outs);
  for (size_t o = 0; o < outs; ++o) {
    info(c.type).decode_row(data.weight.row(static_cast<int64_t>(o)), weight_row.data(), c.ins);
    for (size_t r = 0; r < rows; ++r) {
      const double bias = data.bias[o];
      const Dot products = dot(weight_row.data(), in.data() + r * ins, ins);
      sums[r * outs + o] = {bias + products.value, bias * bias + products.squares};
    }
  }

  double squares = 0, fourth_powers = 0;
  const auto add = [&](double value, double square) {
    data.expected.values.push_back(value);
    squares += square;
    fourth_powers += square * square;
  };
  const bool gated = c.ending == Ending::Gated;
  for (size_t i = 0; i < sums.size(); i += gated ? 2 : 1) {
    if (gated) {
      const double value = activate(sums[i].value, c.activation) * sums[i + 1].value;
      add(value, std::max(value * value, sums[i].squares * sums[i + 1].squares / 4));
    } else if (c.ending == Ending::Activated) {
      const double value = activate(sums[i].value, c.activation);
      add(value, std::max(value * value, sums[i].squares / 4));
    } else {
      const double before = c.ending == Ending::Add ? data.residual[i] : 0;
      add(before + c.scale * sums[i].value, before * before + c.scale * c.scale * sums[i].squares);
    }
  }
  data.expected.size = std::sqrt(squares);
  // Products may be rounded before they are activated, and the activation's slope may be steep.
  const bool activated = gated || c.ending == Ending::Activated;
  const bool rounded = c.ending == Ending::Store || activated;
  const double roundings =
      (c.norm ? 1 : 0) + (rounded ? 1 : 0) + (c.bias && rounded ? 1 : 0) + (activated ? 4 : 0);
  // The number of independent errors of normed activations, which all results share. The weights of
  // a block may share an offset, so the errors of a block's activations count as one.
  const double normed = static_cast<double>(c.ins * c.rows) / info(c.type).block_elems;
  // The effective number of results. It is below their count, because a row whose blocks have large
  // scales contributes more than other rows.
  const double alike = squares * squares / fourth_powers;
  const double numbers = std::min(alike, c.norm ? normed : 1e9);
  data.expected.bound = rounding_bound(c.in_type(), roundings, numbers, sums_bound(c.in_type()));
  return data;
}

AttentionData make_data(const AttentionCase& c, uint64_t seed) {
  Random random(seed);
  const AttentionSpec& s = c.spec;
  const size_t dim = static_cast<size_t>(s.head_dim), heads = static_cast<size_t>(s.heads);
  const size_t kv_heads = static_cast<size_t>(s.kv_heads), all = heads + 2 * kv_heads;
  AttentionData data;
  for (int i = 0; i < c.rope_pairs; ++i) {
    data.inv_freq.push_back(
        std::pow(10000.0f, -static_cast<float>(i) / static_cast<float>(c.rope_pairs)));
  }
  data.qkv = random.normals(int64_t{c.rows()} * static_cast<int64_t>(all * dim), c.type);
  if (c.head_norm) {
    // Keeps scores below a few units, because the effect of rounded scores on the probabilities
    // grows with the scores.
    data.q_norm = random.normals(s.head_dim, 0.7f);
    data.k_norm = random.normals(s.head_dim, 0.7f);
  }
  if (c.sinks) {
    // From far below a row's scores to above them.
    data.sinks = random.normals(s.heads, 2.0f);
  }
  for (auto at = data.qkv.begin(); c.values_are_keys && at != data.qkv.end();) {
    const auto keys = at + s.heads * s.head_dim, values = keys + s.kv_heads * s.head_dim;
    at = std::copy(keys, values, values);
  }
  std::vector<double> rotated(data.qkv.begin(), data.qkv.end());
  const std::vector<float> ones(dim, 1);

  size_t row = 0;
  double out_squares = 0, key_squares = 0, value_squares = 0;
  std::vector<double> scores, sum(dim);
  for (const Part& part : c.parts) {
    const int64_t past = int64_t{c.cached(part)} * s.kv_heads * s.head_dim;
    const std::vector<float>& keys = data.keys.emplace_back(random.normals(past, c.type));
    const std::vector<float>& values =
        data.values.emplace_back(s.keys_serve ? keys : random.normals(past, c.type));
    const size_t first_row = row, before = static_cast<size_t>(part.before);
    const size_t cached = static_cast<size_t>(c.cached(part));
    for (int r = 0; r < part.rows; ++r, ++row) {
      const size_t position = before + static_cast<size_t>(r);
      double* q = rotated.data() + row * all * dim;
      for (size_t h = 0; h < heads + kv_heads; ++h) {
        const auto norm = [&] {
          if (c.head_norm) norm_head(q + h * dim, h < heads ? data.q_norm : data.k_norm);
        };
        if (!c.norm_after_rope) norm();
        for (size_t i = 0; i < data.inv_freq.size(); ++i) {
          // The product is float32, as in Hugging Face.
          const double angle = static_cast<float>(position) * data.inv_freq[i];
          double& x = q[h * dim + (c.interleaved ? 2 * i : i)];
          double& y = q[h * dim + (c.interleaved ? 2 * i + 1 : i + data.inv_freq.size())];
          const double turned = x * std::cos(angle) - y * std::sin(angle);
          y = (y * std::cos(angle) + x * std::sin(angle)) * c.rope_scale;
          x = turned * c.rope_scale;
        }
        if (c.norm_after_rope) norm();
      }
      for (size_t h = heads + kv_heads; h < all && c.v_norm; ++h) norm_head(q + h * dim, ones);
      for (size_t i = heads * dim; i < all * dim && !c.reads; ++i) {
        const bool key = i < (heads + kv_heads) * dim;
        if (!key && s.keys_serve) break;
        (key ? data.new_keys : data.new_values).values.push_back(q[i]);
        (key ? key_squares : value_squares) += q[i] * q[i];
      }
      const size_t seen = s.window > 0 ? static_cast<size_t>(s.window) : position + 1;
      const size_t first = position + 1 > seen ? position + 1 - seen : 0;
      scores.resize(position + 1);
      for (size_t h = 0; h < heads; ++h) {
        const size_t kv = h / (heads / kv_heads);
        double best = c.sinks ? data.sinks[h] : -INFINITY;
        for (size_t t = first; t <= position; ++t) {
          double score = 0;
          if (t < cached) {
            const float* key = keys.data() + (t * kv_heads + kv) * dim;
            for (size_t i = 0; i < dim; ++i) score += q[h * dim + i] * key[i];
          } else {
            const double* key =
                rotated.data() + ((first_row + t - before) * all + heads + kv) * dim;
            for (size_t i = 0; i < dim; ++i) score += q[h * dim + i] * key[i];
          }
          scores[t] = score * s.scale * s.growth.at(static_cast<int64_t>(position));
          if (s.softcap != 0) scores[t] = s.softcap * std::tanh(scores[t] / s.softcap);
          best = std::max(best, scores[t]);
        }
        double total = c.sinks ? std::exp(data.sinks[h] - best) : 0;
        std::fill(sum.begin(), sum.end(), 0);
        for (size_t t = first; t <= position; ++t) {
          const double weight = std::exp(scores[t] - best);
          total += weight;
          if (t < cached) {
            const float* value = values.data() + (t * kv_heads + kv) * dim;
            for (size_t i = 0; i < dim; ++i) sum[i] += weight * value[i];
          } else {
            const size_t place = heads + (s.keys_serve ? 0 : kv_heads) + kv;
            const double* value = rotated.data() + ((first_row + t - before) * all + place) * dim;
            for (size_t i = 0; i < dim; ++i) sum[i] += weight * value[i];
          }
        }
        for (size_t i = 0; i < dim; ++i) {
          data.out.values.push_back(sum[i] / total);
          out_squares += data.out.values.back() * data.out.values.back();
        }
      }
    }
  }
  data.out.size = std::sqrt(out_squares);
  data.new_keys.size = std::sqrt(key_squares);
  data.new_values.size = std::sqrt(value_squares);
  const double count = static_cast<double>(data.out.values.size());
  // Four roundings. Those of probabilities and of the result differ from number to number, and so
  // do those of normed values. Those of rotated queries and keys change scores, and so all numbers
  // of a head together.
  const double by_number = rounding_bound(c.type, c.v_norm ? 3 : 2, count, 0);
  const double by_head = rounding_bound(c.type, 2, count / s.head_dim, 0);
  data.out.bound = 4e-6 + std::hypot(by_number, by_head);
  const double rounded = rounding_bound(c.type, 1, static_cast<double>(data.new_keys.values.size()),
                                        c.head_norm ? 1e-6 : 4e-7);
  // A norm moves the numbers of a head together, towards a power of two or away from it. So the
  // mean rounding differs from head to head, and a single head shows the whole difference.
  data.new_keys.bound = c.head_norm ? 1.5 * rounded : rounded;
  data.new_values.bound = c.v_norm ? 1.5 * rounded : 0;
  return data;
}

PointwiseData make_data(const PointwiseCase& c, uint64_t seed) {
  Random random(seed);
  PointwiseData data;
  const size_t cols = static_cast<size_t>(c.cols), rows = static_cast<size_t>(c.rows);
  const bool picks =
      c.op == Pointwise::Embed || c.op == Pointwise::Gather || c.op == Pointwise::ScaledEmbed;
  const bool gate = c.op == Pointwise::Gate;
  const int64_t in_rows = picks ? PointwiseData::kVocab : c.rows;
  const bool biased = c.op == Pointwise::BiasedLayerNorm;
  const bool layer = c.op == Pointwise::LayerNorm || biased;
  const bool two = c.op == Pointwise::SumOfNorms;
  const bool part = c.op == Pointwise::GatedPart || c.op == Pointwise::CopyPart;
  const bool floats = c.op == Pointwise::Norm || c.op == Pointwise::PostNorm || layer || two;
  const DType in_type = floats ? DType::F32 : c.type;
  data.in = random.normals(in_rows * c.cols * (gate || two ? 2 : 1), in_type);
  const int64_t weight_rows = c.op == Pointwise::ScaledAdd ? c.rows
                              : part                       ? 2 * c.rows
                              : two                        ? 3
                              : gate                       ? 2
                                                           : 1;
  data.weight = random.normals(weight_rows * c.cols);
  if (c.op == Pointwise::PostNorm || two) data.residual = random.normals(c.rows * c.cols);
  if (biased) data.bias = random.normals(c.cols);
  for (float& x : data.in) x += layer ? 3 : 0;  // so that the mean counts
  const bool gates_rows = c.op == Pointwise::RowGate;
  for (float& x : data.weight) {  // so that factors are neither 0 nor 1
    if (gates_rows) x /= std::sqrt(static_cast<float>(cols));
  }
  data.activation = random.bits() % 2 == 0 ? Activation::Silu : Activation::GeluTanh;
  for (int r = 0; r < c.rows; ++r) {
    data.picked.push_back(static_cast<int32_t>(random.bits() % PointwiseData::kVocab));
  }
  double squares = 0;
  for (size_t r = 0; r < rows; ++r) {
    double scale = 0, mean = 0;
    for (size_t i = 0; i < cols && layer; ++i) mean += data.in[r * cols + i];
    mean /= static_cast<double>(cols);
    for (size_t i = 0; i < cols; ++i) scale += std::pow(data.in[r * cols + i] - mean, 2);
    double dot = 0;
    for (size_t i = 0; i < cols && gates_rows; ++i) {
      dot += double{data.weight[i]} * data.in[r * cols + i];
    }
    scale = 1 / std::sqrt(scale / static_cast<double>(cols) + double{kNormEps});
    std::vector<double> sum;
    if (two) {
      const float *a = data.in.data() + r * cols, *weight = data.weight.data();
      sum = normed_row(a, weight, cols);
      const std::vector<double> b = normed_row(a + rows * cols, weight + cols, cols);
      for (size_t i = 0; i < cols; ++i) sum[i] += b[i];
      sum = normed_row(sum.data(), weight + 2 * cols, cols);
    }
    for (size_t i = 0; i < cols; ++i) {
      const size_t at = r * cols + i;
      const auto value = [&]() -> double {
        switch (c.op) {
          case Pointwise::Embed:
          case Pointwise::Gather:
            return data.in[static_cast<size_t>(data.picked[r]) * cols + i];
          case Pointwise::Norm:
          case Pointwise::QkNorm:
            return data.in[at] * scale * data.weight[i];
          case Pointwise::LayerNorm:
            return (data.in[at] - mean) * scale * data.weight[i];
          case Pointwise::BiasedLayerNorm:
            return (data.in[at] - mean) * scale * data.weight[i] + data.bias[i];
          case Pointwise::PostNorm:
            return double{kKeep} * data.residual[at] +
                   double{kScale} * data.in[at] * scale * data.weight[i];
          case Pointwise::Gate:
            return activate(double{data.in[2 * at]} + data.weight[2 * i], data.activation) *
                   (double{data.in[2 * at + 1]} + data.weight[2 * i + 1]);
          case Pointwise::SumOfNorms:
            return double{kKeep} * data.residual[at] + double{kScale} * sum[i];
          case Pointwise::GatedPart:
            return activate(double{data.in[at]}, data.activation) *
                   data.weight[r * 2 * cols + cols / 2 + i];
          case Pointwise::CopyPart:
            return data.weight[r * 2 * cols + cols / 2 + i];
          case Pointwise::RowGate:
            return data.in[at] / (1 + std::exp(-dot));
          case Pointwise::AddBias:
            return double{data.in[at]} + data.weight[i];
          case Pointwise::ScaledEmbed:
            return double{kScale} * data.in[static_cast<size_t>(data.picked[r]) * cols + i];
          case Pointwise::ScaledAdd:
            return data.in[at] + double{kScale} * data.weight[at];
          case Pointwise::Cap:
            return kSoftcap * std::tanh(double{kScale} * data.in[at] / kSoftcap);
        }
        return 0;
      };
      data.expected.values.push_back(value());
      squares += data.expected.values.back() * data.expected.values.back();
    }
  }
  data.expected.size = std::sqrt(squares);
  const double count = static_cast<double>(data.expected.values.size());
  const bool exact = c.op == Pointwise::Embed || c.op == Pointwise::Gather;
  const DType out_type = c.op == Pointwise::PostNorm ? DType::F32 : c.type;
  data.expected.bound = exact ? 0 : rounding_bound(out_type, 1, count, 2e-6);
  return data;
}

}  // namespace skald::selftest
