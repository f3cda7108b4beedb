// Lets one process at a time write to a file: an output, a checkpoint, a session, a cache. The
// second one gets an Error that names the process, and its machine, that has the file.
//
// The claim on FILE is a lock on FILE.lock, which holds the process's id, its start and its
// machine. The system gives the lock back when the process ends, however it ends, so what a killed
// process leaves behind does not block. On a file system without locks the text of FILE.lock alone
// decides. FILE.lock blocks while the process that it names runs. If it names a process of another
// machine, which cannot be checked, FILE.lock blocks until somebody removes it; the Error says so.
// Where FILE.lock cannot be made, for instance in a read-only folder, nothing is claimed.
#pragma once

#include <filesystem>
#include <memory>

namespace skald {

class FileClaim {
 public:
  // Does nothing for what is there and no regular file: a device, a pipe, a folder. Throws
  // Error(Exit::Failed) if another process has the file, Error(Exit::Usage) if this one has it.
  explicit FileClaim(const std::filesystem::path& file);
  ~FileClaim();
  FileClaim(const FileClaim&) = delete;
  FileClaim& operator=(const FileClaim&) = delete;

 private:
  // What a look at FILE.lock has led to. Again: it was replaced or removed meanwhile.
  enum class Look { Ours, None, Again };
  Look look();
  Look look_at_text(bool made);
  void sign();
  [[noreturn]] void fail_held(bool stays) const;

  std::filesystem::path file_, lock_;
  int fd_ = -1;
};

// Nothing for an empty path, and for "-".
std::shared_ptr<FileClaim> claim_file(const std::filesystem::path& file);

}  // namespace skald
