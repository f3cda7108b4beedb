// Blocks made on the GPU are equal to encode_row()'s, bit for bit: for Gaussian weights, and for
// weights that are hard to fit.
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "cuda/gpu/check.h"
#include "cuda/gpu/handles.h"
#include "cuda/gpu/memory.h"
#include "cuda/kernels/tiles/quantize.h"
#include "engine/base/error.h"
#include "engine/quant/dtype.h"
#include "engine/quant/encode.h"
#include "tests/catch.h"

namespace skald::test {
namespace {

using cuda::DeviceMemory;

constexpr DType kSources[] = {DType::F32, DType::F16, DType::BF16};

std::vector<DType> made_types() {
  std::vector<DType> types;
  for (const DTypeInfo& each : all_dtypes()) {
    if (cuda::can_quantize(each.type)) types.push_back(each.type);
  }
  return types;
}

struct Made {
  std::vector<std::byte> blocks;
  unsigned long long unfit = 0;
};

constexpr unsigned long long kNone = ~0ull;

// weights: rows of type `from`.
Made make(DType from, DType to, const std::vector<std::byte>& weights, int64_t rows, int64_t cols) {
  const int64_t bytes = rows * row_bytes(to, cols);
  const cuda::StreamOwner stream;
  const DeviceMemory in(std::ssize(weights), "a test"), out(bytes, "a test"), unfit(8, "a test");
  SKALD_CUDA(cudaMemcpy(in.as<void>(), weights.data(), weights.size(), cudaMemcpyHostToDevice));
  SKALD_CUDA(cudaMemcpy(unfit.as<void>(), &kNone, 8, cudaMemcpyHostToDevice));
  SKALD_CUDA(cudaMemset(out.as<void>(), 0xa5, static_cast<size_t>(bytes)));
  SKALD_CUDA(cudaDeviceSynchronize());  // `stream` does not wait for the default stream
  cuda::launch_quantize(
      {from, to, in.as<void>(), out.as<void>(), rows, cols, unfit.as<unsigned long long>(), 100},
      stream);
  SKALD_CUDA(cudaStreamSynchronize(stream));
  Made made;
  made.blocks.resize(static_cast<size_t>(bytes));
  SKALD_CUDA(
      cudaMemcpy(made.blocks.data(), out.as<void>(), made.blocks.size(), cudaMemcpyDeviceToHost));
  SKALD_CUDA(cudaMemcpy(&made.unfit, unfit.as<void>(), 8, cudaMemcpyDeviceToHost));
  return made;
}

// Empty if the GPU makes of the weights, rounded to `from`, what the CPU makes of them.
std::string problem_of(DType from, DType to, const std::vector<float>& weights, int64_t cols) {
  const int64_t rows = std::ssize(weights) / cols, bytes = row_bytes(to, cols);
  std::vector<std::byte> source(static_cast<size_t>(rows * row_bytes(from, cols)));
  std::vector<float> rounded(static_cast<size_t>(rows * cols));
  info(from).encode_row(weights.data(), source.data(), rows * cols, nullptr);
  info(from).decode_row(source.data(), rounded.data(), rows * cols);
  std::vector<std::byte> expected(static_cast<size_t>(rows * bytes));
  info(to).encode_row(rounded.data(), expected.data(), rows * cols, nullptr);
  const Made made = make(from, to, source, rows, cols);
  if (made.unfit != kNone) return concat(name(to), ": row ", made.unfit, " is said not to fit");
  int64_t wrong = 0, first = -1;
  const int64_t size = info(to).block_bytes;
  for (int64_t i = 0; i < std::ssize(expected); i += size) {
    if (std::memcmp(expected.data() + i, made.blocks.data() + i, static_cast<size_t>(size)) == 0) {
      continue;
    }
    if (wrong++ == 0) first = i / size;
  }
  if (wrong == 0) return "";
  return concat(name(from), " to ", name(to), ": ", wrong, " blocks of ",
                std::ssize(expected) / size, " differ, the first is ", first);
}

// Random weights in groups of 32. Each group is of one of the kinds that are hard to quantize, in
// random order, so that a block of 256 has several kinds.
std::vector<float> awkward_weights(int64_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> weights;
  while (std::ssize(weights) < count) {
    const unsigned kind = random() % 16, whole = random() % 4;
    // Now and then all groups of a block are of one kind.
    for (int group = 0; group < (whole == 0 ? 8 : 1); ++group) {
      const float size = std::ldexp(1.0f, static_cast<int>(random() % 40) - 30);
      for (int i = 0; i < 32; ++i) {
        const float x = normal(random);
        float w = size * x;
        switch (kind) {
          case 0:
            w = 0;
            break;
          case 1:
            w = i == 5 ? size : 0;
            break;
          case 2:
            w = i == 31 ? -1000 * size : size * x;
            break;
          case 3:
            w = size;
            break;
          case 4:
            w = -size;
            break;
          case 5:
            w = std::ldexp(x, -130);  // denormal in float32
            break;
          case 6:
            w = std::ldexp(x, -149 + static_cast<int>(random() % 30));
            break;
          case 7:
            w = -std::fabs(w);
            break;
          case 8:
            w = std::fabs(w);
            break;
          case 9:
            w = i % 2 ? kLargestWeight : -kLargestWeight;
            break;
          case 10:
            w = static_cast<float>(static_cast<int>(random() % 31) - 15) * size;
            break;
          case 11:
            w = i % 2 ? -0.0f : 0.0f;
            break;
          case 12:
            w = std::ldexp(x, static_cast<int>(random() % 60) - 50);
            break;
          case 13:
            w = size * (100 + 0.001f * x);
            break;
          case 14:
            w = i < 16 ? size * x : 1e-30f * x;
            break;
          default:
            break;
        }
        weights.push_back(std::fmin(std::fmax(w, -60000.0f), 60000.0f));
      }
    }
  }
  weights.resize(static_cast<size_t>(count));
  return weights;
}

}  // namespace

TEST_CASE("blocks that the GPU makes are those of the CPU, bit for bit", "[slow]") {
  CHECK(made_types().size() == 8);
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (const DType to : made_types()) {
    CHECK(cuda::can_quantize(to));
    const int64_t elems = info(to).block_elems;
    for (const DType from : kSources) {
      // The first two matrices do not fill a block of threads.
      for (const auto& [rows, blocks] : {std::pair{1, 1}, {37, 3}, {64, 32}}) {
        const int64_t cols = blocks * elems;
        std::vector<float> weights(static_cast<size_t>(rows * cols));
        for (float& w : weights) w = 0.02f * normal(random);
        CHECK(problem_of(from, to, weights, cols) == "");
      }
      CHECK(problem_of(from, to, awkward_weights(256 * 3000, random), 3 * 256) == "");
    }
  }
}

TEST_CASE("the GPU says which is the first row that a format cannot hold") {
  constexpr int64_t kRows = 40, kCols = 512;
  for (const DType to : made_types()) {
    for (const float bad : {INFINITY, -INFINITY, NAN, 65536.0f, -1e30f}) {
      CAPTURE(name(to), bad);
      std::vector<float> weights(kRows * kCols, 0.5f);
      weights[17 * kCols + 300] = bad;
      weights[30 * kCols] = bad;
      std::vector<std::byte> source(weights.size() * 4);
      std::memcpy(source.data(), weights.data(), source.size());
      CHECK(make(DType::F32, to, source, kRows, kCols).unfit == 117);
    }
  }
}

}  // namespace skald::test
