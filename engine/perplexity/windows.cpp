#include "engine/perplexity/windows.h"

#include <algorithm>
#include <vector>

#include "engine/base/error.h"

namespace skald {
namespace {

struct Active {
  size_t window;
  int64_t done = 0;                 // computed rows
  std::vector<Sequence> sequences;  // one for each executor
};

// The rows of one window in a step.
struct Part {
  Active* active;
  int64_t count;
};

Want want_of(const TokenWindow& window, int64_t first, int64_t count) {
  return first + count >= window.scored_from ? Want::EveryRow : Want::Nothing;
}

}  // namespace

size_t windows_in_step(const Executor& executor, std::span<const TokenWindow> windows) {
  int64_t rows = 0;
  size_t count = 0;
  for (const TokenWindow& window : windows) {
    rows += window.rows();
    if (rows > executor.max_rows() || count == static_cast<size_t>(executor.plan().sequences))
      break;
    ++count;
  }
  return std::max<size_t>(count, 1);
}

std::vector<Sequence> run_prefixes(Executor& executor,
                                   std::span<const std::span<const int32_t>> texts) {
  std::vector<Sequence> sequences;
  for (size_t i = 0; i < texts.size(); ++i) sequences.push_back(executor.new_sequence());
  std::vector<SeqRows> step;
  for (size_t next = 0; next < texts.size();) {
    step.clear();
    auto room = static_cast<size_t>(executor.max_rows());
    while (next < texts.size() && room > 0) {
      const auto left = texts[next].subspan(static_cast<size_t>(sequences[next].length()));
      const auto part = left.first(std::min(left.size(), room));
      if (!part.empty()) step.push_back({&sequences[next], part, Want::Nothing});
      room -= part.size();
      if (part.size() < left.size()) break;  // continues in the next step
      ++next;
    }
    if (!step.empty()) executor.run(step);
  }
  return sequences;
}

bool run_windows(std::span<Executor* const> executors, std::span<const TokenWindow> windows,
                 const OnRows& on_rows) {
  int64_t most_rows = executors.front()->max_rows();
  for (const Executor* executor : executors) most_rows = std::min(most_rows, executor->max_rows());
  std::vector<Active> actives;
  for (size_t i = 0; i < windows.size(); ++i) {
    check(windows[i].rows() >= 1 && windows[i].scored_from >= 1,
          "a window has at least one row and a scored_from of at least 1");
    check(!windows[i].before || executors.size() == 1,
          "TokenWindow::before belongs to one executor");
    Active& active = actives.emplace_back(Active{i, 0, {}});
    for (Executor* executor : executors) {
      const Sequence* before = windows[i].before;
      active.sequences.push_back(before ? before->fork() : executor->new_sequence());
    }
  }

  std::vector<Part> parts;
  std::vector<SeqRows> step;
  std::vector<WindowRow> rows;
  for (size_t next = 0; next < actives.size();) {
    parts.clear();
    rows.clear();
    int64_t room = most_rows;
    for (size_t i = next; i < actives.size() && room > 0; ++i) {
      const int64_t count = std::min(windows[i].rows() - actives[i].done, room);
      parts.push_back({&actives[i], count});
      room -= count;
    }
    for (size_t e = 0; e < executors.size(); ++e) {
      step.clear();
      for (const auto& [active, count] : parts) {
        const TokenWindow& window = windows[active->window];
        step.push_back(
            {&active->sequences[e],
             window.tokens.subspan(static_cast<size_t>(active->done), static_cast<size_t>(count)),
             want_of(window, active->done, count)});
      }
      executors[e]->run(step);
    }
    for (const auto& [active, count] : parts) {
      const TokenWindow& window = windows[active->window];
      if (want_of(window, active->done, count) == Want::EveryRow) {
        for (int64_t position = active->done + 1; position <= active->done + count; ++position) {
          const bool scored = position >= window.scored_from;
          rows.push_back({active->window, position,
                          scored ? window.tokens[static_cast<size_t>(position)] : -1});
        }
      }
      active->done += count;
      if (active->done == window.rows()) {
        active->sequences.clear();
        ++next;
      }
    }
    if (!rows.empty() && !on_rows(rows)) return false;
  }
  return true;
}

}  // namespace skald
