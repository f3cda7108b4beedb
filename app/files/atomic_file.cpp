#include "app/files/atomic_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "app/files/write.h"
#include "engine/base/printable.h"
#include "engine/base/size_text.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

fs::path behind_links(const fs::path& path) {
  std::error_code error;
  const fs::path target = fs::weakly_canonical(path, error);
  return error || path.filename().empty() ? path : target;
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

AtomicFile::AtomicFile(const fs::path& path, const AtomicFileOptions& options)
    : path_(behind_links(path)), options_(options) {
  check_place();
  check_space();
  open_part();
  reserve();
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(part_.c_str());
}

void AtomicFile::fail_to(const std::string& what, int error) const {
  fail(Exit::Failed, printable(path_.string()), ": ", what, ": ",
       std::generic_category().message(error));
}

void AtomicFile::check_place() const {
  const std::string name = printable(path_.string());
  std::error_code error;
  if (path_.filename().empty() || fs::is_directory(path_, error)) {
    fail(Exit::Failed, name, ": is a folder, no regular file; name the file to be written");
  }
  if (!fs::is_directory(folder_of(path_), error)) {
    fail(Exit::Failed, name, ": cannot be written: there is no folder '",
         printable(folder_of(path_).string()), "'");
  }
  const fs::file_status status = fs::status(path_, error);
  if (!fs::exists(status)) return;
  if (!fs::is_regular_file(status)) {
    fail(Exit::Failed, name, ": is no regular file and cannot be replaced");
  }
  if (!options_.replace) {
    fail(Exit::Usage, name, ": is there already; --force replaces it");
  }
}

void AtomicFile::check_space() const {
  struct statvfs disk = {};
  if (options_.reserve == 0 || ::statvfs(folder_of(path_).c_str(), &disk) != 0) return;
  const unsigned __int128 available = static_cast<unsigned __int128>(disk.f_bavail) * disk.f_frsize;
  if (available >= static_cast<unsigned __int128>(options_.reserve)) return;
  fail(Exit::Failed, printable(path_.string()), ": needs ", size_text(options_.reserve),
       ", and the disk has only ", size_text(static_cast<int64_t>(available)), " left");
}

void AtomicFile::open_part() {
  for (int i = 0; fd_ < 0; ++i) {
    part_ = path_;
    part_ += concat(".", ::getpid(), i == 0 ? "" : concat("-", i), ".part");
    fd_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, options_.mode);
    if (fd_ < 0 && errno != EEXIST) fail_to("cannot be written", errno);
  }
}

void AtomicFile::reserve() {
  if (options_.reserve == 0 || ::fallocate(fd_, 0, 0, options_.reserve) == 0) return;
  const int error = errno;
  // Not every file system can reserve.
  if (error == EOPNOTSUPP || error == ENOSYS || error == EINTR) return;
  ::close(fd_);
  ::unlink(part_.c_str());
  fail_to(concat("cannot get ", size_text(options_.reserve), " of disk space"), error);
}

void AtomicFile::write(std::string_view bytes) {
  if (const int error = write_all(fd_, bytes, end_)) fail_to("cannot be written", error);
  end_ += static_cast<int64_t>(bytes.size());
}

void AtomicFile::write(std::span<const std::byte> bytes) { write(text_of(bytes)); }

void AtomicFile::write(int64_t offset, std::span<const std::byte> bytes) {
  end_ = offset;
  write(text_of(bytes));
}

void AtomicFile::set_mode(mode_t mode) {
  if (::fchmod(fd_, mode) != 0) fail_to("cannot be given its permissions", errno);
}

void AtomicFile::commit() {
  if (::fsync(fd_) != 0) fail_to("cannot be brought to the disk", errno);
  // Another program may have made the file meanwhile. Not all file systems can refuse to replace.
  const unsigned flags = options_.replace ? 0 : RENAME_NOREPLACE;
  int result = ::renameat2(AT_FDCWD, part_.c_str(), AT_FDCWD, path_.c_str(), flags);
  if (result != 0 && (errno == EINVAL || errno == ENOSYS)) {
    check_place();
    result = ::rename(part_.c_str(), path_.c_str());
  }
  if (result != 0) fail_to("cannot be given its name", errno);
  ::close(fd_);
  fd_ = -1;
  sync_folder_of(path_);
}

void check_writable(const fs::path& path) { AtomicFile{path}; }

}  // namespace skald
