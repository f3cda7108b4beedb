#include "app/score/round.h"

#include <algorithm>
#include <cmath>

#include "app/model/not_finite.h"
#include "engine/base/error.h"
#include "engine/perplexity/windows.h"

namespace skald {

bool ScoreRound::add(const ScoreText& text) {
  const auto context = shared(text);
  size_t index = contexts_.size();
  while (index > 0 && !std::ranges::equal(contexts_[index - 1], context)) --index;
  const bool is_new = index == 0;
  index = is_new ? contexts_.size() : index - 1;
  // A fork shares the whole pages of the context, and has pages of its own for the rest.
  const int64_t length = std::ssize(text.ids) - 1, before = std::ssize(context);
  int64_t pages = pages_for(length) - before / kPageTokens;
  if (is_new) pages += pages_for(before);
  if (!texts_.empty() &&
      (pages_ + pages > executor_.pages().size() || texts_.size() == most_texts_)) {
    return false;
  }
  if (is_new) contexts_.push_back(context);
  context_of_.push_back(index);
  texts_.push_back(&text);
  pages_ += pages;
  return true;
}

std::vector<std::vector<TokenScore>> ScoreRound::run() {
  std::vector<std::vector<TokenScore>> scores(texts_.size());
  size_t broken = texts_.size();
  {
    // A text alone does not fork its context: the pages might not fit twice.
    const bool alone = texts_.size() == 1;
    const std::vector<Sequence> contexts =
        alone ? std::vector<Sequence>() : run_prefixes(executor_, contexts_);
    std::vector<TokenWindow> windows;
    for (size_t i = 0; i < texts_.size(); ++i) {
      const ScoreText& text = *texts_[i];
      const std::span<const int32_t> ids(text.ids);
      if (alone) {
        windows.push_back({ids, text.context});
      } else {
        windows.push_back(
            {ids.subspan(static_cast<size_t>(text.context - 1)), 1, &contexts[context_of_[i]]});
      }
    }
    Executor* const executors[] = {&executor_};
    run_windows(executors, windows, [&](std::span<const WindowRow> rows) {
      std::vector<int32_t> targets;
      for (const WindowRow& row : rows) targets.push_back(row.target);
      const std::vector<TokenScore> found = executor_.score(targets);
      for (size_t i = 0; i < rows.size(); ++i) {
        if (rows[i].target < 0) continue;
        scores[rows[i].window].push_back(found[i]);
        if (std::isnan(found[i].logprob)) broken = rows[i].window;
      }
      return broken == texts_.size();
    });
  }
  if (broken < texts_.size()) {
    fail(Exit::Failed, "the model gives NaN; NaN or infinity first appears in ",
         first_not_finite(executor_,
                          std::span(texts_[broken]->ids).first(texts_[broken]->ids.size() - 1)));
  }
  texts_.clear();
  contexts_.clear();
  context_of_.clear();
  pages_ = 0;
  return scores;
}

}  // namespace skald
