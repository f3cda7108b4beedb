#include "app/batch/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "engine/base/error.h"

namespace skald {
namespace {

std::string rate_text(int64_t tokens, double seconds) {
  const double rate = static_cast<double>(tokens) / std::max(seconds, 1e-3);
  char text[32];
  std::snprintf(text, sizeof text, rate < 100 ? "%.1f" : "%.0f", rate);
  return text;
}

}  // namespace

std::string duration_text(double seconds) {
  const int64_t whole = static_cast<int64_t>(std::ceil(seconds));
  const int64_t minutes = whole / 60, hours = minutes / 60;
  if (hours > 0) return concat(hours, " h ", minutes % 60, " min");
  if (minutes > 0) return concat(minutes, " min ", whole % 60, " s");
  return concat(whole, " s");
}

std::string BatchProgress::line(double seconds) const {
  const int64_t lines = counts_.lines();
  std::string text =
      concat(lines, total_ >= 0 ? concat("/", total_) : "", " lines, ", counts_.failed.load(),
             " failed, tokens/s: ", rate_text(counts_.tokens_in, seconds), " in, ",
             rate_text(counts_.tokens_out, seconds), " out");
  const int64_t computed = lines - counts_.earlier;
  if (total_ > lines && computed > 0) {
    const double left =
        seconds * static_cast<double>(total_ - lines) / static_cast<double>(computed);
    text += concat(", ", duration_text(left), " left");
  }
  return text;
}

std::string BatchProgress::summary(double seconds) const {
  std::string text = concat(counts_.done.load(), " lines done");
  if (counts_.failed > 0) text += concat(", ", counts_.failed.load(), " failed");
  if (counts_.skipped > 0) text += concat(", ", counts_.skipped.load(), " skipped as too long");
  if (counts_.earlier > 0) text += concat(", ", counts_.earlier.load(), " done before");
  return concat(text, " in ", duration_text(seconds), "; ", counts_.tokens_in.load(),
                " tokens in (", rate_text(counts_.tokens_in, seconds), "/s), ",
                counts_.tokens_out.load(), " out (", rate_text(counts_.tokens_out, seconds), "/s)");
}

void BatchProgress::show(Clock::time_point now) {
  using std::chrono::milliseconds;
  if (style_ == Style::Quiet) return;
  if (now - shown_ < (style_ == Style::Terminal ? milliseconds(200) : milliseconds(10000))) return;
  shown_ = now;
  const std::string text = line(std::chrono::duration<double>(now - start_).count());
  if (style_ == Style::Terminal) {
    std::fprintf(stderr, "\r\x1b[K%s", text.c_str());
    on_screen_ = true;
  } else {
    std::fprintf(stderr, "skald: %s\n", text.c_str());
  }
}

void BatchProgress::clear() {
  if (on_screen_) std::fputs("\r\x1b[K", stderr);
  on_screen_ = false;
}

}  // namespace skald
