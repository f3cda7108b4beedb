// Activations that a kernel stores for the next product, compared with those that the product's own
// kernel prepares.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "cuda/cuda.h"
#include "cuda/gpu/check.h"
#include "cuda/gpu/handles.h"
#include "cuda/gpu/kernel_code.h"
#include "cuda/gpu/memory.h"
#include "cuda/kernels/linear.h"
#include "cuda/kernels/prepared_rows.h"
#include "engine/base/half.h"
#include "tests/catch.h"
#include "tests/cuda/kernels/random_tiles.h"
#include "tests/cuda/kernels/relative_error.h"
#include "tests/cuda/kernels/switches.h"
#include "tests/engine/random_llama.h"

namespace skald::test {
namespace {

using cuda::DeviceMemory;

constexpr int64_t kDim = 512, kWide = 768;
constexpr int kSteps = 4;

// The largest difference of a row, relative to the row's size.
double difference(const std::vector<float>& a, const std::vector<float>& b, int rows) {
  double most = 0;
  const size_t cols = a.size() / static_cast<size_t>(rows);
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
    double apart = 0, size = 0;
    for (size_t i = row * cols; i < (row + 1) * cols; ++i) {
      apart += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
      size += double{b[i]} * b[i];
    }
    most = std::max(most, std::sqrt(apart / size));
    if (!(apart < 1e30)) return 1e30;
  }
  return most;
}

// The logits of all rows in steps with one row of each sequence. The first sequence has `depth`
// tokens before.
std::vector<float> logits_of(const Model& model, int rows, int64_t depth, bool dependent) {
  RunOptions options;
  options.sequences = rows;
  options.rows = 256;
  cuda::Switches chosen = switches();
  chosen.dependent_launches &= dependent;
  const auto executor = cuda::make_executor(model, options, 0, chosen);
  std::vector<Sequence> sequences;
  for (int i = 0; i < rows; ++i) sequences.push_back(executor->new_sequence());
  for (int64_t at = 0; at < depth; at += options.rows) {
    const std::vector<int32_t> tokens = random_tokens(std::min(options.rows, depth - at), 1);
    const SeqRows part{&sequences[0], tokens, Want::Nothing};
    executor->run({&part, 1});
  }
  std::vector<float> logits;
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<int32_t> tokens = random_tokens(rows, static_cast<uint64_t>(step));
    std::vector<SeqRows> all;
    for (size_t i = 0; i < sequences.size(); ++i) {
      all.push_back({&sequences[i], std::span(tokens).subspan(i, 1), Want::LastRow});
    }
    const int64_t wanted = executor->run(all);
    for (int64_t row = 0; row < wanted; ++row) {
      const auto of_row = executor->logits(row);
      logits.insert(logits.end(), of_row.begin(), of_row.end());
    }
  }
  return logits;
}

// Attention stores activations for o, and gated products store them for down. With the large norms
// both exceed what f16 holds. Embeddings are larger then too, since a row, times the weights of the
// next norm, may grow to 2^19 times its size at most. There is one layer: in a second one small
// differences would change which token attention chooses.
void check_stored(int rows, int64_t depth) {
  RandomLlama shape;
  shape.type = GENERATE(DType::Q4_K, DType::Q8_0);
  const bool large = GENERATE(false, true);
  if (large) shape.embeddings = 0x1p17f, shape.attention_norms = 0x1p16f, shape.ffn_norms = 0x1p7f;
  shape.layers = 1;
  shape.head_dim = GENERATE(64, 96);
  shape.heads = 8;
  shape.context = 4096;
  INFO(name(shape.type) << (large ? ", large" : "") << ", heads of " << shape.head_dim << ", "
                        << rows << " rows, " << depth << " tokens");
  const Model model = random_llama(shape);
  const std::vector<float> stored = logits_of(model, rows, depth, true);
  const double apart = relative_error(stored, logits_of(model, rows, depth, false));
  // Only one of the two ways rounds to bf16 between attention and o, and between the gated product
  // and down.
  CHECK(apart < 1e-2);
  const bool same = logits_of(model, rows, depth, true) == stored;
  CHECK(same);
}

}  // namespace

TEST_CASE(
    "activations stored by attention and gated products are as exact as prepared ones, of any size",
    "[small][long]") {
  check_stored(GENERATE(3, 17), 0);
}

TEST_CASE("activations stored by attention are as exact as prepared ones, with long sequences") {
  check_stored(GENERATE(3, 17), 3000);
}

TEST_CASE("a product uses the activations that the one before stored, with rows of all sizes",
          "[small][long]") {
  cudaDeviceProp device = {};
  SKALD_CUDA(cudaGetDeviceProperties(&device, 0));
  const int rows = GENERATE(5, 9, 20, 33, 200);
  const DType next = GENERATE(DType::Q4_K, DType::Q8_0);
  INFO(rows << " rows, " << name(next));
  std::mt19937 random(static_cast<unsigned>(rows));
  std::normal_distribution<float> normal;
  const DeviceMemory add = random_tiles(DType::Q4_K, kDim, kWide, random);
  const DeviceMemory wide = random_tiles(next, kWide, kDim, random);
  std::vector<float> stream_rows(static_cast<size_t>(rows * kDim)), norm(kDim);
  for (int row = 0; row < rows; ++row) {
    // Sizes from 2^-20 to 2^19, and one row of zeros.
    const float size = row == 3 ? 0 : std::ldexp(1.0f, row * 13 % 40 - 20);
    for (int64_t i = 0; i < kDim; ++i) {
      stream_rows[static_cast<size_t>(row * kDim + i)] = size * normal(random);
    }
  }
  for (float& weight : norm) weight = 1 + 0.3f * normal(random);
  std::vector<uint16_t> narrow(static_cast<size_t>(kSteps * rows * kWide));
  for (uint16_t& number : narrow) number = f32_to_bf16(normal(random));
  const DeviceMemory in = on_device(narrow), norm_weight = on_device(norm);

  const cuda::StreamOwner stream;
  const auto run = [&](bool carrying) {
    DeviceMemory x = on_device(stream_rows);
    const DeviceMemory out(kSteps * rows * kWide * 4, "a test");
    const DeviceMemory workspace(cuda::gemm_q_workspace_bytes(rows, kWide), "a test");
    const DeviceMemory carried(cuda::gemm_q_carried_bytes(rows, kDim), "a test");
    SKALD_CUDA(cudaMemset(carried.as<void>(), 0xff, static_cast<size_t>(carried.bytes())));
    SKALD_CUDA(cudaMemset(workspace.as<void>(), 0xff, static_cast<size_t>(workspace.bytes())));
    SKALD_CUDA(cudaDeviceSynchronize());
    cuda::LinearLaunch launch = {};
    launch.type = DType::BF16;
    launch.format = next;
    launch.rows = rows;
    launch.gemm_q.workspace = workspace.as<void>();
    launch.dependent = true;
    if (!(runs_on(cuda::KernelCode::Sm90a, device.major * 10 + device.minor) &&
          supports_gemm_q_sm90(launch)))
      return std::vector<float>();
    // In the first step, the normed product has no stored activations and prepares them itself.
    for (int step = 0; step < kSteps; ++step) {
      cuda::LinearLaunch normed = launch;
      normed.format = next;
      normed.weight = wide.as<void>();
      normed.outs = normed.out_stride = kWide;
      normed.ins = kDim;
      normed.in = x.as<void>();
      normed.norm_weight = norm_weight.as<float>();
      normed.norm_eps = 1e-5f;
      normed.epilogue = cuda::Epilogue::Floats;
      normed.out = out.as<float>() + step * rows * kWide;
      normed.gemm_q.carried = carrying ? carried.as<void>() : nullptr;
      normed.gemm_q.takes_carried = carrying && step > 0;
      launch_gemm_q_sm90(normed, device.multiProcessorCount, stream);
      cuda::LinearLaunch added = launch;
      added.format = DType::Q4_K;
      added.weight = add.as<void>();
      added.outs = added.out_stride = kDim;
      added.ins = kWide;
      added.in = in.as<uint16_t>() + step * rows * kWide;
      added.epilogue = cuda::Epilogue::AddTo;
      added.scale = std::ldexp(1.0f, 3 * step - 16);
      added.out = x.as<void>();
      if (carrying) {
        added.gemm_q.carried = carried.as<void>();
        added.gemm_q.next_norm_weight = norm_weight.as<float>();
        added.gemm_q.next_format = next;
      }
      launch_gemm_q_sm90(added, device.multiProcessorCount, stream);
    }
    SKALD_CUDA(cudaStreamSynchronize(stream));
    std::vector<float> results(static_cast<size_t>(kSteps * rows * kWide));
    SKALD_CUDA(
        cudaMemcpy(results.data(), out.as<void>(), results.size() * 4, cudaMemcpyDeviceToHost));
    return results;
  };
  const std::vector<float> apart = run(false);
  if (apart.empty()) return;
  const std::vector<float> carried = run(true);
  // Both round activations to f16: one before the norm, the other after it.
  const double most = difference(carried, apart, kSteps * rows);
  std::printf("%4d rows, %s: %.1e apart\n", rows, std::string(name(next)).c_str(), most);
  CHECK(most < 1e-3);
  for (int i = 0; i < 2; ++i) {
    const bool same = run(true) == carried;
    REQUIRE(same);
  }
}

}  // namespace skald::test
