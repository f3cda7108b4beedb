// Products with blocks of floats whose scales are far beyond f16's range, or far apart. gemm_q
// multiplies in f16, so it divides the scales of a row by a power of two of that row.
#include <cmath>
#include <vector>

#include "cuda/gpu/check.h"
#include "cuda/gpu/kernel_code.h"
#include "cuda/kernels/linear.h"
#include "cuda/kernels/prepared_rows.h"
#include "engine/base/half.h"
#include "tests/catch.h"
#include "tests/cuda/kernels/random_tiles.h"

namespace skald::test {
namespace {

using cuda::DeviceMemory;

constexpr int64_t kOuts = 48, kIns = 512;

struct Matrix {
  std::vector<std::byte> rows;
  DeviceMemory tiles;
};

constexpr int kZero = 9999;  // stands for a scale of 0

// Random bits. The scales of a row's first blocks are near 2^of_rows[row % size]; those of its
// other blocks are 2^12 times smaller.
Matrix make_matrix(DType type, const std::vector<int>& of_rows) {
  const DTypeInfo& format = info(type);
  Matrix matrix;
  matrix.rows.resize(static_cast<size_t>(kOuts * row_bytes(type, kIns)));
  std::mt19937 random(5);
  for (std::byte& byte : matrix.rows) byte = static_cast<std::byte>(random());
  const int64_t blocks = kIns / format.block_elems;
  for (int64_t i = 0; i < kOuts * blocks; ++i) {
    const int exponent = of_rows[static_cast<size_t>(i / blocks) % of_rows.size()];
    const int own = i % blocks < blocks / 2 ? exponent : exponent - 12;
    format.set_scales(matrix.rows.data() + i * format.block_bytes,
                      exponent == kZero ? 0 : std::ldexp(1.37f, own), 0);
  }
  std::vector<std::byte> packed(static_cast<size_t>(cuda::tile_bytes(type, kOuts, kIns)));
  cuda::pack_tiles({matrix.rows.data(), type, kOuts, kIns, row_bytes(type, kIns)}, packed.data());
  matrix.tiles = on_device(packed);
  return matrix;
}

// The largest error of a result, relative to the sizes of its weight row and its activations.
double largest_error(const Matrix& matrix, DType type, const std::vector<float>& in,
                     const std::vector<float>& out) {
  double largest = 0;
  std::vector<float> weights(kIns);
  for (int64_t o = 0; o < kOuts; ++o) {
    info(type).decode_row(matrix.rows.data() + o * row_bytes(type, kIns), weights.data(), kIns);
    for (size_t row = 0; row < in.size() / kIns; ++row) {
      double sum = 0, of_weights = 0, of_row = 0;
      for (size_t i = 0; i < kIns; ++i) {
        const double w = weights[i], x = in[row * kIns + i];
        sum += w * x, of_weights += w * w, of_row += x * x;
      }
      const double size = std::sqrt(of_weights * of_row);
      const double error = std::fabs(out[row * kOuts + static_cast<size_t>(o)] - sum);
      const double relative = size == 0 ? error : error / size;
      if (!(relative <= largest)) largest = relative;  // keeps NaN
    }
  }
  return largest;
}

TEST_CASE("products of FP8 and NVFP4 keep scales that f16 cannot hold", "[small]") {
  const DType type = GENERATE(DType::FP8, DType::NVFP4);
  const int rows = GENERATE(1, 5, 40);
  CAPTURE(name(type), rows);
  cudaDeviceProp device = {};
  SKALD_CUDA(cudaGetDeviceProperties(&device, 0));
  const Matrix matrix = make_matrix(type, {0, -30, kZero, -100, 20, -14, 70});
  std::mt19937 random(6);
  std::vector<float> numbers(static_cast<size_t>(rows) * kIns);
  std::vector<uint16_t> bits;
  for (float& number : numbers) {
    number = static_cast<float>(static_cast<int>(random() % 255) - 127) / 64;  // exact in bf16
    bits.push_back(f32_to_bf16(number));
  }
  const DeviceMemory in = on_device(bits), ticket = on_device(std::vector<unsigned>(1));
  const DeviceMemory workspace(cuda::gemm_q_workspace_bytes(rows, kIns), "a test");
  const DeviceMemory out = on_device(std::vector<float>(static_cast<size_t>(rows) * kOuts, NAN));

  cuda::LinearLaunch launch = {};
  launch.type = DType::BF16;
  launch.format = type;
  launch.weight = matrix.tiles.as<void>();
  launch.outs = launch.out_stride = kOuts;
  launch.ins = kIns;
  launch.rows = rows;
  launch.in = in.as<void>();
  launch.out = out.as<void>();
  launch.epilogue = cuda::Epilogue::Floats;
  launch.gemv.ticket = ticket.as<unsigned>();
  launch.gemm_q.workspace = workspace.as<void>();
  const auto error = [&] {
    std::vector<float> got(static_cast<size_t>(rows) * kOuts);
    SKALD_CUDA(cudaDeviceSynchronize());
    SKALD_CUDA(cudaMemcpy(got.data(), out.as<void>(), got.size() * 4, cudaMemcpyDeviceToHost));
    return largest_error(matrix, type, numbers, got);
  };
  launch_gemv_plain(launch, nullptr);
  CHECK(error() < 1e-6);
  if (!runs_on(cuda::KernelCode::Sm90a, device.major * 10 + device.minor)) return;
  if (rows == 1) {
    REQUIRE(supports_gemv_q_sm90(launch));
    launch_gemv_q_sm90(launch, device.multiProcessorCount, nullptr);
    CHECK(error() < 1e-6);
  }
  REQUIRE(supports_gemm_q_sm90(launch));
  launch_gemm_q_sm90(launch, device.multiProcessorCount, nullptr);
  CHECK(error() < 1e-3);
}

}  // namespace
}  // namespace skald::test
