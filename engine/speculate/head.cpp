#include "engine/speculate/head.h"

#include <algorithm>
#include <utility>

#include "engine/base/error.h"

namespace skald {
namespace {

// Rows that wait for guesses are computed when they are so many, and in prompts at once.
constexpr int64_t kMostWaiting = 32;

}  // namespace

HeadProposer::HeadProposer(std::unique_ptr<Executor> head, HeadKind kind)
    : head_(std::move(head)), kind_(std::move(kind)), sequence_(head_->new_sequence()) {
  const Program& program = head_->program();
  check(program.state_floats() == 0, "a head can drop tokens");
  own_cols_ = program.act(program.features(kind_.gives)).cols;
  model_cols_ = program.given_cols() - (kind_.both ? own_cols_ : 0);
  check(model_cols_ > 0 && (kind_.both || model_cols_ == own_cols_), "a head is given features");
  check(kind_.tokens.empty() || std::ssize(kind_.tokens) == program.vocab(),
        "each token of the head has one of the text");
}

// Keeps the features of the first `rows` positions from origin_ on.
void HeadProposer::keep(int64_t rows) {
  if (rows < sequence_.length()) sequence_.truncate(rows);
  waiting_.resize(static_cast<size_t>((rows - sequence_.length()) * model_cols_));
}

void HeadProposer::computed(std::span<const int32_t> tokens, int64_t first,
                            std::span<const float> features) {
  if (first < origin_ || first > end()) {  // what lies between is not known: begin anew
    keep(0);
    origin_ = first;
  }
  keep(first - origin_);
  waiting_.insert(waiting_.end(), features.begin(), features.end());
  if (end() - origin_ > head_->context()) {  // no room: begin anew with the last row
    waiting_.erase(waiting_.begin(), waiting_.end() - static_cast<std::ptrdiff_t>(model_cols_));
    origin_ = first + std::ssize(features) / model_cols_ - 1;
    sequence_.truncate(0);
  }
  // The last row also needs the token that follows, which may not be picked yet.
  if (waiting() > kMostWaiting) compute(tokens, waiting() - 1, Want::Nothing);
}

// Moves the first `count` waiting rows to the cache.
void HeadProposer::compute(std::span<const int32_t> tokens, int64_t count, Want want) {
  while (count > 0) {
    const int64_t rows = std::min(count, head_->max_rows()), own = kind_.both ? own_cols_ : 0;
    const auto taken = waiting_.begin() + static_cast<std::ptrdiff_t>(rows * model_cols_);
    given_.clear();
    for (auto at = waiting_.begin(); at != taken; at += static_cast<std::ptrdiff_t>(model_cols_)) {
      given_.insert(given_.end(), static_cast<size_t>(own), 0.0f);
      given_.insert(given_.end(), at, at + static_cast<std::ptrdiff_t>(model_cols_));
    }
    const int64_t next = origin_ + sequence_.length() + 1;  // each row reads the following token
    const SeqRows part = {&sequence_,
                          tokens.subspan(static_cast<size_t>(next), static_cast<size_t>(rows)),
                          count == rows ? want : Want::Nothing, given_};
    head_->run({&part, 1});
    last_row_ = rows - 1;
    waiting_.erase(waiting_.begin(), taken);
    count -= rows;
  }
}

// Computes a row after the last one, with the head's own features of that one.
void HeadProposer::run(int32_t token, std::span<const float> own) {
  given_.assign(own.begin(), own.end());
  if (kind_.both) given_.resize(given_.size() + static_cast<size_t>(model_cols_));
  const SeqRows row = {&sequence_, {&token, 1}, Want::LastRow, given_};
  head_->run({&row, 1});
  last_row_ = 0;
}

Offer HeadProposer::offer(const GuessedText& text, int most) {
  const int64_t size = std::ssize(text.tokens);
  // The last token is not computed yet; the features of the one before wait.
  const bool known = end() == size - 1 && waiting() > 0;
  const int64_t room = head_->context() - (size - 1 - origin_);
  return {0, known ? static_cast<int>(std::clamp<int64_t>(room + 1, 0, most)) : 0};
}

// The text's settings, if both have the same tokens. Other heads guess what is most probable.
SamplingParams HeadProposer::own_params(const SamplingParams& params) const {
  SamplingParams own;
  own.temperature = 0;
  if (!kind_.tokens.empty()) return own;
  own = params;
  own.top_logprobs = 0;
  const int64_t vocab = head_->program().vocab();
  std::erase_if(own.logit_bias, [&](const auto& bias) { return bias.first >= vocab; });
  return own;
}

std::vector<int32_t> HeadProposer::guess(const GuessedText& text, int count) {
  compute(text.tokens, waiting(), Want::LastRow);
  const int64_t known = sequence_.length();
  const SamplingParams params = own_params(*text.params);
  std::vector<int32_t> history(text.tokens.begin(), text.tokens.end()), guesses;
  std::vector<float> own;
  try {
    while (true) {
      const PickRequest request{&params, {text.request, std::ssize(history), history}};
      const int32_t picked = head_->pick({&request, 1}).front().token;
      const int32_t token =
          kind_.tokens.empty() ? picked : kind_.tokens[static_cast<size_t>(picked)];
      guesses.push_back(token);
      if (std::ssize(guesses) == count || token >= head_->program().tokens()) break;
      const std::span<const float> features = head_->features(kind_.gives, last_row_, 1);
      own.assign(features.begin(), features.end());
      history.push_back(token);
      run(token, own);
    }
  } catch (...) {
    sequence_.truncate(known);
    throw;
  }
  sequence_.truncate(known);
  return guesses;
}

}  // namespace skald
