#include "app/terminal/line_history.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "app/files/atomic_file.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "tokenizer/text/utf8.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

// Only the end of a longer file is read: skald does not write one.
constexpr std::streamoff kMostHistoryBytes = 16 << 20;

std::string escaped(std::string_view entry) {
  std::string line;
  for (const char c : entry) {
    if (c == '\n') {
      line += "\\n";
    } else {
      if (c == '\\') line += c;
      line += c;
    }
  }
  return line + '\n';
}

std::string unescaped(std::string_view line) {
  std::string entry;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool escape = line[i] == '\\' && i + 1 < line.size();
    if (escape) ++i;
    entry += escape && line[i] == 'n' ? '\n' : line[i];
  }
  return utf8_repaired(entry);
}

void make_private_folder(const fs::path& folder) {
  std::error_code error;
  if (folder.empty() || fs::exists(folder, error)) return;
  make_private_folder(folder.parent_path());
  ::mkdir(folder.c_str(), 0700);  // opening the file says what is wrong
}

}  // namespace

LineHistory::LineHistory(fs::path file) : file_(std::move(file)) {
  if (file_.empty()) return;
  read();
  if (entries_.size() > 2 * kMostEntries) {
    entries_.erase(entries_.begin(), entries_.end() - kMostEntries);
    std::string all;
    for (const std::string& entry : entries_) all += escaped(entry);
    try {
      AtomicFile shorter(file_);
      shorter.write(all);
      shorter.commit();
    } catch (const Error& error) {
      problem_ = error.what();
    }
  }
}

void LineHistory::read() {
  std::error_code error;
  if (fs::exists(file_, error) && !fs::is_regular_file(file_, error)) {
    problem_ = concat(printable(file_.string()), ": is no regular file");
    file_.clear();
    return;
  }
  std::ifstream in(file_, std::ios::binary);
  in.seekg(0, std::ios::end);
  const std::streamoff size = in.tellg();
  in.seekg(std::max<std::streamoff>(size - kMostHistoryBytes, 0));
  std::string line;
  if (size > kMostHistoryBytes) std::getline(in, line);
  while (std::getline(in, line)) entries_.push_back(unescaped(line));
}

void LineHistory::add(const std::string& entry) {
  if (entry.empty() || (!entries_.empty() && entries_.back() == entry)) return;
  entries_.push_back(entry);
  if (file_.empty() || !problem_.empty()) return;
  make_private_folder(file_.parent_path());
  const std::string line = escaped(entry);
  const int fd = ::open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  // One write(), so that the lines of chats side by side do not mix.
  if (fd < 0 || ::write(fd, line.data(), line.size()) != std::ssize(line)) {
    problem_ = concat(printable(file_.string()), ": cannot be written: ", std::strerror(errno));
  }
  if (fd >= 0) ::close(fd);
}

fs::path default_history_file() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state && *state == '/') return fs::path(state) / "skald" / "history";
  const char* home = std::getenv("HOME");
  return home && *home == '/' ? fs::path(home) / ".local/state/skald/history" : fs::path();
}

}  // namespace skald
