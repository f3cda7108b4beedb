#include "app/files/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "app/files/input.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "tokenizer/text/utf8.h"

namespace skald {

TextFile::TextFile(const std::string& path) : name_(path == "-" ? "stdin" : printable(path)) {
  struct stat status = {};
  if (path != "-" && stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode)) {
    fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd_ < 0) fail(Exit::Usage, name_, ": cannot be opened: ", std::strerror(errno));
    size_ = status.st_size;
  } else {  // a pipe, or what read_bytes() refuses
    memory_ = read_bytes(path);
    size_ = static_cast<int64_t>(memory_.size());
  }
  if (size_ > 0) return;
  if (fd_ >= 0) close(fd_);
  fail(Exit::Usage, name_, ": is empty; it has no text");
}

TextFile::~TextFile() {
  if (fd_ >= 0) close(fd_);
}

std::string TextFile::read(int64_t offset, int64_t bytes) const {
  bytes = std::min(bytes, size_ - offset);
  if (fd_ < 0) return memory_.substr(static_cast<size_t>(offset), static_cast<size_t>(bytes));
  std::string text(static_cast<size_t>(bytes), '\0');
  for (int64_t done = 0; done < bytes;) {
    const ssize_t count =
        pread(fd_, text.data() + done, static_cast<size_t>(bytes - done), offset + done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(Exit::Failed, name_, ": cannot be read: ", std::strerror(errno));
    if (count == 0) {
      fail(Exit::Failed, name_, ": had ", size_, " bytes and ends at ", offset + done,
           " now; wait until nothing writes to it and start again");
    }
    done += count;
  }
  return text;
}

void TextFile::check_text(std::string_view part, int64_t offset) const {
  constexpr const char* kAdvice =
      "it is no text, or in another encoding (iconv -t UTF-8 converts it)";
  if (const size_t nul = part.find('\0'); nul != part.npos) {
    fail(Exit::Usage, name_, ": byte ", offset + static_cast<int64_t>(nul), " is NUL: ", kAdvice);
  }
  if (utf8_valid(part)) return;
  size_t at = 0;
  for (size_t length; (length = utf8_length(part.substr(at))) > 0;) at += length;
  fail(Exit::Usage, name_, ": the bytes from ", offset + static_cast<int64_t>(at),
       " on are no UTF-8: ", kAdvice);
}

}  // namespace skald
