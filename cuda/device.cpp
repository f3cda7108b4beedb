#include "cuda/device.h"
#include "cuda/check.h"
#include "cuda/cuda.h"
#include "cuda/kernels/pointwise.h"
#include "cuda/memory.h"

namespace skald::cuda {

DeviceInfo describe_device(int device) {
  cudaDeviceProp properties;
  SKALD_CUDA(cudaGetDeviceProperties(&properties, device));
  size_t free = 0, total = 0;
  SKALD_CUDA(cudaMemGetInfo(&free, &total));
  return {device,
          properties.name,
          properties.major * 10 + properties.minor,
          properties.multiProcessorCount,
          static_cast<int64_t>(total),
          static_cast<int64_t>(free)};
}

Devices list_devices() {
  Devices found;
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    cudaGetLastError();
    found.problem = status == cudaErrorNoDevice || status == cudaSuccess
                        ? "no GPU is visible; look at nvidia-smi and CUDA_VISIBLE_DEVICES"
                    : status == cudaErrorInsufficientDriver
                        ? "no NVIDIA driver, or one older than this skald's CUDA needs"
                        : concat("CUDA does not start: ", cudaGetErrorString(status));
    return found;
  }
  for (int i = 0; i < count; ++i) {
    SKALD_CUDA(cudaSetDevice(i));
    found.devices.push_back(describe_device(i));
  }
  return found;
}

double measure_read_bandwidth(int device) {
  SKALD_CUDA(cudaSetDevice(device));
  constexpr int64_t kBytes = int64_t{4} << 30;
  constexpr int kPasses = 6, kBlocksEach = 4;
  int multiprocessors = 0;
  SKALD_CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  const int blocks = kBlocksEach * multiprocessors;
  DeviceMemory memory(kBytes, "the bandwidth measurement");
  DeviceMemory sums(blocks * int64_t{sizeof(unsigned)}, "the bandwidth measurement");
  SKALD_CUDA(cudaMemset(memory.as<void>(), 0x5a, kBytes));
  SKALD_CUDA(cudaMemset(sums.as<void>(), 0, static_cast<size_t>(sums.bytes())));
  cudaEvent_t start, end;
  SKALD_CUDA(cudaEventCreate(&start));
  SKALD_CUDA(cudaEventCreate(&end));
  float best_ms = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    SKALD_CUDA(cudaEventRecord(start, nullptr));
    launch_read(memory.as<void>(), kBytes, sums.as<unsigned>(), blocks, nullptr);
    SKALD_CUDA(cudaEventRecord(end, nullptr));
    SKALD_CUDA(cudaEventSynchronize(end));
    float ms = 0;
    SKALD_CUDA(cudaEventElapsedTime(&ms, start, end));
    if (best_ms == 0 || ms < best_ms) best_ms = ms;
  }
  cudaEventDestroy(start);
  cudaEventDestroy(end);
  return static_cast<double>(kBytes) / (best_ms * 1e-3);
}

}  // namespace skald::cuda
