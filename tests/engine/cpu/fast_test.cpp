#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "engine/cpu/kernels.h"
#include "tests/catch.h"
#include "tests/engine/cpu/random_weights.h"
#include "tests/engine/cpu/targets.h"

using namespace skald;
using namespace skald::cpu;
using skald::test::for_each_target;
using skald::test::random_floats;
using skald::test::RandomWeights;

namespace {

constexpr float kPoison = -12345.5f;

std::unique_ptr<Kernels> make(int threads, int64_t rows, int64_t cols, bool exact = false) {
  return fast_kernels({exact, threads, rows, cols});
}

std::vector<float> multiply(Kernels& kernels, const TensorView& weight, const float* bias,
                            const float* in, int64_t rows) {
  std::vector<float> out(static_cast<size_t>(rows * weight.rows + 1), kPoison);
  kernels.linear({weight, bias, in, out.data(), rows});
  CHECK(out.back() == kPoison);
  out.pop_back();
  return out;
}

// The norm of (out - w · x - bias), divided by the norm that the products would have with random
// signs.
double product_error(const RandomWeights& w, const std::vector<float>& bias,
                     const std::vector<float>& in, int64_t rows, const std::vector<float>& out) {
  double difference = 0, size = 0;
  const int64_t outs = w.view.rows, cols = w.view.cols;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t o = 0; o < outs; ++o) {
      double sum = bias[static_cast<size_t>(o)];
      for (int64_t i = 0; i < cols; ++i) {
        const double product = double{w.values[static_cast<size_t>(o * cols + i)]} *
                               in[static_cast<size_t>(r * cols + i)];
        sum += product;
        size += product * product;
      }
      const double d = out[static_cast<size_t>(r * outs + o)] - sum;
      difference += d * d;
    }
  }
  return std::sqrt(difference / size);
}

std::vector<int64_t> awkward_cols(const DTypeInfo& format) {
  if (format.block_elems == 1) return {1, 31, 33, 64, 100, 172, 1100};
  if (format.block_elems == 32) return {32, 96, 1056};
  if (format.block_elems == 128) return {128, 384};
  return {256, 768};
}

}  // namespace

TEST_CASE("fast products of every format agree with double precision at awkward sizes") {
  for_each_target([] {
    for (const DTypeInfo& format : all_dtypes()) {
      for (bool exact : {false, true}) {
        for (int64_t cols : awkward_cols(format)) {
          for (int64_t outs : {1, 31, 50}) {
            const auto kernels = make(2, 33, cols, exact);
            const RandomWeights w(format.type, outs, cols, static_cast<uint32_t>(cols + outs));
            const std::vector<float> bias = random_floats(outs, 5);
            for (int64_t rows : {1, 2, 7, 33}) {
              const std::vector<float> in = random_floats(rows * cols, 9);
              const std::vector<float> out =
                  multiply(*kernels, w.view, bias.data(), in.data(), rows);
              INFO(format.name << " exact " << exact << " cols " << cols << " outs " << outs
                               << " rows " << rows);
              // Activations in int8 have steps of 1/127 of a block's largest value, which is about
              // 2 sigma: an error of 0.0055 on average. Single outputs scatter around it.
              const bool int8 = !exact && !has_float_weights(format.type);
              const double bound = 6.5e-3 * (1 + 3 / std::sqrt(static_cast<double>(rows * outs)));
              CHECK(product_error(w, bias, in, rows, out) < (int8 ? bound : 1e-6));
            }
          }
        }
      }
    }
  });
}

TEST_CASE("a row's product has the same bits in any call and with any number of threads") {
  for_each_target([] {
    constexpr int64_t kRows = 512, kOuts = 70;
    for (const DTypeInfo& format : all_dtypes()) {
      for (bool exact : {false, true}) {
        const int64_t cols = format.block_elems == 1 ? 1100 : 1280;
        const RandomWeights w(format.type, kOuts, cols, 3);
        const std::vector<float> in = random_floats(kRows * cols, 4);
        const auto kernels = make(1, kRows, cols, exact);
        const std::vector<float> whole = multiply(*kernels, w.view, nullptr, in.data(), kRows);
        for (int threads : {2, 8}) {
          const auto more = make(threads, kRows, cols, exact);
          INFO(format.name << " exact " << exact << ", " << threads << " threads");
          CHECK(multiply(*more, w.view, nullptr, in.data(), kRows) == whole);
        }
        for (int64_t part : {1, 2, 7, 32}) {
          std::vector<float> parts;
          for (int64_t r = 0; r < 70; r += part) {
            const std::vector<float> some =
                multiply(*kernels, w.view, nullptr, in.data() + r * cols, part);
            parts.insert(parts.end(), some.begin(), some.end());
          }
          INFO(format.name << " exact " << exact << ", " << part << " rows a call");
          CHECK(std::memcmp(parts.data(), whole.data(), parts.size() * sizeof(float)) == 0);
        }
      }
    }
  });
}

TEST_CASE("infinite and NaN activations reach the result of int8 products") {
  for_each_target([] {
    const RandomWeights w(DType::Q8_0, 5, 64, 1);
    const auto kernels = make(1, 3, 64);
    std::vector<float> in = random_floats(3 * 64, 2);
    in[40] = std::numeric_limits<float>::infinity();
    in[64 + 3] = std::numeric_limits<float>::quiet_NaN();
    std::fill(in.begin() + 128, in.end(), 0.0f);
    const std::vector<float> out = multiply(*kernels, w.view, nullptr, in.data(), 3);
    for (size_t i = 0; i < 10; ++i) CHECK_FALSE(std::isfinite(out[i]));
    for (size_t i = 10; i < 15; ++i) CHECK(out[i] == 0);
  });
}

TEST_CASE("the fast norm agrees with double precision to two roundings") {
  for_each_target([] {
    for (int64_t dim : {1, 31, 33, 64, 2048, 16384}) {
      constexpr int64_t kRows = 3;
      const auto kernels = make(2, kRows, dim);
      std::vector<float> in = random_floats(kRows * dim, 1);
      const std::vector<float> weight = random_floats(dim, 2);
      std::vector<float> out(in.size(), kPoison);
      kernels->rms_norm({in.data(), weight.data(), out.data(), kRows, dim, 1e-5f});
      for (int64_t r = 0; r < kRows; ++r) {
        double squares = 0;
        for (int64_t i = 0; i < dim; ++i) squares += std::pow(double{in[r * dim + i]}, 2);
        const double scale = 1 / std::sqrt(squares / static_cast<double>(dim) + double{1e-5f});
        for (int64_t i = 0; i < dim; ++i) {
          const double expected = in[r * dim + i] * scale * weight[i];
          CHECK(std::abs(out[r * dim + i] - expected) <= 3e-7 * std::abs(expected));
        }
      }
      kernels->rms_norm({in.data(), weight.data(), in.data(), kRows, dim, 1e-5f});
      CHECK(in == out);
    }
  });
}

TEST_CASE("fast activation functions are accurate from -100 to 100 and at extremes") {
  for_each_target([] {
    std::vector<float> gate;
    for (int i = -40000; i <= 40000; ++i) gate.push_back(static_cast<float>(i) / 400);
    for (float x : {1e-30f, -1e-30f, 1e5f, -1e5f, -0.0f}) gate.push_back(x);
    const int64_t count = static_cast<int64_t>(gate.size());
    const std::vector<float> up = random_floats(count, 7);
    const auto kernels = make(2, 1, 1);
    std::vector<float> out(gate.size(), kPoison);
    for (Activation activation : {Activation::Silu, Activation::GeluTanh}) {
      kernels->gated_act({gate.data(), up.data(), out.data(), count, activation});
      for (size_t i = 0; i < gate.size(); ++i) {
        const double x = gate[i];
        const double u = 0.7978845608028654 * (x + 0.044715 * x * x * x);
        const double slope = activation == Activation::Silu ? x : 2 * u;
        const double expected = x / (1 + std::exp(-slope)) * up[i];
        // exp magnifies the rounding of its argument: a few units for each unit of |slope|.
        const double bound = (4e-7 + 2e-7 * std::abs(slope)) * std::abs(expected) + 1e-36;
        if (!(std::abs(out[i] - expected) <= bound))
          FAIL("at " << x << ": " << out[i] << ", " << expected);
      }
    }
    std::vector<float> wide = up;
    for (float& x : wide) x *= 20;
    kernels->gated_act({gate.data(), wide.data(), out.data(), count, Activation::ClampedSwiglu});
    for (size_t i = 0; i < gate.size(); ++i) {
      const double x = std::min(double{gate[i]}, 7.0), slope = 1.702 * x;
      const double y = std::clamp(double{wide[i]}, -7.0, 7.0);
      const double expected = x / (1 + std::exp(-double{1.702f} * x)) * (y + 1);
      const double bound = (4e-7 + 2e-7 * std::abs(slope)) * std::abs(expected) +
                           1e-6 * std::abs(x / (1 + std::exp(-slope)));
      if (!(std::abs(out[i] - expected) <= bound + 1e-35))
        FAIL("at " << gate[i] << ", " << wide[i] << ": " << out[i] << ", " << expected);
    }
    const float undefined = std::numeric_limits<float>::quiet_NaN(), one = 1;
    for (Activation activation :
         {Activation::Silu, Activation::GeluTanh, Activation::ClampedSwiglu}) {
      kernels->gated_act({&undefined, &one, out.data(), 1, activation});
      CHECK(std::isnan(out[0]));
      kernels->gated_act({&one, &undefined, out.data(), 1, activation});
      CHECK(std::isnan(out[0]));
    }
  });
}

TEST_CASE("fast soft caps agree with tanh to a few roundings at any size") {
  for_each_target([] {
    std::vector<float> in;
    for (int i = -40000; i <= 40000; ++i) in.push_back(static_cast<float>(i) / 200);
    for (float x : {1e-30f, -1e-30f, 0.0f, 1e30f, -1e30f, 0.625f * 50, 31.24f}) in.push_back(x);
    const int64_t count = static_cast<int64_t>(in.size());
    const auto kernels = make(2, 1, 1);
    for (float scale : {1.0f, 0.1f}) {
      for (float softcap : {50.0f, 0.7f, 0.0f}) {
        std::vector<float> out = in;
        kernels->cap({out.data(), count, scale, softcap});
        for (size_t i = 0; i < in.size(); ++i) {
          const double x = double{scale} * in[i];
          const double expected = softcap == 0 ? x : softcap * std::tanh(x / softcap);
          if (!(std::abs(out[i] - expected) <= 4e-7 * std::abs(expected)))
            FAIL("at " << in[i] << ": " << out[i] << ", " << expected);
        }
      }
    }
    float undefined = std::numeric_limits<float>::quiet_NaN();
    kernels->cap({&undefined, 1, 1, 50});
    CHECK(std::isnan(undefined));
  });
}

TEST_CASE("fast rotations agree with the reference, in both layouts and for partial heads") {
  for_each_target([] {
    constexpr int64_t kRows = 5;
    constexpr int kHeads = 3;
    const std::vector<int64_t> positions = {0, 1, 2, 100, 131071};
    for (int head_dim : {64, 100}) {
      for (size_t pairs : {size_t{32}, size_t{5}, size_t{50}}) {
        if (2 * pairs > static_cast<size_t>(head_dim)) continue;
        for (bool interleaved : {false, true}) {
          RopeSpec spec;
          spec.interleaved = interleaved;
          spec.scale = interleaved ? 1.2f : 1;
          for (size_t i = 0; i < pairs; ++i) {
            spec.inv_freq.push_back(
                std::pow(10000.0f, -static_cast<float>(i) / static_cast<float>(pairs)));
          }
          const std::vector<float> in = random_floats(kRows * kHeads * head_dim, 3);
          const auto kernels = make(2, kRows, 1);
          for (int repeat = 0; repeat < 2; ++repeat) {  // the second time from the cached table
            std::vector<float> x = in, expected = in;
            kernels->rope({x.data(), positions.data(), &spec, kRows, kHeads, head_dim});
            reference_kernels({})->rope(
                {expected.data(), positions.data(), &spec, kRows, kHeads, head_dim});
            CHECK(x == expected);
          }
          std::vector<float> one(in.begin() + 3 * kHeads * head_dim,
                                 in.begin() + 4 * kHeads * head_dim);
          std::vector<float> whole = in;
          kernels->rope({one.data(), &positions[3], &spec, 1, kHeads, head_dim});
          kernels->rope({whole.data(), positions.data(), &spec, kRows, kHeads, head_dim});
          CHECK(std::memcmp(one.data(), &whole[3 * kHeads * head_dim],
                            one.size() * sizeof(float)) == 0);
        }
      }
    }
  });
}

TEST_CASE("fast rotations by several specs in turn use the right table each time") {
  for_each_target([] {
    constexpr int kHeadDim = 64;
    const std::vector<int64_t> positions = {7, 8, 900};
    const auto kernels = make(2, 3, 1);
    std::vector<RopeSpec> specs;
    for (float base : {10.0f, 100.0f, 1e4f, 1e6f, 1e8f}) {
      for (float scale : {1.0f, 1.5f}) {
        RopeSpec& spec = specs.emplace_back();
        spec.scale = scale;
        for (int i = 0; i < 32; ++i) {
          spec.inv_freq.push_back(std::pow(base, -static_cast<float>(i) / 32));
        }
      }
    }
    const std::vector<float> in = random_floats(3 * kHeadDim, 3);
    for (size_t turn : {0, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 9, 1}) {
      std::vector<float> x = in, expected = in;
      kernels->rope({x.data(), positions.data(), &specs[turn], 3, 1, kHeadDim});
      reference_kernels({})->rope(
          {expected.data(), positions.data(), &specs[turn], 3, 1, kHeadDim});
      INFO("spec " << turn);
      CHECK(x == expected);
    }
  });
}

TEST_CASE("fast sums, embeddings and byte sums are exact") {
  for_each_target([] {
    const auto kernels = make(2, 64, 1);
    for (int64_t count : {1, 31, 33, 100000}) {
      std::vector<float> x = random_floats(count, 1), expected = x;
      const std::vector<float> y = random_floats(count, 2);
      kernels->add({x.data(), y.data(), count});
      for (size_t i = 0; i < y.size(); ++i) expected[i] += y[i];
      CHECK(x == expected);
      kernels->add({x.data(), y.data(), count, 0.37f});
      for (size_t i = 0; i < y.size(); ++i) expected[i] += 0.37f * y[i];
      CHECK(x == expected);

      const auto* bytes = reinterpret_cast<const std::byte*>(x.data());
      const size_t size = x.size() * sizeof(float) - 1;
      uint64_t sum = 0;
      for (size_t i = 1; i < size; ++i) sum += static_cast<uint8_t>(bytes[i]);
      CHECK(kernels->read_all({bytes + 1, size - 1}) == sum);
    }
    const RandomWeights w(DType::Q4_K, 40, 512, 8);
    std::vector<int32_t> tokens(64);
    for (int32_t i = 0; i < 64; ++i) tokens[i] = i * 7 % 40;
    std::vector<float> out(64 * 512, kPoison);
    kernels->embed({w.view, tokens.data(), out.data(), 64});
    for (size_t r = 0; r < tokens.size(); ++r) {
      CHECK(std::memcmp(&out[r * 512], &w.values[static_cast<size_t>(tokens[r]) * 512], 512 * 4) ==
            0);
    }
  });
}
