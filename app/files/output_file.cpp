#include "app/files/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {

OutputFile::OutputFile(const std::string& path) : name_(printable(path)) {
  constexpr mode_t kMode = 0666;  // less the umask
  fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode);
  if (fd_ < 0) fail(Exit::Usage, name_, ": cannot be written: ", std::strerror(errno));
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) close(fd_);
}

void OutputFile::write(std::string_view bytes) {
  constexpr size_t kMostPending = size_t{1} << 20;
  pending_ += bytes;
  if (pending_.size() >= kMostPending) flush();
}

void OutputFile::flush() {
  std::string_view left = pending_;
  while (!left.empty()) {
    const ssize_t written = ::write(fd_, left.data(), left.size());
    if (written >= 0) {
      left.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EPIPE) {
      fail(Exit::Closed, "the reader of ", name_, " went away");
    } else if (errno != EINTR) {
      fail(Exit::Failed, name_, ": cannot be written: ", std::strerror(errno));
    }
  }
  pending_.clear();
}

void OutputFile::finish() {
  flush();
  // Some file systems say only here that the disk is full.
  if (close(std::exchange(fd_, -1)) != 0 && errno != EINTR) {
    fail(Exit::Failed, name_, ": cannot be written: ", std::strerror(errno));
  }
}

}  // namespace skald
