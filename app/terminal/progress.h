// Shows how far a long job is, as one line on stderr. On a terminal the line is rewritten a few
// times a second and wiped away at the end. In a log, if asked for, there is a line every ten
// seconds. Only one thread shows.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace skald {

class Progress {
 public:
  enum class Style { Terminal, Log, Quiet };
  using Clock = std::chrono::steady_clock;

  // Shows nothing for the time of `patience`: short jobs need no progress.
  explicit Progress(Style style, Clock::duration patience = {});
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // True if it is time to show a line. Ask before making the text.
  bool is_due() const;
  void show(std::string_view text);
  void clear();  // wipes the terminal's line away, before other output

  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  const Style style_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point next_;  // when a line may be shown
  bool on_screen_ = false;
};

// Terminal where stderr is a terminal that can rewrite a line, else `otherwise`.
Progress::Style progress_style(Progress::Style otherwise = Progress::Style::Quiet);

std::string duration_text(double seconds);  // "1 h 5 min", "2 min 10 s", "7 s"

// How long the rest takes if it goes on as before: ", 3 min 12 s left", or "" if nothing is done
// yet or all is done.
std::string time_left_text(double seconds, int64_t done, int64_t all);

// Bytes that are read or written, with a bar, the share, the rate and the time left.
class ByteProgress {
 public:
  // The first `bytes` of `all` are done; `what` is the part that the last of them belong to.
  void show(int64_t bytes, int64_t all, std::string_view what);

 private:
  Progress progress_{progress_style()};
};

}  // namespace skald
