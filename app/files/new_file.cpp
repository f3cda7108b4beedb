#include "app/files/new_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/base/size_text.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

std::string reason(int error) { return std::generic_category().message(error); }

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

void check_place(const fs::path& path, bool replace) {
  const std::string name = printable(path.string());
  std::error_code error;
  if (path.filename().empty() || fs::is_directory(path, error)) {
    fail(Exit::Usage, name, ": is a folder; name the file that is to be written");
  }
  if (!fs::is_directory(folder_of(path), error)) {
    fail(Exit::Usage, name, ": there is no folder '", printable(folder_of(path).string()), "'");
  }
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return;
  if (!fs::is_regular_file(status)) fail(Exit::Usage, name, ": is no file to be replaced");
  if (!replace) fail(Exit::Usage, name, ": is there already; --force replaces it");
}

void check_space(const fs::path& path, int64_t bytes) {
  struct statvfs disk = {};
  if (::statvfs(folder_of(path).c_str(), &disk) != 0) return;  // fallocate() says it too
  const unsigned __int128 available = static_cast<unsigned __int128>(disk.f_bavail) * disk.f_frsize;
  if (available >= static_cast<unsigned __int128>(bytes)) return;
  fail(Exit::Failed, printable(path.string()), ": needs ", size_text(bytes),
       ", and the disk has only ", size_text(static_cast<int64_t>(available)), " left");
}

}  // namespace

NewFile::NewFile(const fs::path& path, int64_t bytes, bool replace)
    : path_(path), replace_(replace) {
  check_place(path, replace);
  check_space(path, bytes);
  for (int i = 0; fd_ < 0; ++i) {
    part_ = path;
    part_ += concat(".", ::getpid(), i == 0 ? "" : concat("-", i), ".part");
    fd_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0 && errno != EEXIST) fail_with(errno, "cannot be written");
  }
  const bool reserved = ::fallocate(fd_, 0, 0, bytes) == 0;
  const int error = errno;
  if (reserved || error == EOPNOTSUPP || error == ENOSYS || error == EINTR) return;
  ::close(fd_);
  ::unlink(part_.c_str());
  fail_with(error, concat("cannot get ", size_text(bytes), " of disk space").c_str());
}

NewFile::~NewFile() {
  ::close(fd_);
  if (!finished_) ::unlink(part_.c_str());
}

void NewFile::fail_with(int error, const char* what) const {
  fail(Exit::Failed, printable(path_.string()), ": ", what, ": ", reason(error));
}

void NewFile::write(int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (written > 0) {
      bytes = bytes.subspan(static_cast<size_t>(written));
      offset += written;
    } else if (written == 0 || errno != EINTR) {
      fail_with(written == 0 ? EIO : errno, "cannot be written");
    }
  }
}

void NewFile::finish() {
  if (::fsync(fd_) != 0) fail_with(errno, "cannot be brought to the disk");
  // A file that came there in the meantime is not ours to replace; not all file systems can tell.
  const unsigned flags = replace_ ? 0 : RENAME_NOREPLACE;
  int result = ::renameat2(AT_FDCWD, part_.c_str(), AT_FDCWD, path_.c_str(), flags);
  if (result != 0 && (errno == EINVAL || errno == ENOSYS)) {
    check_place(path_, replace_);
    result = ::rename(part_.c_str(), path_.c_str());
  }
  if (result != 0) fail_with(errno, "cannot be given its name");
  finished_ = true;
  const int folder = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  ::fsync(folder);  // where it cannot, the file is whole all the same
  ::close(folder);
}

}  // namespace skald
