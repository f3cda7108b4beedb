#include "app/jobs/result_writer.h"

#include <algorithm>
#include <utility>

#include "app/files/sealed_line.h"
#include "engine/base/error.h"

namespace skald {

ResultWriter::ResultWriter(const ResultWriterOptions& options)
    : options_(options),
      output_(options.path, options.resume ? Existing::Continue : Existing::Refuse, options.claim) {
  if (!options.resume) return;
  if (!output_.is_file()) {
    fail(Exit::Usage, output_.name(), ": is no file, and --resume needs one; leave --resume out");
  }
  earlier_.read(output_);
}

bool ResultWriter::done_before(int64_t turn, std::string_view id, std::string_view request_hash) {
  const std::lock_guard lock(mutex_);
  if (!earlier_.take(turn, id, request_hash)) return false;
  hold(turn, "");
  return true;
}

void ResultWriter::pass(int64_t turn) {
  const std::lock_guard lock(mutex_);
  hold(turn, "");
}

void ResultWriter::hold(int64_t turn, std::string line) {
  if (!options_.in_order) return;
  waiting_bytes_ += static_cast<int64_t>(line.size());
  waiting_lines_.emplace(turn, std::move(line));
  append_held();
}

void ResultWriter::write(int64_t turn, std::string line) {
  check(line.find('\n') == std::string::npos, "a result is one line");
  line = sealed_line(std::move(line));
  const std::lock_guard lock(mutex_);
  if (!options_.in_order) {
    append(turn, line);
    return;
  }
  hold(turn, std::move(line));
}

bool ResultWriter::too_far_ahead(int64_t turn) const {
  constexpr int64_t kMostTurns = 1 << 16, kMostBytes = 128 << 20;
  const std::lock_guard lock(mutex_);
  return options_.in_order && (turn - next_turn_ > kMostTurns || waiting_bytes_ > kMostBytes);
}

int64_t ResultWriter::held_bytes() const {
  const std::lock_guard lock(mutex_);
  return waiting_bytes_;
}

void ResultWriter::append(int64_t turn, std::string_view line) {
  const int64_t offset = output_.append(line);
  if (options_.resume) written_.push_back({turn, offset});
}

void ResultWriter::append_held() {
  while (!waiting_lines_.empty() && waiting_lines_.begin()->first == next_turn_) {
    const auto next = waiting_lines_.extract(waiting_lines_.begin());
    ++next_turn_;
    if (next.mapped().empty()) continue;
    waiting_bytes_ -= static_cast<int64_t>(next.mapped().size());
    append(next.key(), next.mapped());
  }
}

void ResultWriter::finish() {
  const std::lock_guard lock(mutex_);
  check(waiting_lines_.empty(), "every turn before a result was written");
  if (options_.resume) put_in_order();
  output_.sync();
}

void ResultWriter::put_in_order() {
  std::vector<EarlierResults::Place> places = earlier_.taken();
  places.insert(places.end(), written_.begin(), written_.end());
  const auto by_offset = [](const auto& a, const auto& b) { return a.offset < b.offset; };
  const auto by_turn = [](const auto& a, const auto& b) { return a.turn < b.turn; };
  std::sort(places.begin(), places.end(), by_offset);
  const bool sorted = !options_.in_order || std::is_sorted(places.begin(), places.end(), by_turn);
  if (sorted && !earlier_.outdated()) return;
  if (options_.in_order) std::sort(places.begin(), places.end(), by_turn);
  std::vector<int64_t> starts;
  starts.reserve(places.size());
  for (const auto& place : places) starts.push_back(place.offset);
  const std::vector<int64_t> others = earlier_.not_asked_for();
  starts.insert(starts.end(), others.begin(), others.end());
  output_.rearrange(starts);
  written_.clear();
}

void ResultWriter::give_up() {
  const std::lock_guard lock(mutex_);
  if (!output_.is_file()) return;
  for (auto& [turn, line] : std::exchange(waiting_lines_, {})) {
    if (!line.empty()) append(turn, line);
  }
  output_.sync();
}

}  // namespace skald
