#include "models/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

int64_t changed_ns(const struct stat& status) {
  return int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

const char* kind(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(printable(path.native(), 4096)) {
  const auto refuse = [&](auto&&... what) {
    if (fd_ >= 0) ::close(fd_);
    fail(Exit::Model, path_, ": ", what...);
  };
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd_ < 0) refuse("cannot be opened: ", reason(errno));
  struct stat status = {};
  if (::fstat(fd_, &status) != 0) refuse("cannot be examined: ", reason(errno));
  if (!S_ISREG(status.st_mode)) refuse("is ", kind(status.st_mode), ", expected a file");
  if (status.st_size == 0) refuse("is empty; was the download interrupted?");
  const auto size = static_cast<size_t>(status.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd_, 0);
  if (address == MAP_FAILED) refuse("cannot be mapped (", size, " bytes): ", reason(errno));
  bytes_ = {static_cast<const std::byte*>(address), size};
  changed_ns_ = changed_ns(status);
}

MappedFile::~MappedFile() {
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  ::close(fd_);
}

void MappedFile::check_whole() const {
  struct stat status = {};
  if (::fstat(fd_, &status) != 0) {
    fail(Exit::Model, path_, ": cannot be examined any more: ", reason(errno));
  }
  if (static_cast<size_t>(status.st_size) != bytes_.size()) {
    fail(Exit::Model, path_, ": had ", bytes_.size(), " bytes when it was opened and has ",
         status.st_size, " now; wait until nothing writes to it and start again");
  }
  if (changed_ns(status) != changed_ns_) {
    fail(Exit::Model, path_,
         ": was changed after it was opened; wait until nothing writes to it and start again");
  }
}

void drop_pages(std::span<const std::byte> mapped) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(mapped.data());
  const uintptr_t first = (begin + page - 1) / page * page;
  const uintptr_t end = (begin + mapped.size()) / page * page;
  if (first < end) ::madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

}  // namespace skald
