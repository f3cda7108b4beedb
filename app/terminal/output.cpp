#include "app/terminal/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "app/files/write.h"
#include "engine/base/error.h"

namespace skald {

void StandardOutput::write(std::string_view bytes) {
  const int error = write_all(STDOUT_FILENO, bytes);
  if (error == EPIPE) fail(Exit::Closed, "the reader of stdout went away");
  if (error != 0) fail(Exit::Failed, "stdout: cannot be written: ", std::strerror(error));
}

void reserve_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    // open() takes the lowest free number. The wrong direction makes every use an error.
    open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

bool StandardOutput::is_terminal() const { return isatty(STDOUT_FILENO) == 1; }
bool stdin_is_terminal() { return isatty(STDIN_FILENO) == 1; }
bool stderr_is_terminal() { return isatty(STDERR_FILENO) == 1; }

}  // namespace skald
