#include "app/terminal/progress.h"

#include <cmath>
#include <cstdio>

#include "app/terminal/output.h"
#include "app/terminal/terminal.h"
#include "app/terminal/word_wrap.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

constexpr Progress::Clock::duration kTerminalPause = std::chrono::milliseconds(100);
constexpr Progress::Clock::duration kLogPause = std::chrono::seconds(10);

}  // namespace

Progress::Progress(Style style, Clock::duration patience)
    : style_(style),
      next_(start_ + (style == Style::Log && patience < kLogPause ? kLogPause : patience)) {}

bool Progress::is_due() const { return style_ != Style::Quiet && Clock::now() >= next_; }

void Progress::show(std::string_view text) {
  if (!is_due()) return;
  next_ = Clock::now() + (style_ == Style::Terminal ? kTerminalPause : kLogPause);
  if (style_ == Style::Terminal) {
    // A line that wraps could not be wiped away.
    std::fprintf(stderr, "\r\x1b[K%s", fitted(text, stderr_columns() - 1).c_str());
    on_screen_ = true;
  } else {
    std::fprintf(stderr, "skald: %.*s\n", static_cast<int>(text.size()), text.data());
  }
}

void Progress::clear() {
  if (on_screen_) std::fputs("\r\x1b[K", stderr);
  on_screen_ = false;
}

Progress::Style progress_style(Progress::Style otherwise) {
  const bool rewrites = stderr_is_terminal() && !find_terminal_traits().dumb;
  return rewrites ? Progress::Style::Terminal : otherwise;
}

std::string duration_text(double seconds) {
  const int64_t whole = static_cast<int64_t>(std::ceil(seconds));
  const int64_t minutes = whole / 60, hours = minutes / 60;
  if (hours > 0) return concat(hours, " h ", minutes % 60, " min");
  if (minutes > 0) return concat(minutes, " min ", whole % 60, " s");
  return concat(whole, " s");
}

std::string time_left_text(double seconds, int64_t done, int64_t all) {
  if (done <= 0 || all <= done) return "";
  const double left = seconds * static_cast<double>(all - done) / static_cast<double>(done);
  return concat(", ", duration_text(left), " left");
}

void ByteProgress::show(int64_t bytes, int64_t all, std::string_view what) {
  if (bytes <= 0 || all <= 0 || !progress_.is_due()) return;
  constexpr int kWidth = 24;
  const double share = static_cast<double>(bytes) / static_cast<double>(all);
  const double seconds = progress_.seconds();
  const auto filled = static_cast<size_t>(share * kWidth);
  char numbers[64];
  std::snprintf(numbers, sizeof numbers, "%3.0f %%, %.0f MB/s", 100 * share,
                static_cast<double>(bytes) / 1e6 / seconds);
  progress_.show(concat("[", std::string(filled, '#'), std::string(kWidth - filled, '.'), "] ",
                        numbers, time_left_text(seconds, bytes, all), ", ", printable(what, 30)));
}

}  // namespace skald
