#include "engine/speculate/draft.h"

#include <algorithm>
#include <utility>

namespace skald {
namespace {

// So many tokens are computed together with the first guess, in a step that takes hardly longer.
constexpr size_t kFewTokens = 8;

}  // namespace

DraftProposer::DraftProposer(std::unique_ptr<Executor> draft, int64_t vocab,
                             std::unique_ptr<Translation> translation)
    : draft_(std::move(draft)),
      sequence_(draft_->new_sequence()),
      vocab_(vocab),
      translation_(std::move(translation)),
      too_long_(draft_->context() + 1) {
  check(draft_->state_bytes() == 0, "a draft model can drop tokens");
}

Offer DraftProposer::offer(const GuessedText& text, int most) {
  const bool room = !text.tokens.empty() && std::ssize(text.tokens) < too_long_;
  return {0, room ? most : 0};
}

std::vector<int32_t> DraftProposer::in_draft_tokens(std::span<const int32_t> tokens) {
  if (translation_) return translation_->to_draft(tokens);
  std::vector<int32_t> known;
  known.reserve(tokens.size());
  const int64_t vocab = draft_->program().vocab();
  std::copy_if(tokens.begin(), tokens.end(), std::back_inserter(known),
               [&](int32_t token) { return token < vocab; });
  return known;
}

// Appends tokens to computed_. On an Error nothing has changed.
void DraftProposer::compute(std::span<const int32_t> tokens, Want want) {
  const SeqRows rows{&sequence_, tokens, want};
  draft_->run({&rows, 1});
  computed_.insert(computed_.end(), tokens.begin(), tokens.end());
}

bool DraftProposer::catch_up(const GuessedText& text) {
  const std::vector<int32_t> wanted = in_draft_tokens(text.tokens);
  if (wanted.empty()) return false;
  if (std::ssize(wanted) > draft_->context()) {
    too_long_ = std::min(too_long_, std::ssize(text.tokens));
    return false;
  }
  // The last token is computed again if need be, as its logits are needed.
  const auto least = std::min(computed_.size(), wanted.size() - 1);
  const auto common = std::mismatch(
      computed_.begin(), computed_.begin() + static_cast<std::ptrdiff_t>(least), wanted.begin());
  computed_.erase(common.first, computed_.end());
  sequence_.truncate(std::ssize(computed_));
  pending_.assign(common.second, wanted.end());
  const auto rows = static_cast<size_t>(draft_->max_rows());
  if (pending_.size() > std::min(kFewTokens, rows)) {
    const size_t part = std::min(pending_.size() - 1, rows);
    compute(std::span(pending_).first(part), Want::Nothing);
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(part));
  }
  return pending_.size() <= std::min(kFewTokens, rows);
}

// The settings of the text, for the draft model's vocabulary.
SamplingParams DraftProposer::draft_params(const SamplingParams& params) const {
  SamplingParams own;
  own.temperature = 0;
  if (translation_) return own;
  own = params;
  own.top_logprobs = 0;
  const int64_t vocab = draft_->program().vocab();
  std::erase_if(own.logit_bias, [&](const auto& bias) { return bias.first >= vocab; });
  return own;
}

std::vector<int32_t> DraftProposer::guess(const GuessedText& text, int count) {
  const SamplingParams params = draft_params(*text.params);
  std::vector<int32_t> history(text.tokens.begin(), text.tokens.end()), guesses;
  while (std::ssize(guesses) < count) {
    if (std::ssize(computed_) + std::ssize(pending_) > draft_->context()) break;
    if (!pending_.empty()) compute(pending_, Want::LastRow);
    pending_.clear();
    const PickRequest request{&params, {text.request, std::ssize(history), history}};
    const bool more = std::ssize(guesses) + 1 < count && std::ssize(computed_) < draft_->context();
    Sequence* const sequence = &sequence_;
    const Picks picks = more ? draft_->pick_and_run({&request, 1}, {&sequence, 1})
                             : Picks{draft_->pick({&request, 1})};
    const int32_t token = picks.picked.front().token;
    (picks.step != 0 ? computed_ : pending_).push_back(token);
    if (!translation_ && token >= vocab_) break;
    history.push_back(token);
    guesses.push_back(token);
  }
  if (!translation_) return guesses;
  guesses = translation_->from_draft(guesses);
  if (std::ssize(guesses) > count) guesses.resize(static_cast<size_t>(count));
  return guesses;
}

}  // namespace skald
