#include "app/files/write.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace skald {

int write_all(int fd, std::string_view bytes, int64_t offset) {
  constexpr size_t kMostAtOnce = 1 << 30;  // write() takes no more than 2 GiB
  while (!bytes.empty()) {
    const size_t count = std::min(bytes.size(), kMostAtOnce);
    const ssize_t written =
        offset < 0 ? ::write(fd, bytes.data(), count) : ::pwrite(fd, bytes.data(), count, offset);
    if (written > 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
      if (offset >= 0) offset += written;
    } else if (written == 0) {
      return EIO;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd ready{fd, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

void sync_folder_of(const std::filesystem::path& file) {
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

}  // namespace skald
