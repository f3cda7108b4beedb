#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "cuda/cuda.h"
#include "cuda/gpu/architectures.h"
#include "cuda/gpu/check.h"
#include "cuda/gpu/cublas_library.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/cpu/machine.h"

namespace skald::cuda {
namespace {

std::string version_text(int version) { return concat(version / 1000, ".", version % 1000 / 10); }

std::string why_none(cudaError_t status, const System& system) {
  if (status == cudaSuccess || status == cudaErrorNoDevice) {
    return "no GPU is visible; look at nvidia-smi and CUDA_VISIBLE_DEVICES";
  }
  if (status != cudaErrorInsufficientDriver) {
    return concat("CUDA does not start: ", cudaGetErrorString(status));
  }
  if (system.driver_version == 0) return "no NVIDIA driver is installed";
  return concat("the NVIDIA driver is too old: it knows CUDA ", version_text(system.driver_version),
                ", and this skald needs ", system.runtime_version / 1000, ".0");
}

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  if (cudaDeviceGetAttribute(&value, which, device) != cudaSuccess) return 0;
  return value;
}

Sharing sharing_of(int device) {
  switch (attribute(cudaDevAttrComputeMode, device)) {
    case cudaComputeModeProhibited:
      return Sharing::Prohibited;
    case cudaComputeModeExclusive:
    case cudaComputeModeExclusiveProcess:
      return Sharing::Exclusive;
    default:
      return Sharing::Shared;
  }
}

// The rate, in bytes per second, at which copies from page-locked memory reach the device. 0: not
// known.
double link_speed(int device) {
  // Copies reach this share of what the link's width and generation allow: 55.6 of 63 GB/s on an
  // H100.
  constexpr double kReached = 0.88;
  char bus[32] = {};
  if (cudaDeviceGetPCIBusId(bus, sizeof bus, device) != cudaSuccess) return 0;
  std::string name = bus;
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const std::filesystem::path folder = "/sys/bus/pci/devices/" + name;
  std::ifstream width(folder / "current_link_width"), speed(folder / "max_link_speed");
  double transfers = 0, lanes = 0;  // "32.0 GT/s PCIe", "16"
  if (!(speed >> transfers) || !(width >> lanes)) return 0;
  // The slot may be slower than the card.
  std::error_code error;
  const std::filesystem::path slot = std::filesystem::canonical(folder, error).parent_path();
  std::ifstream slot_speed(slot / "max_link_speed");
  if (double of_slot = 0; slot_speed >> of_slot) transfers = std::min(transfers, of_slot);
  constexpr double kBitsPerByte = 8;
  return kReached * transfers * 1e9 * lanes / kBitsPerByte;
}

void set_problem(DeviceInfo& gpu, cudaError_t status) {
  gpu.error = cudaGetErrorName(status);
  gpu.problem = concat("CUDA does not start on it: ", cudaGetErrorString(status));
}

void look(DeviceInfo& gpu) {
  cudaDeviceProp properties;
  cudaError_t status = cudaGetDeviceProperties(&properties, gpu.index);
  if (status != cudaSuccess) return set_problem(gpu, status);
  gpu.name = properties.name;
  gpu.compute_capability = properties.major * 10 + properties.minor;
  gpu.multiprocessors = properties.multiProcessorCount;
#if CUDART_VERSION >= 12040
  gpu.mps = attribute(cudaDevAttrMpsEnabled, gpu.index) != 0;
#endif
  gpu.total_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  gpu.code = code_for(SKALD_CUDA_ARCHITECTURES, gpu.compute_capability);
  gpu.sharing = sharing_of(gpu.index);
  gpu.ecc = attribute(cudaDevAttrEccEnabled, gpu.index) != 0;

  size_t free = 0, total = 0;
  status = cudaSetDevice(gpu.index);
  if (status == cudaSuccess) status = cudaMemGetInfo(&free, &total);
  if (status != cudaSuccess) return set_problem(gpu, status);
  gpu.free_bytes = static_cast<int64_t>(free);
  gpu.total_bytes = static_cast<int64_t>(total);
  gpu.host_bytes = cpu::lockable_memory();
  gpu.link_bytes_per_second = link_speed(gpu.index);

  int driver = 0;
  cudaDriverGetVersion(&driver);
  if (gpu.code == Code::None) {
    gpu.problem =
        concat("this skald holds no code for its compute capability ",
               version_text(gpu.compute_capability * 100), ", only ", SKALD_CUDA_ARCHITECTURES);
  } else if (gpu.code == Code::Ptx && driver < CUDART_VERSION) {
    gpu.problem =
        concat("this skald holds only PTX for it, which a driver for CUDA ", version_text(driver),
               " cannot compile; it needs ", version_text(CUDART_VERSION));
  }
}

}  // namespace

bool built() { return true; }

System look_at_system() {
  System system;
  system.built = true;
  system.toolkit = SKALD_CUDA_TOOLKIT;
  system.architectures = SKALD_CUDA_ARCHITECTURES;
  cudaRuntimeGetVersion(&system.runtime_version);
  cudaDriverGetVersion(&system.driver_version);
  const cudaError_t status = cudaGetDeviceCount(&system.devices);
  if (status != cudaSuccess || system.devices == 0) {
    cudaGetLastError();
    system.devices = 0;
    system.error = cudaGetErrorName(status == cudaSuccess ? cudaErrorNoDevice : status);
    system.problem = why_none(status, system);
  } else if (!cublas_problem().empty()) {
    system.devices = 0;
    system.missing_library = cublas_name();
    system.problem = concat("a library of CUDA cannot be loaded: ", cublas_problem());
  }
  return system;
}

DeviceInfo look_at_device(int index) {
  DeviceInfo gpu;
  gpu.index = index;
  // The current device belongs to a thread, and setting it back would start CUDA there.
  std::thread([&] { look(gpu); }).join();
  return gpu;
}

DeviceInfo describe_device(int device) {
  DeviceInfo gpu;
  gpu.index = device;
  look(gpu);
  if (gpu.problem.empty()) return gpu;
  fail(gpu.error == cudaGetErrorName(cudaErrorMemoryAllocation) ? Exit::Memory : Exit::Failed,
       "cuda:", device, " (", printable(gpu.name), "): ", gpu.problem, "; skald doctor says more");
}

Devices list_devices() {
  const System system = look_at_system();
  Devices found{{}, system.problem};
  for (int i = 0; i < system.devices; ++i) found.devices.push_back(look_at_device(i));
  return found;
}

}  // namespace skald::cuda
