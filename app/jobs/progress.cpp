#include "app/jobs/progress.h"

#include <algorithm>
#include <cstdio>

#include "engine/base/counted.h"
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

std::string JobProgress::line(double seconds) const {
  const int64_t lines = counts_.lines(), earlier = counts_.earlier;
  // What matters less stands behind: a narrow terminal cuts it off.
  return concat(total_ >= 0 ? concat(lines, "/", counted(total_, "line")) : counted(lines, "line"),
                ", ", counts_.failed.load(), " failed",
                time_left_text(seconds, lines - earlier, total_ - earlier),
                ", tokens/s: ", rate_text(counts_.tokens_in, seconds), " in, ",
                rate_text(counts_.tokens_out, seconds), " out");
}

std::string JobProgress::summary(double seconds) const {
  std::string text = concat(counted(counts_.done.load(), "line"), " done");
  if (counts_.failed > 0) text += concat(", ", counts_.failed.load(), " failed");
  if (counts_.skipped > 0) text += concat(", ", counts_.skipped.load(), " skipped as too long");
  if (counts_.earlier > 0) text += concat(", ", counts_.earlier.load(), " done before");
  return concat(text, " in ", duration_text(seconds), "; ",
                counted(counts_.tokens_in.load(), "token"), " in (",
                rate_text(counts_.tokens_in, seconds), "/s), ", counts_.tokens_out.load(), " out (",
                rate_text(counts_.tokens_out, seconds), "/s)");
}

void JobProgress::show() {
  if (progress_.is_due()) progress_.show(line(progress_.seconds()));
}

}  // namespace skald
