// A file that appears under its name whole, or not at all, even if the machine goes down. The bytes
// go to a file beside the name, with the ending ".part". commit() brings them to the disk, renames
// the file and brings the folder to the disk. Without commit(), or after an Error, whatever had the
// name before is untouched, and the destructor removes the part.
//
// Used for saved sessions, caches, manifests, histories and written models. A file that grows while
// a command runs is an OutputFile.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/error.h"

namespace skald {

struct AtomicFileOptions {
  mode_t mode = 0600;   // less the umask; 0600: only the user may read the file
  bool replace = true;  // false: a file that is there already is an Error(Exit::Usage)
  int64_t reserve = 0;  // bytes of disk space to take at once
};

class AtomicFile {
 public:
  // A symbolic link stays; its target is replaced. Throws Error(Exit::Failed) where the file cannot
  // be made, and where the disk does not have the space to reserve: now, not after an hour of work.
  explicit AtomicFile(const std::filesystem::path& path, const AtomicFileOptions& options = {});
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::string_view bytes);  // behind what was written last
  void write(std::span<const std::byte> bytes);
  void write(int64_t offset, std::span<const std::byte> bytes);
  void set_mode(mode_t mode);  // exactly, whatever the umask is
  void commit();

 private:
  void check_place() const;
  void check_space() const;
  void reserve();
  void open_part();
  [[noreturn]] void fail_to(const std::string& what, int error) const;

  std::filesystem::path path_, part_;
  const AtomicFileOptions options_;
  int64_t end_ = 0;  // the end of what was written
  int fd_ = -1;
};

// Throws Error(Exit::Failed) if an AtomicFile could not be made. Call it before the work whose
// result the file is to keep.
void check_writable(const std::filesystem::path& path);

}  // namespace skald
