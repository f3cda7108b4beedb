#include "app/hub/download_progress.h"

#include "tests/catch.h"

namespace skald::test {
namespace {

constexpr int64_t kGigabyte = 1'000'000'000;

TEST_CASE("the line of a download is as long as the terminal allows") {
  const DownloadState half{kGigabyte, kGigabyte, "model-Q4_K_M.gguf", false};
  CHECK(download_line(half, 2 * kGigabyte, 50e6, 100) ==
        "[##########..........] 50 % of 1.86 GiB, 50 MB/s, 20 s left, model-Q4_K_M.gguf");
  CHECK(download_line(half, 2 * kGigabyte, 50e6, 70) ==
        "[##########..........] 50 % of 1.86 GiB, 50 MB/s, 20 s left");
  CHECK(download_line(half, 2 * kGigabyte, 50e6, 40) == "50 % of 1.86 GiB, 50 MB/s, 20 s left");
  CHECK(download_line(half, 2 * kGigabyte, 50e6, 30) == "50 %, 50 MB/s, 20 s left");
  CHECK(download_line(half, 2 * kGigabyte, 50e6, 20) == "50 %, 20 s left");
  CHECK(download_line(half, 2 * kGigabyte, 50e6, 10) == "50 %");
  CHECK(download_line(half, 2 * kGigabyte, 50e6, 3) == "");
}

TEST_CASE("no line is as wide as the terminal") {
  for (int columns = 1; columns < 120; ++columns) {
    for (const int64_t bytes : {int64_t{0}, kGigabyte, 399 * kGigabyte}) {
      const DownloadState state{bytes, bytes, "a-very-long-name-of-a-file-that-goes-on.gguf", true};
      CHECK(std::ssize(download_line(state, 400 * kGigabyte, 1e5, columns)) < columns);
    }
  }
}

TEST_CASE("an unknown speed is left out, and 100 % is all of it") {
  CHECK(download_line({0, 0, "", false}, kGigabyte, 0, 80) ==
        "[....................] 0 % of 953.7 MiB");
  CHECK(download_line({kGigabyte - 1, 0, "", false}, kGigabyte, 0, 30) == "99 % of 953.7 MiB");
  CHECK(download_line({0, 0, "x", true}, kGigabyte, 0, 100) ==
        "[....................] 0 % of 953.7 MiB, waiting for another download of it");
}

TEST_CASE("a download that stands still says why, also on a narrow terminal") {
  DownloadState state{0, 0, "x", false};
  state.checks = true;
  CHECK(download_line(state, kGigabyte, 0, 40) == "0 %, checking what is there");
  state.pause = 120;
  CHECK(download_line(state, kGigabyte, 0, 40) == "0 %, asking the server again in 120 s");
}

}  // namespace
}  // namespace skald::test
