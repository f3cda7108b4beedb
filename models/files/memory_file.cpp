#include "models/files/memory_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "engine/base/error.h"

namespace skald {
namespace {

[[noreturn]] void fail_by_system() {
  fail(Exit::Failed, "cannot create a file in memory to check the output: ",
       std::generic_category().message(errno));
}

}  // namespace

MemoryFile::MemoryFile(std::string_view head, int64_t bytes)
    : fd_(::memfd_create("skald", MFD_CLOEXEC)) {
  if (fd_ < 0) fail_by_system();
  try {
    if (::ftruncate(fd_, bytes) != 0) fail_by_system();
    write(0, std::as_bytes(std::span(head)));
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

MemoryFile::~MemoryFile() { ::close(fd_); }

void MemoryFile::write(int64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (written <= 0) fail_by_system();
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += written;
  }
}

std::filesystem::path MemoryFile::path() const { return concat("/proc/self/fd/", fd_); }

}  // namespace skald
