#include "app/perplexity/stored_rows.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {

StoredRows::StoredRows(const std::string& path) : name_(printable(path)) {
  fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status = {};
  if (fd_ < 0 || fstat(fd_, &status) != 0) {
    fail(Exit::Usage, name_, ": cannot be opened: ", std::strerror(errno));
  }
  size_ = status.st_size;
}

StoredRows::~StoredRows() { close(fd_); }

void StoredRows::read(int64_t offset, std::span<std::byte> bytes) const {
  if (offset < 0 || offset > size_ || std::ssize(bytes) > size_ - offset) {
    fail(Exit::Failed, name_, ": ends at byte ", size_, ", but ", bytes.size(),
         " bytes are needed at ", offset, "; it is incomplete, write it again");
  }
  while (!bytes.empty()) {
    const ssize_t count = pread(fd_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      fail(Exit::Failed, name_,
           ": cannot be read: ", count < 0 ? std::strerror(errno) : "it was truncated meanwhile");
    }
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += count;
  }
}

}  // namespace skald
