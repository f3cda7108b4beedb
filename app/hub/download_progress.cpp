#include "app/hub/download_progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/base/size_text.h"

namespace skald {
namespace {

constexpr double kWindow = 5;  // seconds that the speed is taken from

int columns_of_stderr() {
  winsize size = {};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string rate_text(double rate) {
  if (rate <= 0) return "";
  char text[32];
  std::snprintf(text, sizeof text, rate < 10e6 ? ", %.1f MB/s" : ", %.0f MB/s", rate / 1e6);
  return text;
}

}  // namespace

std::string download_line(const DownloadState& state, int64_t all, double rate, int columns) {
  const double share =
      all > 0 ? std::clamp(static_cast<double>(state.bytes) / static_cast<double>(all), 0.0, 1.0)
              : 1;
  constexpr size_t kWidth = 20;
  const auto filled = static_cast<size_t>(share * kWidth);
  const std::string bar =
      concat("[", std::string(filled, '#'), std::string(kWidth - filled, '.'), "] ");
  // Rounded down: 100 % is all of it.
  const std::string percent = concat(static_cast<int>(share * 100), " %");
  const std::string bytes = concat(" of ", size_text(all));
  const std::string speed = rate_text(rate);
  const int64_t rest = all - state.bytes;
  const std::string left =
      rate > 0 && rest > 0 ? concat(", ", duration_text(static_cast<double>(rest) / rate), " left")
                           : "";
  std::string file = state.file.empty() ? "" : concat(", ", printable(state.file, 30));
  if (state.checks) file = ", checking what is there";
  if (state.waits) file = ", waiting for another download of it";
  if (state.pause > 0) file = concat(", asking the server again in ", state.pause, " s");
  const bool stands = state.checks || state.waits || state.pause > 0;
  const std::string forms[] = {concat(bar, percent, bytes, speed, left, file),
                               stands ? concat(percent, file) : "",
                               concat(bar, percent, bytes, speed, left),
                               concat(percent, bytes, speed, left),
                               concat(percent, speed, left),
                               concat(percent, left),
                               percent};
  // The last column stays free: some terminals wrap as soon as it is filled.
  for (const std::string& form : forms) {
    if (!form.empty() && std::ssize(form) < columns) return form;
  }
  return "";
}

double DownloadProgress::rate(const DownloadState& state) {
  const double now = progress_.seconds();
  samples_.push_back({now, state.fetched});
  while (samples_.size() > 2 && samples_[1].seconds < now - kWindow) samples_.pop_front();
  const double seconds = now - samples_.front().seconds;
  return seconds > 0.5 ? static_cast<double>(state.fetched - samples_.front().fetched) / seconds
                       : 0;
}

void DownloadProgress::show(const DownloadState& state) {
  const double speed = rate(state);
  if (!progress_.is_due()) return;
  const bool terminal = progress_style() == Progress::Style::Terminal;
  const int columns = terminal ? columns_of_stderr() : 100;
  progress_.show(download_line(state, all_, speed, columns));
}

}  // namespace skald
