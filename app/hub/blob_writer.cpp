#include "app/hub/blob_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "app/files/write.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

Hash hash_of(const RemoteFile& file) {
  return file.sha256.empty() ? Hash::git_blob(file.size) : Hash::sha256();
}

}  // namespace

BlobWriter::BlobWriter(const CachedRepository& cached, const RemoteFile& file, FileLock lock,
                       const std::function<bool()>& stop)
    : cached_(cached),
      file_(file),
      lock_(std::move(lock)),
      path_(cached.incomplete(file.etag)),
      size_(file.size),
      hash_(hash_of(file)) {
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) fail_to("cannot be opened", errno);
  struct stat found = {};
  if (::fstat(fd_, &found) != 0 || found.st_size > size_) {
    start_over();
    return;
  }
  continued_ = found.st_size > 0;
  std::vector<char> part(1 << 20);
  while (written_ < found.st_size) {
    if (stop()) {
      ::close(fd_);
      throw HttpFailure(HttpFailure::Kind::Stopped, "stopped");
    }
    const ssize_t count = ::pread(fd_, part.data(), part.size(), written_);
    if (count <= 0) {
      start_over();
      return;
    }
    hash_.add({part.data(), static_cast<size_t>(count)});
    written_ += count;
  }
}

BlobWriter::~BlobWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void BlobWriter::start_over() {
  if (::ftruncate(fd_, 0) != 0) fail_to("cannot be emptied", errno);
  written_ = 0;
  continued_ = false;
  hash_ = hash_of(file_);
  waiting_.clear();
}

void BlobWriter::put(int64_t offset, std::string bytes) {
  waiting_[offset] = std::move(bytes);
  while (!waiting_.empty() && waiting_.begin()->first <= written_) {
    const auto first = waiting_.begin();
    std::string_view next = first->second;
    // Bytes may come twice: a part that was given up is asked for again.
    next.remove_prefix(std::min(next.size(), static_cast<size_t>(written_ - first->first)));
    if (const int error = write_all(fd_, next, written_)) fail_to("cannot be written", error);
    hash_.add(next);
    written_ += std::ssize(next);
    waiting_.erase(first);
  }
}

BlobWriter::Check BlobWriter::finish() {
  if (hash_.hex() != file_.etag) {
    const bool again = continued_;
    start_over();
    if (again) return Check::Again;
    std::error_code error;
    std::filesystem::remove(path_, error);
    fail(Exit::Model, printable(file_.name), ": what arrived is not what the hub lists: expected ",
         file_.sha256.empty() ? "git blob " : "SHA-256 ", file_.etag,
         "; the file was not kept; pull again, or ask whoever runs the network's proxy or mirror");
  }
  if (::fsync(fd_) != 0) fail_to("cannot be written", errno);
  const std::filesystem::path blob = cached_.blob(file_.etag);
  // Where locks do not work, another process may have renamed the same file before.
  if (::rename(path_.c_str(), blob.c_str()) != 0 && ::access(blob.c_str(), R_OK) != 0) {
    fail_to("cannot be renamed", errno);
  }
  sync_folder_of(blob);
  return Check::Good;
}

void BlobWriter::fail_to(const char* what, int error) const {
  fail(Exit::Failed, printable(path_.string()), ": ", what, ": ", std::strerror(error),
       error == ENOSPC || error == EDQUOT
           ? "; free some space, or set HF_HOME to a larger disk; the same command goes on"
           : "");
}

}  // namespace skald
