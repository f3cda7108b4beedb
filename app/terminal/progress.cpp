#include "app/terminal/progress.h"

#include <cstdio>
#include <string>

#include "app/terminal/output.h"
#include "engine/base/printable.h"

namespace skald {

ProgressBar::ProgressBar() : terminal_(stderr_is_terminal()) {}

ProgressBar::~ProgressBar() {
  if (terminal_) std::fprintf(stderr, "\r\x1b[K");
}

void ProgressBar::show(int64_t bytes, int64_t of, std::string_view what) {
  if (!terminal_ || bytes <= 0 || of <= 0) return;
  const Clock::time_point now = Clock::now();
  constexpr std::chrono::milliseconds kPause(100);
  if (now - drawn_ < kPause) return;
  drawn_ = now;
  constexpr int kWidth = 24;
  const double share = static_cast<double>(bytes) / static_cast<double>(of);
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const auto filled = static_cast<size_t>(share * kWidth);
  const std::string bar = std::string(filled, '#') + std::string(kWidth - filled, '.');
  std::fprintf(stderr, "\r\x1b[K[%s] %3.0f %%, %.0f MB/s, %.0f s left, %s", bar.c_str(),
               100 * share, static_cast<double>(bytes) / 1e6 / seconds, seconds * (1 / share - 1),
               printable(what, 30).c_str());
}

}  // namespace skald
