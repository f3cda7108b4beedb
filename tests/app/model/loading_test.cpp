#include "app/model/loading.h"

#include <sys/mman.h>

#include <algorithm>

#include "engine/cpu/executor.h"
#include "models/open.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/pty.h"
#include "tests/small_models.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

TEST_CASE("a loading bar fits its terminal and shows less on a narrow one") {
  const auto text = [](int columns) {
    return loading_text("model.gguf", 2'000'000'000, 4'000'000'000, columns);
  };
  CHECK(text(80) == "model.gguf [##########          ]  50 %, 2.0 of 4.0 GB");
  CHECK(text(50) == "[##########          ]  50 %, 2.0 of 4.0 GB");
  CHECK(text(40) == "[##########          ]  50 %");
  CHECK(text(20) == " 50 %");
  for (int columns = 7; columns < 100; ++columns) {
    CHECK(text(columns).size() < static_cast<size_t>(columns));
  }
  CHECK(has(loading_text("m", 0, 10, 80), "[                    ]   0 %"));
  CHECK(has(loading_text("m", 11, 10, 80), "[####################] 100 %"));
  CHECK(!has(loading_text("\x1b[31m", 1, 10, 80), "\x1b"));
}

// The output of a loading bar whose stderr is a terminal.
std::string shown(std::chrono::milliseconds patience, const char* term) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  ::grantpt(terminal), ::unlockpt(terminal);
  const std::string name = ::ptsname(terminal);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::open(name.c_str(), O_RDWR | O_NOCTTY), 2);
    ::setenv("TERM", term, 1);
    {
      LoadingBar bar("model", patience);
      for (int i = 0; i < 1000; ++i) bar.show(1, 2);
    }
    ::_exit(0);
  }
  std::string text;
  char part[4096];
  pollfd ready = {terminal, POLLIN, 0};
  while (::poll(&ready, 1, 2000) > 0) {
    const ssize_t count = ::read(terminal, part, sizeof part);
    if (count <= 0) break;
    text.append(part, static_cast<size_t>(count));
  }
  ::waitpid(child, nullptr, 0);
  ::close(terminal);
  return text;
}

TEST_CASE("a loading bar waits before it appears, is drawn rarely, and is wiped at the end") {
  const std::string text = shown(std::chrono::milliseconds(0), "xterm");
  CHECK(has(text, "\r\x1b[Kmodel [##########"));
  CHECK(text.substr(text.size() - 4) == "\r\x1b[K");
  CHECK(std::count(text.begin(), text.end(), '\r') <= 4);
  CHECK(shown(LoadingBar::kPatience, "xterm") == "");
  CHECK(shown(std::chrono::milliseconds(0), "dumb") == "");
}

// Asks the kernel to drop a file's pages from memory.
void drop_pages(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY);
  REQUIRE(fd >= 0);
  CHECK(::fsync(fd) == 0);
  CHECK(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
  ::close(fd);
}

// The number of the weights' pages that are not in memory.
int64_t missing_pages(const WeightFile& weights) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  int64_t missing = 0;
  for (const Tensor& tensor : weights.tensors()) {
    const auto begin = reinterpret_cast<uintptr_t>(tensor.view.data);
    const uintptr_t end = begin + static_cast<uintptr_t>(tensor.view.bytes());
    for (uintptr_t at = begin / page * page; at < end; at += page) {
      unsigned char resident = 0;
      REQUIRE(::mincore(reinterpret_cast<void*>(at), 1, &resident) == 0);
      missing += (resident & 1) == 0;
    }
  }
  return missing;
}

TEST_CASE("read_weights brings all pages of the weights into memory") {
  TempFolder folder;
  const auto path = folder.write("model.gguf", read_file(small_gguf()));
  drop_pages(path);
  const OpenedModel opened = open_model(path);
  if (missing_pages(*opened.model.weights) == 0) {
    std::fprintf(stderr, "skipped: the file system of %s keeps files in memory\n",
                 folder.path().c_str());
    return;
  }
  RunOptions options;
  options.threads = 1;
  LoadingBar bar("model");
  read_weights(opened.model, cpu::plan_memory(opened.model, options), bar);
  CHECK(missing_pages(*opened.model.weights) == 0);
}

}  // namespace
}  // namespace skald::test
