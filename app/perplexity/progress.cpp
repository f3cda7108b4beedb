#include "app/perplexity/progress.h"

#include <cstdio>

#include "app/terminal/output.h"

namespace skald {

LiveLine::LiveLine() : terminal_(stderr_is_terminal()) {}

void LiveLine::show(const std::string& text, bool last) {
  constexpr auto kPause = std::chrono::milliseconds(100);
  if (!terminal_ || (!last && Clock::now() < next_)) return;
  next_ = Clock::now() + kPause;
  visible_ = true;
  std::fprintf(stderr, "\r%s\x1b[K", text.c_str());
}

void LiveLine::clear() {
  if (visible_) std::fputs("\r\x1b[K", stderr);
  visible_ = false;
}

std::string Pace::text() const {
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
  const double seconds = passed.count();
  if (chunks_ == 0 || seconds <= 0) return "";
  const double left = seconds / static_cast<double>(chunks_) * static_cast<double>(all_ - chunks_);
  const auto whole = static_cast<long long>(left + 0.5);
  char text[96];
  std::snprintf(text, sizeof text, "%.0f tokens/s, %lld:%02lld left",
                static_cast<double>(tokens_) / seconds, whole / 60, whole % 60);
  return text;
}

}  // namespace skald
