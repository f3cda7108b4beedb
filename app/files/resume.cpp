#include "app/files/resume.h"

#include <algorithm>

#include "app/files/signals.h"

namespace skald {
namespace {

// A result may be longer than a request: many samples, log-probabilities.
constexpr JsonlLimits kLimits{.line = size_t{1} << 30, .kept = 0};

// The length of the file up to its last newline, or 0.
int64_t whole_bytes(const OutputFile& output) {
  constexpr int64_t kStep = 1 << 16;
  int64_t end = output.bytes();
  while (end > 0) {
    const int64_t start = std::max<int64_t>(end - kStep, 0);
    const size_t newline = output.read(start, end - start).rfind('\n');
    if (newline != std::string::npos) return start + static_cast<int64_t>(newline) + 1;
    end = start;
  }
  return 0;
}

}  // namespace

int64_t read_whole_lines(const std::string& path,
                         const std::function<void(const JsonlLine&)>& take) {
  JsonlReader reader(path, {}, kLimits);
  JsonlLine line;
  while (reader.next(line)) {
    if (line.offset + line.bytes + 1 > reader.bytes_read()) return line.number;
    take(line);
  }
  if (interrupted_by()) fail_interrupted("while reading " + reader.name());
  return 0;
}

void continue_lines(OutputFile& output, const std::function<void(const JsonlLine&)>& take,
                    const std::function<void(int64_t number)>& refuse) {
  const int64_t torn = read_whole_lines(output.path(), take);
  const int64_t whole = whole_bytes(output);
  if (whole == output.bytes()) return;
  // Some file systems leave zeros where a machine went down.
  const std::string begin = output.read(whole, 1);
  if (begin != "{" && begin != std::string(1, '\0')) refuse(torn);
  output.truncate(whole);
}

}  // namespace skald
