// Opens many damaged files in a child process that may use little memory. Each file must load or
// end in one clear Error. A crash, another exception, or an allocation of a size that the file
// claims ends the child, and the test names the file.
#pragma once

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/program/weights.h"
#include "engine/quant/dtype.h"
#include "tests/catch.h"
#include "tests/paths.h"
#include "tests/temp_folder.h"

namespace skald::test {

// Not under sanitizers: they reserve terabytes of address space, so that a limit would stop them at
// once.
inline void limit_memory_growth(uint64_t bytes) {
  if (sanitized()) return;
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const uint64_t limit = pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) + bytes;
  const rlimit both = {limit, limit};
  if (::setrlimit(RLIMIT_AS, &both) != 0) std::abort();
}

// True when `open` succeeds, false when it throws an Error with Exit::Model and a readable message.
// Throws in every other case.
inline bool loads_or_refuses(const std::function<void()>& open) {
  try {
    open();
    return true;
  } catch (const Error& error) {
    const std::string message = error.what();
    if (error.code() != Exit::Model) throw std::runtime_error("wrong exit code: " + message);
    if (message.size() < 12 || message.size() > 2000)
      throw std::runtime_error("bad size: " + message);
    for (unsigned char c : message) {
      if (c < 0x20 || c == 0x7f) throw std::runtime_error("control character in the message");
    }
    return false;
  }
}

struct HostileResult {
  int loaded = 0;
  int refused = 0;
};

// Runs open(0) ... open(count - 1) in one child that may grow by 64 MiB.
inline HostileResult open_in_child(int count, const std::function<void(int)>& open) {
  struct Shared {
    int at, loaded, refused;
    char problem[1000];
  };
  void* memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  auto* shared = new (memory) Shared{};
  std::fflush(nullptr);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    limit_memory_growth(64 << 20);
    try {
      for (shared->at = 0; shared->at < count; ++shared->at) {
        const bool loaded = loads_or_refuses([&] { open(shared->at); });
        ++(loaded ? shared->loaded : shared->refused);
      }
    } catch (const std::exception& error) {
      std::snprintf(shared->problem, sizeof(shared->problem), "%s", error.what());
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  const Shared result = *shared;
  ::munmap(memory, sizeof(Shared));
  INFO("case " << result.at << ": " << result.problem << ", status " << status);
  REQUIRE(status == 0);
  REQUIRE(result.loaded + result.refused == count);
  return {result.loaded, result.refused};
}

// Sizes and counts where signed and unsigned numbers of 32 and 64 bits overflow.
inline const std::vector<uint64_t> kSizeEdges = {
    (1ull << 31) - 1, 1ull << 31,       (1ull << 32) - 1, 1ull << 32, 1ull << 40, 1ull << 61,
    1ull << 62,       (1ull << 63) - 1, 1ull << 63,       ~0ull - 31, ~0ull - 7,  ~0ull,
};

// Decodes every row of every tensor, so that each byte is read.
inline void decode_all(const WeightFile& file) {
  for (const Tensor& tensor : file.tensors()) {
    std::vector<float> row(static_cast<size_t>(tensor.view.cols));
    for (int64_t r = 0; r < tensor.view.rows; ++r) {
      info(tensor.view.type).decode_row(tensor.view.row(r), row.data(), tensor.view.cols);
    }
  }
}

using OpenFile = std::function<void(const std::filesystem::path&)>;

// Opens the file cut to every length below its own.
inline HostileResult open_cut(const std::string& whole, const OpenFile& open) {
  const TempFolder folder;
  return open_in_child(static_cast<int>(whole.size()), [&](int size) {
    open(folder.write("cut", std::string_view(whole).substr(0, static_cast<size_t>(size))));
  });
}

// Opens the file with each of its first `bits` bits flipped.
inline HostileResult open_flipped(const std::string& whole, int bits, const OpenFile& open) {
  const TempFolder folder;
  return open_in_child(bits, [&](int bit) {
    std::string flipped = whole;
    char& byte = flipped[static_cast<size_t>(bit / 8)];
    byte = static_cast<char>(byte ^ 1 << (bit % 8));
    open(folder.write("flipped", flipped));
  });
}

}  // namespace skald::test
