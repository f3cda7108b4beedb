// Speeds of a GPU's memory and of its link to the host.
#include <algorithm>
#include <vector>

#include "cuda/cuda.h"
#include "cuda/exchange/peer_threads.h"
#include "cuda/gpu/check.h"
#include "cuda/gpu/graphs.h"
#include "cuda/gpu/memory.h"
#include "cuda/kernels/exchange/all_reduce.h"
#include "cuda/kernels/pointwise/pointwise.h"

namespace skald::cuda {
namespace {

constexpr int kPasses = 6;
constexpr const char* kPurpose = "the bandwidth measurement";

// The time of the fastest pass: other work on the GPU can only slow a pass down.
template <class Fn>
double best_seconds(const Fn& enqueue, Stream stream = nullptr) {
  const TimedEventOwner start, end;
  float best_ms = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    SKALD_CUDA(cudaEventRecord(start, stream));
    enqueue();
    SKALD_CUDA(cudaEventRecord(end, stream));
    SKALD_CUDA(cudaEventSynchronize(end));
    float ms = 0;
    SKALD_CUDA(cudaEventElapsedTime(&ms, start, end));
    if (best_ms == 0 || ms < best_ms) best_ms = ms;
  }
  return best_ms * 1e-3;
}

// Far more than the caches hold, but at most half of the free memory: others may need some.
int64_t buffer_bytes() {
  constexpr int64_t kMost = int64_t{4} << 30;
  size_t free = 0, total = 0;
  SKALD_CUDA(cudaMemGetInfo(&free, &total));
  const int64_t bytes = std::min(kMost, static_cast<int64_t>(free) / 2) >> 20 << 20;
  if (bytes == 0) fail(Exit::Memory, "no memory for ", kPurpose, ": the GPU's is full");
  return bytes;
}

double read_rate(const DeviceMemory& memory, int device) {
  constexpr int kBlocksEach = 4;
  int multiprocessors = 0;
  SKALD_CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  const int blocks = kBlocksEach * multiprocessors;
  DeviceMemory sums(blocks * int64_t{sizeof(unsigned)}, kPurpose);
  SKALD_CUDA(cudaMemset(memory.as<void>(), 0x5a, static_cast<size_t>(memory.bytes())));
  SKALD_CUDA(cudaMemset(sums.as<void>(), 0, static_cast<size_t>(sums.bytes())));
  return static_cast<double>(memory.bytes()) / best_seconds([&] {
           launch_read(memory.as<void>(), memory.bytes(), sums.as<unsigned>(), blocks, nullptr);
         });
}

double copy_rate(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind) {
  return static_cast<double>(bytes) / best_seconds([&] {
           SKALD_CUDA(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, nullptr));
         });
}

bool linked(std::span<const int> devices) {
  for (const int from : devices) {
    for (const int to : devices) {
      if (from == to) continue;
      int atomics = 0;  // over PCIe, GPUs have none on each other's memory
      SKALD_CUDA(
          cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, from, to));
      if (!atomics) return false;
    }
  }
  return true;
}

// The seconds of one sum of `count` numbers, of `times` in a captured graph.
double sum_seconds(PeerThreads& threads, int64_t count, int times) {
  std::vector<double> seconds(static_cast<size_t>(threads.ranks()));
  threads.run([&](int rank, const MailLinks& mail, Stream stream) {
    const DeviceMemory numbers(count * 4, kPurpose);
    SKALD_CUDA(cudaMemset(numbers.as<void>(), 0, static_cast<size_t>(numbers.bytes())));
    AllReduceLaunch launch = {};
    launch.in = launch.out = numbers.as<float>();
    launch.count = count;
    launch.rounds = true;
    launch.mail = mail;
    Graphs graphs;
    const auto sums = [&] {
      for (int time = 0; time < times; ++time) launch_all_reduce(launch, stream);
    };
    const auto enqueue = [&] { graphs.run({times, 0}, stream, sums); };
    for (int pass = 0; pass < 2; ++pass) enqueue();  // captures the graph
    seconds[static_cast<size_t>(rank)] = best_seconds(enqueue, stream) / times;
  });
  return *std::max_element(seconds.begin(), seconds.end());
}

}  // namespace

double measure_read_bandwidth(int device) {
  SKALD_CUDA(cudaSetDevice(device));
  return read_rate(DeviceMemory(buffer_bytes(), kPurpose), device);
}

Speeds measure_speeds(int device) {
  SKALD_CUDA(cudaSetDevice(device));
  const DeviceMemory memory(buffer_bytes(), kPurpose);
  Speeds speeds;
  speeds.read = read_rate(memory, device);
  std::byte* data = memory.as<std::byte>();
  const int64_t half = memory.bytes() / 2;
  speeds.copy = 2 * copy_rate(data + half, data, half, cudaMemcpyDeviceToDevice);
  const PinnedMemory host(std::min(half, int64_t{256} << 20), kPurpose);
  speeds.from_host = copy_rate(data, host.as<void>(), host.bytes(), cudaMemcpyHostToDevice);
  speeds.to_host = copy_rate(host.as<void>(), data, host.bytes(), cudaMemcpyDeviceToHost);
  return speeds;
}

ExchangeSpeeds measure_exchange(std::span<const int> devices) {
  constexpr int64_t kFew = 2048, kMany = int64_t{16} << 20;
  PeerThreads threads({devices.begin(), devices.end()});
  ExchangeSpeeds speeds;
  speeds.direct = !threads.exchange().through_host();
  speeds.nvlink = speeds.direct && linked(devices);
  speeds.seconds_few = sum_seconds(threads, kFew, 200);
  // Long sums travel in 16 bits.
  speeds.bytes_per_second = static_cast<double>(kMany) * 2 / sum_seconds(threads, kMany, 4);
  return speeds;
}

}  // namespace skald::cuda
