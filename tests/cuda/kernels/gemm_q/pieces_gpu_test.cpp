// Pieces of a product: matrices of different formats that multiply the same activations. One launch
// of the paired kernel computes two pieces; it can also compute one piece alone. Without that
// kernel, launches of gemm_q_sm90 run beside one another. The second of them neither waits for the
// kernel ahead nor prepares activations, so if it read them too early, these tests would fail.
#include <bit>
#include <vector>

#include "cuda/gpu/check.h"
#include "cuda/gpu/handles.h"
#include "cuda/gpu/kernel_code.h"
#include "cuda/gpu/memory.h"
#include "cuda/kernels/linear.h"
#include "cuda/kernels/prepared_rows.h"
#include "tests/catch.h"
#include "tests/cuda/kernels/random_tiles.h"
#include "tests/cuda/kernels/relative_error.h"

namespace skald::test {
namespace {

using cuda::DeviceMemory;

constexpr int64_t kPieceIns = 2304;

DeviceMemory random_bytes(int64_t count, std::mt19937& random) {
  std::vector<uint16_t> halves(static_cast<size_t>(count / 2));
  // The numbers are bf16 between 1/4 and 4, of both signs.
  for (uint16_t& half : halves) half = static_cast<uint16_t>(0x3e80 + random() % 0x200);
  for (uint16_t& half : halves) half |= static_cast<uint16_t>(random() % 2 << 15);
  return on_device(halves);
}

std::vector<float> as_floats(const std::vector<uint16_t>& bf16) {
  std::vector<float> floats;
  for (uint16_t bits : bf16) floats.push_back(std::bit_cast<float>(uint32_t{bits} << 16));
  return floats;
}

// How two products of gemm_q_sm90 run: one after the other, beside one another, or as one launch.
enum class How { Apart, Beside, Together };

void check_beside(int rows, DType first, DType second, bool small_blocks, int times) {
  cudaDeviceProp device = {};
  SKALD_CUDA(cudaGetDeviceProperties(&device, 0));
  const int capability = device.major * 10 + device.minor;
  std::mt19937 random(static_cast<unsigned>(rows));
  const int64_t outs[] = {1200, 272}, stride = outs[0] + outs[1];
  const DeviceMemory weights[] = {random_tiles(first, outs[0], kPieceIns, random),
                                  random_tiles(second, outs[1], kPieceIns, random)};
  constexpr int kSteps = 6;
  const DeviceMemory in = random_bytes(kSteps * rows * kPieceIns * 2, random);
  const DeviceMemory workspace(cuda::gemm_q_workspace_bytes(rows, kPieceIns), "a test");
  REQUIRE(cuda::gemm_q_shares_activations(first, second));
  CHECK_FALSE(cuda::gemm_q_shares_activations(first, DType::Q8_0));

  const cuda::StreamOwner stream;
  const auto run = [&](How how) {
    const DeviceMemory out(kSteps * rows * stride * 2, "a test");
    // Each step has other activations, so that a product that reads the last step's is found.
    for (int step = 0; step < kSteps; ++step) {
      cuda::LinearLaunch launches[2];
      for (int i = 0; i < 2; ++i) {
        cuda::LinearLaunch& launch = launches[i] = {};
        launch.type = DType::BF16;
        launch.ins = kPieceIns;
        launch.rows = rows;
        launch.in = in.as<uint16_t>() + step * rows * kPieceIns;
        launch.out_stride = stride;
        launch.epilogue = cuda::Epilogue::Store;
        launch.gemm_q.workspace = workspace.as<void>();
        launch.dependent = true;
        launch.format = i == 0 ? first : second;
        launch.weight = weights[i].as<void>();
        launch.outs = outs[i];
        launch.out = out.as<uint16_t>() + step * rows * stride + (i == 0 ? 0 : outs[0]);
        launch.gemm_q.beside_attention = small_blocks;
        launch.gemm_q.first_piece = how == How::Beside && i == 0;
        launch.gemm_q.next_piece = how == How::Beside && i == 1;
      }
      if (!(runs_on(cuda::KernelCode::Sm90a, capability) && supports_gemm_q_sm90(launches[0])))
        return std::vector<uint16_t>();
      if (how != How::Together) {
        for (const auto& launch : launches) {
          launch_gemm_q_sm90(launch, device.multiProcessorCount, stream);
        }
      } else if (runs_on(cuda::KernelCode::Sm90a, capability) &&
                 supports_gemm_q_pair_sm90(launches[0], launches[1])) {
        launch_gemm_q_pair_sm90(launches[0], launches[1], device.multiProcessorCount, stream);
      } else {
        return std::vector<uint16_t>();
      }
    }
    SKALD_CUDA(cudaStreamSynchronize(stream));
    std::vector<uint16_t> results(static_cast<size_t>(out.bytes() / 2));
    SKALD_CUDA(
        cudaMemcpy(results.data(), out.as<void>(), results.size() * 2, cudaMemcpyDeviceToHost));
    return results;
  };
  const std::vector<uint16_t> apart = run(How::Apart), together = run(How::Together);
  if (device.major == 9) REQUIRE(!apart.empty());
  const bool pair = second == DType::Q6_K && rows <= 64;
  CHECK(together.empty() == (apart.empty() || !pair));
  // The columns may be divided among another number of blocks, so that sums have another order:
  // here and there a result rounds the other way.
  if (!together.empty()) CHECK(relative_error(as_floats(together), as_floats(apart)) < 5e-4);
  for (int i = 0; i < times; ++i) {
    const bool same = run(How::Beside) == apart && run(How::Together) == together;
    REQUIRE(same);
  }
}

// How two products of gemv_q_sm90 run: each by its own kernel, each by the pair's, or as one
// launch.
enum class By { Own, Pairs, OneLaunch };

// Products with one matrix of `first` and one of Q5_K.
void check_pair(DType first, int64_t first_outs, int times) {
  cudaDeviceProp device = {};
  SKALD_CUDA(cudaGetDeviceProperties(&device, 0));
  const DType second = DType::Q5_K;
  std::mt19937 random(1);
  const int64_t outs[] = {first_outs, 272}, stride = outs[0] + outs[1];
  const DeviceMemory weights[] = {random_tiles(first, outs[0], kPieceIns, random),
                                  random_tiles(second, outs[1], kPieceIns, random)};
  const DeviceMemory in = random_bytes(kPieceIns * 4, random);  // as floats
  const DeviceMemory norm = random_bytes(kPieceIns * 4, random);
  const DeviceMemory tickets = on_device(std::vector<unsigned>(2));

  const cuda::StreamOwner stream;
  const auto run = [&](By by) {
    const DeviceMemory out(stride * 2, "a test");
    cuda::LinearLaunch launches[2];
    for (int i = 0; i < 2; ++i) {
      cuda::LinearLaunch& launch = launches[i] = {};
      launch.type = DType::BF16;
      launch.format = i == 0 ? first : second;
      launch.weight = weights[i].as<void>();
      launch.outs = outs[i];
      launch.ins = kPieceIns;
      launch.rows = 1;
      launch.in = in.as<void>();
      launch.norm_weight = norm.as<float>();
      launch.norm_eps = 1e-5f;
      launch.out = out.as<uint16_t>() + (i == 0 ? 0 : outs[0]);
      launch.out_stride = stride;
      launch.epilogue = cuda::Epilogue::Store;
      launch.gemv.ticket = tickets.as<unsigned>() + i;
      launch.dependent = true;
    }
    const int capability = device.major * 10 + device.minor;
    if (!(runs_on(cuda::KernelCode::Sm90a, capability) &&
          supports_gemv_q_pair_sm90(launches[0], launches[1]))) {
      return std::vector<uint16_t>();
    }
    const int multiprocessors = device.multiProcessorCount;
    if (by == By::OneLaunch) {
      launch_gemv_q_pair_sm90(launches[0], launches[1], multiprocessors, stream);
    } else if (by == By::Pairs) {
      launch_gemv_q_of_pair_sm90(launches[0], second, multiprocessors, stream);
      launch_gemv_q_of_pair_sm90(launches[1], first, multiprocessors, stream);
    } else {
      for (const auto& launch : launches) launch_gemv_q_sm90(launch, multiprocessors, stream);
    }
    SKALD_CUDA(cudaStreamSynchronize(stream));
    std::vector<uint16_t> results(static_cast<size_t>(out.bytes() / 2));
    SKALD_CUDA(
        cudaMemcpy(results.data(), out.as<void>(), results.size() * 2, cudaMemcpyDeviceToHost));
    return results;
  };
  const std::vector<uint16_t> apart = run(By::Own);
  if (device.major == 9) REQUIRE(!apart.empty());
  if (apart.empty()) return;
  for (By by : {By::Pairs, By::OneLaunch}) {
    const std::vector<uint16_t> results = run(by);
    // The order of a sum does not depend on the kernel, but the compiler may contract other
    // multiplications and additions: here and there a result rounds the other way. One wrong result
    // would be 7e-3.
    CHECK(relative_error(as_floats(results), as_floats(apart)) < 2e-4);
    for (int i = 0; i < times; ++i) {
      const bool same = run(by) == results;
      REQUIRE(same);
    }
  }
}

// A product with a matrix of `format`, by the format's own kernel and by that of its pair with
// `other`, for the epilogues that a mixed model's other products have.
void check_one(DType format, DType other, int64_t outs, int64_t ins, cuda::Epilogue epilogue) {
  cudaDeviceProp device = {};
  SKALD_CUDA(cudaGetDeviceProperties(&device, 0));
  std::mt19937 random(2);
  const bool gated = epilogue == cuda::Epilogue::Gated;
  const DeviceMemory weight = random_tiles(format, outs, ins, random);
  const DeviceMemory in = random_bytes(ins * 4, random);  // as floats, or the first half as bf16
  const DeviceMemory norm = random_bytes(ins * 4, random);
  const DeviceMemory ticket = on_device(std::vector<unsigned>(1));

  cuda::LinearLaunch launch = {};
  launch.type = DType::BF16;
  launch.format = format;
  launch.weight = weight.as<void>();
  launch.outs = outs;
  launch.ins = ins;
  launch.rows = 1;
  launch.in = in.as<void>();
  if (gated) launch.norm_weight = norm.as<float>();
  launch.norm_eps = 1e-5f;
  launch.out_stride = gated ? outs / 2 : outs;
  launch.epilogue = epilogue;
  launch.gemv.ticket = ticket.as<unsigned>();
  const bool supported = (runs_on(cuda::KernelCode::Sm90a, device.major * 10 + device.minor) &&
                          supports_gemv_q_sm90(launch));
  if (device.major == 9) REQUIRE(supported);
  if (!supported) return;

  const auto run = [&](By by) {
    const DeviceMemory out = on_device(std::vector<float>(static_cast<size_t>(outs), 1.0f));
    launch.out = out.as<void>();
    if (by == By::Pairs) {
      launch_gemv_q_of_pair_sm90(launch, other, device.multiProcessorCount, nullptr);
    } else {
      launch_gemv_q_sm90(launch, device.multiProcessorCount, nullptr);
    }
    SKALD_CUDA(cudaDeviceSynchronize());
    std::vector<uint16_t> halves(static_cast<size_t>(gated ? outs / 2 : 0));
    std::vector<float> floats(static_cast<size_t>(gated ? 0 : outs));
    void* const to = gated ? static_cast<void*>(halves.data()) : floats.data();
    const size_t bytes = halves.size() * 2 + floats.size() * 4;
    SKALD_CUDA(cudaMemcpy(to, out.as<void>(), bytes, cudaMemcpyDeviceToHost));
    return gated ? as_floats(halves) : floats;
  };
  const std::vector<float> own = run(By::Own), pairs = run(By::Pairs);
  INFO(name(format) << " of a pair with " << name(other) << ", " << outs << " x " << ins);
  CHECK(relative_error(pairs, own) < 2e-4);
  CHECK(run(By::Pairs) == pairs);
}

}  // namespace

TEST_CASE("pieces of a product beside one another, or as one, give what they give apart") {
  const int rows = GENERATE(3, 9, 40, 130);
  const DType second = GENERATE(DType::Q6_K, DType::Q5_0);
  check_beside(rows, DType::Q4_K, second, false, 20);
}

TEST_CASE("pieces whose blocks leave room for a block of attention") {
  const int rows = GENERATE(2, 8, 16, 32);
  check_beside(rows, DType::Q4_K, DType::Q6_K, true, 5);
}

TEST_CASE("two pieces of few rows beside one another", "[small]") {
  check_beside(9, DType::Q4_K, DType::Q6_K, false, 1);
  check_beside(33, DType::Q5_K, DType::Q6_K, true, 1);
}

TEST_CASE("a pair's kernel gives what its formats' own give, of both matrices and of one") {
  const DType first = GENERATE(DType::Q4_K, DType::Q6_K, DType::Q3_K);
  check_pair(first, 1200, 3);
  check_pair(first, 17000, 1);  // enough groups that blocks draw some
}

TEST_CASE("a pair's kernel gives what a matrix's own kernel gives, with every epilogue") {
  for (const auto& [format, other] :
       {std::pair(DType::Q4_K, DType::Q6_K), std::pair(DType::Q6_K, DType::Q4_K)}) {
    check_one(format, other, 272, 14336, cuda::Epilogue::AddTo);
    check_one(format, other, 528, 4096, cuda::Epilogue::Gated);
    check_one(format, other, 17000, 4096, cuda::Epilogue::Logits);
    check_one(format, other, 5, 4096, cuda::Epilogue::AddTo);
  }
}

TEST_CASE("a small pair of unlike formats as one launch", "[small]") {
  check_pair(DType::Q4_K, 400, 1);
  check_pair(DType::Q6_K, 400, 1);
}

}  // namespace skald::test
