#include "app/files/open.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "app/files/signals.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

constexpr int kWaitMilliseconds = 50;  // between looks at whether the program was interrupted

bool is_fifo(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && S_ISFIFO(status.st_mode);
}

void fail_if_interrupted(const std::string& path, int fd) {
  if (interrupted_by()) {
    if (fd >= 0) ::close(fd);
    fail_interrupted("while opening " + printable(path));
  }
}

}  // namespace

int open_waiting(const std::string& path, int flags, mode_t mode) {
  flags |= O_CLOEXEC;
  if (!is_fifo(path)) return ::open(path.c_str(), flags, mode);
  // A reader gets its descriptor at once, and a writer ENXIO while nobody reads.
  int fd = ::open(path.c_str(), flags | O_NONBLOCK, mode);
  while (fd < 0 && (errno == ENXIO || errno == EINTR)) {
    fail_if_interrupted(path, fd);
    ::poll(nullptr, 0, kWaitMilliseconds);
    fd = ::open(path.c_str(), flags | O_NONBLOCK, mode);
  }
  if (fd < 0) return fd;
  if ((flags & O_ACCMODE) == O_RDONLY) {
    pollfd ready{fd, POLLIN, 0};
    while (::poll(&ready, 1, kWaitMilliseconds) <= 0) fail_if_interrupted(path, fd);
  }
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  return fd;
}

}  // namespace skald
