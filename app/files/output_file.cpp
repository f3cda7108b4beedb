#include "app/files/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "app/files/atomic_file.h"
#include "app/files/open.h"
#include "app/files/write.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

[[noreturn]] void fail_there(const std::string& name) {
  fail(Exit::Usage, name,
       ": is there already and is not overwritten; go on with it by --resume, or name another "
       "file");
}

// Copies lines of a file, in any order. It is fast if each line follows the one before.
class LineCopier {
 public:
  explicit LineCopier(const OutputFile& from) : output_(from) {}

  void copy(int64_t offset, AtomicFile& to) {
    constexpr int64_t kWindowBytes = 1 << 16;
    for (bool ended = false; !ended;) {
      if (offset < start_ || offset >= start_ + static_cast<int64_t>(window_.size())) {
        start_ = offset;
        window_ = output_.read(offset, kWindowBytes);
      }
      std::string_view part = std::string_view(window_).substr(offset - start_);
      const size_t newline = part.find('\n');
      ended = newline != part.npos || part.empty();
      if (newline != part.npos) part = part.substr(0, newline + 1);
      offset += static_cast<int64_t>(part.size());
      to.write(part);
    }
  }

 private:
  const OutputFile& output_;
  std::string window_;
  int64_t start_ = 0;
};

}  // namespace

void check_output(const std::string& path, Existing existing) {
  struct stat there = {};
  const bool regular = stat(path.c_str(), &there) == 0 && S_ISREG(there.st_mode);
  if (regular && path != "-" && existing == Existing::Refuse) fail_there(printable(path));
}

OutputFile::OutputFile(const std::string& path, Existing existing, std::shared_ptr<FileClaim> claim)
    : path_(path),
      name_(path == "-" && existing != Existing::Replace ? "stdout" : printable(path)),
      existing_(existing),
      claim_(std::move(claim)) {
  if (path == "-" && existing != Existing::Replace) {
    fd_ = STDOUT_FILENO;
  } else {
    if (!claim_) claim_ = claim_file(path);
    open_file();
  }
}

OutputFile::~OutputFile() {
  if (owned_ && fd_ >= 0) close(fd_);
}

struct stat OutputFile::status() const {
  struct stat status = {};
  fstat(fd_, &status);
  return status;
}

void OutputFile::open_file() {
  constexpr mode_t kMode = 0666;  // less the umask
  if (existing_ == Existing::Replace) {
    fd_ = open_waiting(path_, O_WRONLY | O_CREAT | O_TRUNC, kMode);
  } else {
    const int flags = O_RDWR | O_APPEND;
    fd_ = open_waiting(path_, flags | O_CREAT | O_EXCL, kMode);
    named_ = fd_ < 0;
    if (fd_ < 0 && errno == EEXIST) {
      struct stat there = {};
      const bool regular = stat(path_.c_str(), &there) != 0 || S_ISREG(there.st_mode);
      if (regular && existing_ == Existing::Refuse) fail_there(name_);
      // A pipe or a device cannot be read back.
      fd_ = open_waiting(path_, regular ? flags | O_CREAT : O_WRONLY, kMode);
    }
  }
  if (fd_ < 0) fail(Exit::Failed, name_, ": cannot be written: ", std::strerror(errno));
  owned_ = true;
  const struct stat opened = status();
  file_ = S_ISREG(opened.st_mode);
  bytes_ = file_ ? opened.st_size : 0;
}

void OutputFile::fail_write(int error, const char* advice) const {
  if (error == EPIPE) fail(Exit::Closed, "the reader of ", name_, " went away");
  fail(Exit::Failed, name_, ": cannot be written: ", std::strerror(error), advice);
}

int64_t OutputFile::append(std::string_view line) {
  line_.assign(line);
  line_ += '\n';
  if (const int error = write_all(fd_, line_)) {
    const bool whole = file_ && ftruncate(fd_, bytes_) == 0 && existing_ != Existing::Replace;
    fail_write(error,
               whole ? "; all lines before are whole: make room and go on with --resume" : "");
  }
  const int64_t start = bytes_;
  bytes_ += static_cast<int64_t>(line_.size());
  return start;
}

void OutputFile::write(std::string_view bytes) {
  constexpr size_t kMostPending = size_t{1} << 20;
  pending_ += bytes;
  if (pending_.size() >= kMostPending) flush();
}

void OutputFile::flush() {
  if (const int error = write_all(fd_, pending_)) fail_write(error);
  bytes_ += static_cast<int64_t>(pending_.size());
  pending_.clear();
}

void OutputFile::finish() {
  flush();
  // Some file systems say only here that the disk is full.
  if (owned_ && close(std::exchange(fd_, -1)) != 0 && errno != EINTR) fail_write(errno);
  claim_.reset();
}

std::string OutputFile::read(int64_t offset, int64_t most) const {
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

void OutputFile::truncate(int64_t bytes) {
  if (ftruncate(fd_, bytes) != 0) {
    fail(Exit::Failed, name_, ": cannot be cut: ", std::strerror(errno));
  }
  bytes_ = bytes;
}

void OutputFile::sync() {
  // Pipes and terminals cannot be synchronized.
  if (file_ && fdatasync(fd_) != 0 && errno != EINVAL) fail_write(errno);
  if (file_ && !std::exchange(named_, true)) sync_folder_of(path_);
}

void OutputFile::rearrange(std::span<const int64_t> line_starts) {
  check(file_ && existing_ == Existing::Continue, "a file that can be opened again");
  try {
    AtomicFile file(path_);
    file.set_mode(status().st_mode & 07777);
    LineCopier copier(*this);
    for (const int64_t start : line_starts) copier.copy(start, file);
    file.commit();
  } catch (const Error& error) {
    fail(error.code(), error.what(), "; ", name_,
         " holds all results, but not in order: make room and repeat with --resume");
  }
  close(std::exchange(fd_, -1));
  open_file();
}

}  // namespace skald
