#include "app/files/jsonl_output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

constexpr int64_t kWindowBytes = 1 << 16;  // read at a time where lines are copied

// 0, or the errno that ended it.
int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd ready{fd, POLLOUT, 0};
      poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

[[noreturn]] void fail_there(const std::string& name) {
  fail(Exit::Usage, name,
       ": is there already and is not overwritten; go on with it by --resume, or name another "
       "file");
}

// Lines of a file, wherever they begin; cheap where one follows the other.
class LineCopier {
 public:
  explicit LineCopier(const JsonlOutput& from) : from_(from) {}

  // 0, or the errno that ended it.
  int copy(int64_t offset, int to) {
    for (bool ended = false; !ended;) {
      if (offset < start_ || offset >= start_ + static_cast<int64_t>(window_.size())) {
        start_ = offset;
        window_ = from_.read(offset, kWindowBytes);
      }
      std::string_view part = std::string_view(window_).substr(offset - start_);
      const size_t newline = part.find('\n');
      ended = newline != part.npos || part.empty();
      if (newline != part.npos) part = part.substr(0, newline + 1);
      offset += static_cast<int64_t>(part.size());
      const int problem = write_all(to, part);
      if (problem != 0) return problem;
    }
    return 0;
  }

 private:
  const JsonlOutput& from_;
  std::string window_;
  int64_t start_ = 0;
};

}  // namespace

void check_output(const std::string& path, Existing existing) {
  struct stat there = {};
  const bool regular = stat(path.c_str(), &there) == 0 && S_ISREG(there.st_mode);
  if (regular && path != "-" && existing == Existing::Refuse) fail_there(printable(path));
}

JsonlOutput::JsonlOutput(const std::string& path, Existing existing)
    : path_(path), name_(path == "-" ? "stdout" : printable(path)) {
  if (path == "-") {
    fd_ = STDOUT_FILENO;
  } else {
    open_file(existing);
  }
}

JsonlOutput::~JsonlOutput() {
  if (owned_) close(fd_);
}

struct stat JsonlOutput::status() const {
  struct stat status = {};
  fstat(fd_, &status);
  return status;
}

void JsonlOutput::open_file(Existing existing) {
  constexpr mode_t kMode = 0666;  // less the umask
  const int flags = O_RDWR | O_APPEND | O_CLOEXEC;
  fd_ = open(path_.c_str(), flags | O_CREAT | O_EXCL, kMode);
  if (fd_ < 0 && errno == EEXIST) {
    struct stat there = {};
    const bool regular = stat(path_.c_str(), &there) != 0 || S_ISREG(there.st_mode);
    if (regular && existing == Existing::Refuse) fail_there(name_);
    // A pipe or a device cannot be read back.
    fd_ = open(path_.c_str(), regular ? flags | O_CREAT : O_WRONLY | O_CLOEXEC, kMode);
  }
  if (fd_ < 0) fail(Exit::Usage, name_, ": cannot be written: ", std::strerror(errno));
  owned_ = true;
  const struct stat opened = status();
  file_ = S_ISREG(opened.st_mode);
  bytes_ = file_ ? opened.st_size : 0;
  if (file_) lock();
}

void JsonlOutput::lock() {
  // Some network file systems have no locks; then there is none.
  if (flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    close(fd_);
    fail(Exit::Usage, name_, ": another skald is writing to it");
  }
}

int64_t JsonlOutput::append(std::string_view line) {
  line_.assign(line);
  line_ += '\n';
  const int problem = write_all(fd_, line_);
  if (problem == 0) {
    const int64_t start = bytes_;
    bytes_ += static_cast<int64_t>(line_.size());
    return start;
  }
  if (problem == EPIPE) fail(Exit::Closed, "the reader of ", name_, " went away");
  const bool whole = file_ && ftruncate(fd_, bytes_) == 0;
  fail(Exit::Failed, name_, ": cannot be written: ", std::strerror(problem),
       whole ? "; all lines before are whole: make room and go on with --resume" : "");
}

std::string JsonlOutput::read(int64_t offset, int64_t most) const {
  std::string bytes(static_cast<size_t>(most), '\0');
  size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t count =
        pread(fd_, bytes.data() + have, bytes.size() - have, offset + static_cast<int64_t>(have));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(Exit::Failed, name_, ": cannot be read: ", std::strerror(errno));
    if (count == 0) break;
    have += static_cast<size_t>(count);
  }
  bytes.resize(have);
  return bytes;
}

void JsonlOutput::truncate(int64_t bytes) {
  if (ftruncate(fd_, bytes) != 0) {
    fail(Exit::Failed, name_, ": cannot be cut: ", std::strerror(errno));
  }
  bytes_ = bytes;
}

void JsonlOutput::sync() {
  // Of what a pipe or a terminal says to it nothing follows.
  if (file_ && fdatasync(fd_) != 0 && errno != EINVAL) {
    fail(Exit::Failed, name_, ": cannot be written: ", std::strerror(errno));
  }
}

void JsonlOutput::rearrange(std::span<const int64_t> line_starts) {
  const std::string path = path_ + ".rearranged", name = printable(path);
  const int fd = open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) fail(Exit::Failed, name, ": cannot be written: ", std::strerror(errno));
  try {
    LineCopier copier(*this);
    for (const int64_t start : line_starts) {
      const int problem = copier.copy(start, fd);
      if (problem == 0) continue;
      fail(Exit::Failed, name, ": cannot be written: ", std::strerror(problem), "; ", name_,
           " holds all results, but not in order: make room and repeat with --resume");
    }
    const struct stat old = status();
    const bool done = fchmod(fd, old.st_mode & 07777) == 0 && fsync(fd) == 0 &&
                      rename(path.c_str(), path_.c_str()) == 0;
    if (!done) fail(Exit::Failed, name_, ": cannot be replaced: ", std::strerror(errno));
  } catch (...) {
    close(fd);
    unlink(path.c_str());
    throw;
  }
  close(fd_);
  fd_ = fd;
  bytes_ = status().st_size;
  lock();
}

}  // namespace skald
