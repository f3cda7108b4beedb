#include "app/perplexity/group.h"

#include <cmath>

#include "app/model/not_finite.h"
#include "engine/base/error.h"

namespace skald {
namespace {

bool finite(const PplToken& token) {
  if (!token.comparison) return std::isfinite(token.score.logprob);
  const RowComparison& row = token.comparison->row;
  return std::isfinite(row.score.logprob) && std::isfinite(row.base.logprob) &&
         std::isfinite(row.divergence);
}

}  // namespace

bool PplGroup::take(int64_t index) {
  ChunkTokens tokens = run_.chunks->chunk(index);
  PplChunk result;
  result.chunk = index;
  result.bytes = tokens.bytes;
  result.words = tokens.words;
  if (device_.base || run_.base_file) result.comparison.emplace();
  const size_t before = windows_.size();
  for (const ChunkWindow& window : tokens.windows) {
    if (window.scored_from >= std::ssize(window.tokens)) continue;  // nothing to score
    windows_.push_back({window.tokens, window.scored_from});
    owners_.push_back({chunks_.size(), window.first});
  }
  if (!chunks_.empty() && windows_in_step(*device_.executor, windows_) < windows_.size()) {
    windows_.resize(before);
    owners_.resize(before);
    return false;
  }
  chunks_.push_back(std::move(result));
  tokens_.push_back(std::move(tokens));  // moves the ids' vectors, not the ids
  return true;
}

bool PplGroup::compute() {
  std::vector<Executor*> executors{device_.executor};
  if (device_.base) executors.push_back(device_.base);
  // The windows of one long document may need several steps.
  for (size_t done = 0; done < windows_.size();) {
    const auto left = std::span(windows_).subspan(done);
    const auto part = left.first(windows_in_step(*device_.executor, left));
    const bool whole = run_windows(executors, part, [&](std::span<const WindowRow> rows) {
      return add(rows, done) && (!run_.keep_going || run_.keep_going());
    });
    if (failure_) fail_not_finite();
    if (!whole) return false;
    done += part.size();
  }
  return true;
}

void PplGroup::deliver() const {
  for (const PplToken& token : pending_) run_.on_token(token);
  for (const PplChunk& chunk : chunks_) run_.on_chunk(chunk);
}

// Returns false at NaN or infinity.
bool PplGroup::add(std::span<const WindowRow> rows, size_t first_window) {
  std::vector<int32_t> targets;
  for (const WindowRow& row : rows) targets.push_back(row.target);
  std::vector<TokenScore> scores;
  std::vector<RowComparison> comparisons;
  if (device_.base) {
    comparisons = device_.executor->compare(*device_.base, targets);
  } else if (!run_.base_file) {
    scores = device_.executor->score(targets);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].target < 0) continue;
    const size_t window = first_window + rows[i].window;
    PplToken token;
    token.chunk = chunks_[owners_[window].chunk].chunk;
    token.place = owners_[window].first + rows[i].position;
    token.id = rows[i].target;
    const int64_t row = static_cast<int64_t>(i);
    if (device_.base) {
      token.comparison = {comparisons[i], 0};
    } else if (run_.base_file) {
      token.comparison =
          run_.base_file->compare(base_row_++, device_.executor->logits(row), token.id);
    }
    token.score = token.comparison ? token.comparison->row.score : scores[i];
    if (!finite(token)) {
      const bool base = std::isfinite(token.score.logprob);
      failure_ = {token, windows_[window], rows[i].position, base};
      return false;
    }
    if (run_.save) run_.save->write(device_.executor->logits(row), token.id);
    add(token, chunks_[owners_[window].chunk]);
  }
  return true;
}

void PplGroup::add(const PplToken& token, PplChunk& chunk) {
  chunk.sums.add(token.score);
  if (token.comparison) {
    const RowComparison& row = token.comparison->row;
    chunk.comparison->add(row, token.comparison->slack);
    chunk.divergences.push_back(Histogram::bin(row.divergence));
    chunk.probabilities.push_back(
        Histogram::bin(std::exp(row.score.logprob) - std::exp(row.base.logprob)));
  }
  if (!run_.on_token) return;
  if (run_.devices.size() == 1) {
    run_.on_token(token);
  } else {
    pending_.push_back(token);
  }
}

void PplGroup::fail_not_finite() const {
  const auto& [token, window, position, base] = *failure_;
  const std::string where = concat("chunk ", token.chunk, ", token ", token.place);
  if (base && std::isfinite(token.comparison->row.base.logprob)) {
    fail(Exit::Failed, where,
         ": the KL divergence is infinite: the model gives probability 0 to a token that the base "
         "model expects");
  }
  Executor* executor = base ? device_.base : device_.executor;
  if (!executor) {
    fail(Exit::Failed, where, ": the base file holds NaN or infinity; write it again");
  }
  const double logprob = base ? token.comparison->row.base.logprob : token.score.logprob;
  fail(Exit::Failed, where, ": the ", base ? "base model" : "model", " gives ",
       std::isnan(logprob) ? "NaN" : "probability 0", "; NaN or infinity first appears in ",
       first_not_finite(*executor, window.tokens.first(static_cast<size_t>(position))));
}

}  // namespace skald
