#include "app/files/atomic_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

fs::path behind_links(const fs::path& path) {
  std::error_code error;
  const fs::path target = fs::weakly_canonical(path, error);
  return error ? path : target;
}

}  // namespace

AtomicFile::AtomicFile(const fs::path& path) : path_(behind_links(path)) {
  std::error_code error;
  const fs::file_status status = fs::status(path_, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    fail(Exit::Failed, printable(path_.string()), ": is no regular file and cannot be replaced");
  }
  temporary_ = path_.string() + ".XXXXXX";
  fd_ = ::mkostemp(temporary_.data(), O_CLOEXEC);
  if (fd_ < 0) fail_to("cannot be written");
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::fail_to(const char* what) const {
  fail(Exit::Failed, printable(path_.string()), ": ", what, ": ", std::strerror(errno));
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  constexpr size_t kMostAtOnce = 1 << 30;
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd_, bytes.data(), std::min(bytes.size(), kMostAtOnce));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_to("cannot be written");
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

void AtomicFile::commit() {
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_to("cannot be replaced");
  ::close(fd_);
  fd_ = -1;
}

void check_writable(const fs::path& path) { AtomicFile{path}; }

}  // namespace skald
