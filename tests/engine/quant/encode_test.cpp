// Quantizing: the error of each format, and properties that hold for any weights.
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "engine/quant/dtype.h"
#include "engine/quant/encode.h"
#include "engine/quant/host_fit.h"
#include "tests/catch.h"

namespace skald::test {
namespace {

using Weights = std::vector<float>;

std::vector<const DTypeInfo*> block_formats() {
  std::vector<const DTypeInfo*> all;
  for (const DTypeInfo& format : all_dtypes()) {
    if (format.encode_row && format.block_elems > 1) all.push_back(&format);
  }
  return all;
}

// importances: one for each weight, or none.
std::vector<std::byte> encoded(const DTypeInfo& format, const Weights& w,
                               const Weights& importances = {}) {
  const auto elems = static_cast<int64_t>(w.size());
  std::vector<std::byte> row(static_cast<size_t>(row_bytes(format.type, elems)));
  format.encode_row(w.data(), row.data(), elems,
                    importances.empty() ? nullptr : importances.data());
  return row;
}

Weights decoded(const DTypeInfo& format, const std::vector<std::byte>& row) {
  Weights w(row.size() / static_cast<size_t>(format.block_bytes) *
            static_cast<size_t>(format.block_elems));
  format.decode_row(row.data(), w.data(), static_cast<int64_t>(w.size()));
  return w;
}

double squares(const Weights& w) {
  double sum = 0;
  for (float x : w) sum += double{x} * x;
  return sum;
}

double squared_error(const DTypeInfo& format, const Weights& w) {
  const Weights back = decoded(format, encoded(format, w));
  double sum = 0;
  for (size_t i = 0; i < w.size(); ++i) sum += std::pow(double{w[i]} - back[i], 2);
  return sum;
}

// The sum of the squared errors times importances, relative to that of the weights.
double weighted_error(const DTypeInfo& format, const Weights& w, const Weights& importances,
                      const std::vector<std::byte>& row) {
  const Weights back = decoded(format, row);
  double error = 0, size = 0;
  for (size_t i = 0; i < w.size(); ++i) {
    error += importances[i] * std::pow(double{w[i]} - back[i], 2);
    size += double{importances[i]} * w[i] * w[i];
  }
  return error / size;
}

Weights random_weights(size_t count, uint32_t seed,
                       const std::function<float(std::mt19937&)>& one) {
  std::mt19937 random(seed);
  Weights w(count);
  for (float& x : w) x = one(random);
  return w;
}

Weights gaussian(size_t count, uint32_t seed) {
  std::normal_distribution<float> normal(0, 0.02f);
  return random_weights(count, seed, [&](std::mt19937& random) { return normal(random); });
}

// Importances as a model's columns have them: most lie within two powers of ten, a few far above.
// They repeat every `cols` weights.
Weights column_importances(size_t count, size_t cols, uint32_t seed) {
  std::normal_distribution<float> normal;
  Weights h = random_weights(cols, seed, [&](std::mt19937& random) {
    const bool outlier = random() % 64 == 0;
    return std::exp(1.5f * normal(random)) * (outlier ? 100.0f : 1.0f);
  });
  for (size_t i = cols; i < count; ++i) h.push_back(h[i - cols]);
  return h;
}

// MXFP4's scales are powers of two, and the numbers of IQ4_NL and MXFP4 are no grid: some bounds
// are not for them.
bool has_grid(const DTypeInfo& format) {
  return format.type != DType::IQ4_NL && format.type != DType::MXFP4;
}

// The error of the simplest method: a scale from the largest weight, or from smallest and largest,
// then rounding.
double simple_error(const DTypeInfo& format, const Weights& w) {
  const bool range = format.type == DType::Q4_1 || format.type == DType::Q5_1;
  const bool eight = format.type == DType::Q8_0;
  const bool four = format.type == DType::Q4_0 || format.type == DType::Q4_1;
  const float levels = eight ? 127 : four ? (range ? 15 : 8) : (range ? 31 : 16);
  double sum = 0;
  for (size_t block = 0; block < w.size(); block += 32) {
    float low = w[block], high = w[block], most = 0;
    for (size_t i = block; i < block + 32; ++i) {
      low = std::min(low, w[i]);
      high = std::max(high, w[i]);
      if (std::fabs(w[i]) > std::fabs(most)) most = w[i];
    }
    const float scale = range ? (high - low) / levels : most / (eight ? levels : -levels);
    const float min = range ? low : 0;
    for (size_t i = block; i < block + 32; ++i) {
      float q = scale == 0 ? 0 : std::round((w[i] - min) / scale);
      if (!range && !eight) q = std::min(q, levels - 1);
      sum += std::pow(double{w[i]} - (scale * q + min), 2);
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("the list of formats that skald can write is complete") {
  std::string made;
  for (const DTypeInfo& format : all_dtypes()) {
    if (format.encode_row) made += std::string(format.name) + " ";
  }
  CHECK(made ==
        "F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4 "
        "IQ3_S IQ2_S ");
}

TEST_CASE("blocks of 32 have a smaller error than the scale of the largest weight gives") {
  for (const DTypeInfo* format : block_formats()) {
    if (format->block_elems != 32 || !has_grid(*format)) continue;
    INFO(format->name);
    std::uniform_real_distribution<float> flat(-1, 1);
    std::exponential_distribution<float> half(30);
    const Weights sets[] = {
        gaussian(1 << 15, 3),
        random_weights(1 << 15, 4, [&](std::mt19937& random) { return flat(random); }),
        random_weights(1 << 15, 5,
                       [&](std::mt19937& random) { return half(random) - half(random); })};
    for (const Weights& w : sets) {
      const double mine = squared_error(*format, w), simple = simple_error(*format, w);
      CHECK(mine < (format->type == DType::Q8_0 ? 0.97 : 0.93) * simple);
    }
  }
}

// Measured on a million weights; README.md compares the values with ggml's. The bounds allow for
// the smaller sample here.
TEST_CASE("every format's error on Gaussian weights stays at the measured value") {
  const struct {
    DType type;
    double error;  // mean square, relative to the weights'
  } kMeasured[] = {{DType::Q8_0, 2.64e-5},   {DType::Q4_0, 6.52e-3},   {DType::Q4_1, 4.89e-3},
                   {DType::Q5_0, 1.59e-3},   {DType::Q5_1, 1.13e-3},   {DType::Q4_K, 4.92e-3},
                   {DType::Q5_K, 1.19e-3},   {DType::Q6_K, 2.84e-4},   {DType::Q3_K, 2.06e-2},
                   {DType::IQ4_NL, 5.37e-3}, {DType::IQ4_XS, 5.46e-3}, {DType::MXFP4, 1.243e-2},
                   {DType::Q2_K, 6.82e-2},   {DType::IQ3_S, 1.664e-2}, {DType::IQ2_S, 5.64e-2}};
  const Weights w = gaussian(1 << 17, 7);
  for (const auto& [type, error] : kMeasured) {
    INFO(name(type));
    CHECK(squared_error(info(type), w) / squares(w) < 1.03 * error);
  }
}

// ggml: llama-cpp-python 0.3.36 on the same weights with the same importances.
TEST_CASE("the error times importance stays at the measured value, below ggml's") {
  const struct {
    DType type;
    double error, ggml;
  } kMeasured[] = {{DType::Q8_0, 1.959e-05, 2.913e-05},   {DType::Q4_0, 4.047e-03, 4.668e-03},
                   {DType::Q4_1, 2.430e-03, 2.575e-03},   {DType::Q5_0, 9.967e-04, 1.144e-03},
                   {DType::Q5_1, 5.840e-04, 6.079e-04},   {DType::Q2_K, 2.781e-02, 3.240e-02},
                   {DType::Q3_K, 1.152e-02, 1.299e-02},   {DType::Q4_K, 2.506e-03, 2.706e-03},
                   {DType::Q5_K, 6.578e-04, 7.551e-04},   {DType::Q6_K, 1.636e-04, 1.882e-04},
                   {DType::IQ4_NL, 2.995e-03, 3.548e-03}, {DType::IQ4_XS, 3.067e-03, 3.666e-03},
                   {DType::MXFP4, 1.234e-02, 1.319e-02},  {DType::IQ3_S, 6.811e-03, 9.415e-03},
                   {DType::IQ2_S, 2.608e-02, 3.401e-02}};
  const Weights w = gaussian(1 << 16, 17), h = column_importances(1 << 16, 1024, 19);
  for (const auto& [type, error, ggml] : kMeasured) {
    INFO(name(type));
    const double mine = weighted_error(info(type), w, h, encoded(info(type), w, h));
    CHECK(mine == Approx(error).epsilon(0.01));
    CHECK(mine < ggml);
    CHECK(mine < weighted_error(info(type), w, h, encoded(info(type), w)));
  }
  CHECK(std::size(kMeasured) == block_formats().size());
}

TEST_CASE("blocks without any importance are made as if there were no importances") {
  const Weights w = gaussian(1024, 21);
  Weights h = column_importances(1024, 1024, 22);
  std::fill(h.begin() + 256, h.begin() + 768, 0.0f);
  for (const DTypeInfo* format : block_formats()) {
    INFO(format->name);
    const std::vector<std::byte> plain = encoded(*format, w), mixed = encoded(*format, w, h);
    const auto quarter = static_cast<long>(plain.size() / 4);
    CHECK(std::equal(plain.begin() + quarter, plain.end() - quarter, mixed.begin() + quarter));
    // MXFP4 chooses among three exponents.
    const bool same = std::equal(plain.begin(), plain.begin() + quarter, mixed.begin());
    if (format->type != DType::MXFP4) CHECK_FALSE(same);
    CHECK(encoded(*format, w, Weights(1024)) == plain);
  }
}

TEST_CASE("the size of all importances does not matter") {
  const Weights w = gaussian(512, 23), h = column_importances(512, 512, 24);
  for (const DTypeInfo* format : block_formats()) {
    const std::vector<std::byte> expected = encoded(*format, w, h);
    for (int power : {-100, -20, 20, 100}) {
      CAPTURE(format->name, power);
      Weights scaled = h;
      for (float& x : scaled) x = std::ldexp(x, power);
      CHECK(encoded(*format, w, scaled) == expected);
    }
  }
}

TEST_CASE("a few important weights are kept, whatever the others are") {
  for (const DTypeInfo* format : block_formats()) {
    for (size_t count : {1u, 2u, 20u}) {
      CAPTURE(format->name, count);
      const Weights w = gaussian(512, 25);
      Weights h(512);
      for (size_t i = 0; i < count; ++i) h[i * 25 + 3] = 1e30f;
      const double mine = weighted_error(*format, w, h, encoded(*format, w, h));
      CHECK(mine < 1.001 * weighted_error(*format, w, h, encoded(*format, w)));
      // Others still are what they were, roughly.
      CHECK(squares(decoded(*format, encoded(*format, w, h))) < 3 * squares(w));
    }
  }
}

TEST_CASE("values that a block can hold exactly are quantized almost without error") {
  std::mt19937 random(11);
  for (const DTypeInfo* format : block_formats()) {
    INFO(format->name);
    // Representable values: decoded blocks of Gaussian weights, which use the grid to its ends.
    double error = 0, size = 0;
    for (uint32_t seed = 0; seed < 64; ++seed) {
      const Weights w = decoded(*format, encoded(*format, gaussian(1024, seed)));
      error += squared_error(*format, w);
      size += squares(w);
    }
    const double once =
        squared_error(*format, gaussian(1 << 14, 1)) / squares(gaussian(1 << 14, 1));
    CHECK(error / size < 0.05 * once);
  }
}

TEST_CASE("zeros stay zeros, and a single weight among zeros is kept") {
  for (const DTypeInfo* format : block_formats()) {
    INFO(format->name);
    CHECK(squares(decoded(*format, encoded(*format, Weights(512)))) == 0);
    // No number of these formats is 0: zeros beside a weight become small numbers.
    if (format->type == DType::IQ3_S || format->type == DType::IQ2_S) continue;
    for (float value : {1.0f, -1.0f, 0.013f, -60000.0f, 3e-3f}) {
      Weights w(512);
      w[300] = value;
      const Weights back = decoded(*format, encoded(*format, w));
      CAPTURE(value);
      // The numbers of MXFP4 lie up to a third apart.
      CHECK(back[300] == Approx(value).epsilon(format->type == DType::MXFP4 ? 0.15 : 0.02));
      CHECK(squares(back) == Approx(double{back[300]} * back[300]).epsilon(0.01));
    }
  }
}

TEST_CASE("weights of any size keep the accuracy that f16 scales allow") {
  for (const DTypeInfo* format : block_formats()) {
    const double usual = squared_error(*format, gaussian(4096, 2)) / squares(gaussian(4096, 2));
    for (double size : {1e-4, 1e-3, 1.0, 1e3, 1e4}) {  // the largest weight
      Weights w = gaussian(4096, 2);
      for (float& x : w) x = static_cast<float>(x / 0.02 * size / 4);
      CAPTURE(format->name, size);
      // Small weights have scales below f16's normal range, with fewer digits.
      const double most = size < 1e-3 ? 7 : size < 1 ? 2 : 1.1;
      CHECK(squared_error(*format, w) / squares(w) < most * usual);
    }
    // Weights far below the smallest scale give small results at least.
    Weights w = gaussian(4096, 2);
    for (float& x : w) x *= 1e-6f;
    for (float x : decoded(*format, encoded(*format, w))) CHECK(std::fabs(x) < 1e-5f);
  }
}

TEST_CASE("blocks that repeat one value keep it, positive or negative") {
  for (const DTypeInfo* format : block_formats()) {
    for (float value : {0.5f, -0.5f}) {
      const Weights w(512, value);
      CAPTURE(format->name, value);
      CHECK(squared_error(*format, w) / squares(w) < 1e-4);
    }
  }
}

TEST_CASE("NaN and other extremes spoil no other block") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const DTypeInfo& format : all_dtypes()) {
    if (!format.encode_row) continue;
    const Weights good = gaussian(512, 9);
    const std::vector<std::byte> expected = encoded(format, good);
    const std::vector<std::byte> weighted = encoded(format, good, Weights(good.size(), 1));
    for (float bad : {nan, infinity, -infinity, 3e38f, 1e-42f}) {
      CAPTURE(format.name, bad);
      Weights some(512, 0.25f), all(512, bad);
      some[7] = some[300] = bad;
      for (Weights& row : {std::ref(some), std::ref(all)}) {
        row.insert(row.end(), good.begin(), good.end());
        const std::vector<std::byte> bytes = encoded(format, row);
        CHECK(std::equal(expected.rbegin(), expected.rend(), bytes.rbegin()));
        CHECK(std::equal(weighted.rbegin(), weighted.rend(),
                         encoded(format, row, Weights(row.size(), 1)).rbegin()));
      }
    }
  }
}

TEST_CASE("a row is encoded block by block, also at an odd address") {
  const Weights w = gaussian(1024, 13);
  for (const DTypeInfo& format : all_dtypes()) {
    if (!format.encode_row) continue;
    INFO(format.name);
    const std::vector<std::byte> whole = encoded(format, w);
    std::vector<std::byte> shifted(whole.size() + 1);
    format.encode_row(w.data(), shifted.data() + 1, 1024, nullptr);
    CHECK(std::equal(whole.begin(), whole.end(), shifted.begin() + 1));
    const auto half = encoded(format, Weights(w.begin() + 512, w.end()));
    CHECK(
        std::equal(half.begin(), half.end(), whole.begin() + static_cast<long>(whole.size() / 2)));
  }
}

TEST_CASE("a fitted scale has an error within 1 % of the best scale's") {
  constexpr ScaleGrid kGrid = {-8, 7, 1.2f, 0.2f, 16};
  double fitted = 0, best_of_all = 0;
  for (uint32_t seed = 0; seed < 50; ++seed) {
    const Weights w = gaussian(32, seed);
    float q[32];
    fitted += round_to_grid(w.data(), 32, {fit_scale({w.data()}, 32, kGrid), 0}, -8, 7, q);
    float best = INFINITY;
    for (int i = -2000; i <= 2000; ++i) {
      if (i == 0) continue;
      const float scale = static_cast<float>(i) * 0.1f / 8 / 2000;
      best = std::min(best, round_to_grid(w.data(), 32, {scale, 0}, -8, 7, q));
    }
    best_of_all += best;
  }
  CHECK(fitted < 1.01 * best_of_all);
}

}  // namespace skald::test
