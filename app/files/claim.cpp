#include "app/files/claim.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

#include "app/files/write.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/base/read_stream.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

// The text of a lock: "4711 123456 node7\n".
struct Holder {
  int64_t process = 0, start = 0;
  std::string machine;

  bool operator==(const Holder&) const = default;
};

// When a process began, in clock ticks since the machine began; 0: there is no such process, or
// nothing is known of it. Tells a process from a later one that was given the same id.
int64_t start_of(int64_t process) {
  std::ifstream in(concat("/proc/", process, "/stat"));
  const std::string text = rest_of(in);
  // "id (name) state …": a name may have spaces and parentheses.
  std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  constexpr int kStart = 20;  // behind the name
  std::string field;
  for (int i = 0; i < kStart; ++i) fields >> field;
  return fields ? std::atoll(field.c_str()) : 0;
}

Holder this_process() {
  char machine[256] = {};
  if (::gethostname(machine, sizeof machine - 1) != 0) machine[0] = '\0';
  return {::getpid(), start_of(::getpid()), machine[0] ? machine : "?"};
}

Holder read_holder(int fd) {
  char text[512];
  const ssize_t count = ::pread(fd, text, sizeof text, 0);
  std::istringstream in(std::string(text, static_cast<size_t>(std::max<ssize_t>(count, 0))));
  Holder holder;
  in >> holder.process >> holder.start >> holder.machine;
  return holder;
}

// True where that cannot be known.
bool still_runs(const Holder& holder) {
  if (holder.process <= 0 || holder.machine != this_process().machine) return true;
  if (::kill(static_cast<pid_t>(holder.process), 0) != 0) return errno != ESRCH;
  const int64_t start = start_of(holder.process);
  return start == 0 || holder.start == 0 || start == holder.start;
}

bool same_file(int fd, const fs::path& path) {
  struct stat opened = {}, named = {};
  return ::fstat(fd, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

}  // namespace

FileClaim::FileClaim(const fs::path& file) : file_(file) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) return;
  const fs::path target = fs::weakly_canonical(file, error);  // a link's target is what is written
  lock_ = error ? file : target;
  lock_ += ".lock";
  Look result = Look::Again;
  for (int tries = 0; result == Look::Again && tries < 100; ++tries) {
    result = look();
    if (result != Look::Ours && fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
}

FileClaim::Look FileClaim::look() {
  constexpr int kFlags = O_RDWR | O_CLOEXEC;
  fd_ = ::open(lock_.c_str(), kFlags | O_CREAT | O_EXCL, 0666);
  const bool made = fd_ >= 0;
  if (!made && errno == EEXIST) {
    fd_ = ::open(lock_.c_str(), kFlags);
    if (fd_ < 0 && errno == ENOENT) return Look::Again;
  }
  if (fd_ < 0) return Look::None;
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) fail_held(false);
    return look_at_text(made);
  }
  if (!same_file(fd_, lock_)) return Look::Again;
  sign();
  return Look::Ours;
}

FileClaim::Look FileClaim::look_at_text(bool made) {
  if (made) {
    sign();
    return Look::Ours;
  }
  if (still_runs(read_holder(fd_))) fail_held(true);
  ::unlink(lock_.c_str());
  return Look::Again;
}

// A full disk may leave the lock without its text: it locks all the same.
void FileClaim::sign() {
  const Holder me = this_process();
  if (::ftruncate(fd_, 0) != 0) return;
  write_all(fd_, concat(me.process, " ", me.start, " ", me.machine, "\n"), 0);
}

void FileClaim::fail_held(bool stays) const {
  const Holder holder = read_holder(fd_);
  const std::string name = printable(file_.string());
  ::close(fd_);
  if (holder == this_process()) {
    fail(Exit::Usage, name, ": is named twice; give every output a file of its own");
  }
  const std::string who = holder.process > 0 ? concat("process ", holder.process, " on ",
                                                      printable(holder.machine, 100))
                                             : "another process";
  fail(Exit::Failed, name, ": ", who, " is writing to it; wait until it ends, or name another file",
       stays ? concat("; if it has ended, remove ", printable(lock_.string())) : "");
}

FileClaim::~FileClaim() {
  if (fd_ < 0) return;
  ::unlink(lock_.c_str());  // before the lock is given back, so that nobody else has it yet
  ::close(fd_);
}

std::shared_ptr<FileClaim> claim_file(const fs::path& file) {
  return file.empty() || file == "-" ? nullptr : std::make_shared<FileClaim>(file);
}

}  // namespace skald
