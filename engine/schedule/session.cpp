#include "engine/schedule/session.h"

#include <algorithm>

#include "engine/base/error.h"

namespace skald {

Session::Session(Executor& executor, SamplingParams params, uint64_t request)
    : executor_(&executor),
      params_(std::move(params)),
      request_(request),
      sequence_(executor.new_sequence()) {}

void Session::feed(std::span<const int32_t> tokens) {
  if (tokens.empty()) return;
  drop_ready();
  drop_early_step();
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

void Session::append(int32_t token) {
  drop_ready();
  early_step_ = 0;
  tokens_.push_back(token);
  ++appended_;
}

bool Session::compute_part() {
  if (!ready_.empty()) return false;
  const auto pending = std::span(tokens_).subspan(static_cast<size_t>(sequence_.length()));
  const auto most = static_cast<size_t>(executor_->max_rows());
  if (pending.size() <= most) return false;
  if (guesser_) guesser_->pause();
  run(pending.first(most), Want::Nothing);
  return true;
}

// Computes tokens, and shows them to proposers.
void Session::run(std::span<const int32_t> tokens, Want want) {
  const SeqRows rows{&sequence_, tokens, want};
  executor_->run({&rows, 1});
  show(sequence_.length() - std::ssize(tokens), std::ssize(tokens));
}

// Shows the first rows of the last step to proposers that read features. The text's tokens from
// `first` on are those of the rows.
void Session::show(int64_t first, int64_t rows) {
  const std::optional<Features> kind = guesser_ ? guesser_->features() : std::nullopt;
  if (!kind) return;
  try {
    guesser_->computed(tokens_, first, executor_->features(*kind, 0, rows));
  } catch (const Error& error) {  // no memory for the rows; the text needs none of them
    guesser_->failed(error.what());
  }
}

// Drops the token of the step that was started early. New tokens are then computed in the same
// steps as if no step had been started.
void Session::drop_early_step() {
  if (early_step_ != 0) sequence_.truncate(sequence_.length() - 1);
  early_step_ = 0;
}

void Session::compute() {
  check(!tokens_.empty(), "a session is fed before its next token");
  try {
    compute_pending();
  } catch (const Error& error) {
    // The GPU's executor does not repeat a step that changes a recurrent state, even if it could
    // free memory for it. The sequence has gone back to a state from before the step, so the step
    // is repeated here.
    if (error.code() != Exit::Memory || executor_->state_bytes() == 0) throw;
    compute_pending();
  }
  appended_ = 0;
}

void Session::compute_pending() {
  // next() picks from the last token's logits. A truncated or restored session does not have them,
  // so its last token is computed again.
  sequence_.truncate(std::min(sequence_.length(), std::ssize(tokens_) - 1));
  while (compute_part()) {
  }
  auto pending = std::span(tokens_).subspan(static_cast<size_t>(sequence_.length()));
  if (executor_->state_bytes() > 0 && pending.size() > 1 + appended_) {
    // A state cannot be shortened. So the one before a prompt's last token is kept: an answer that
    // is taken back, and its last token's logits, need no older state.
    run(pending.first(pending.size() - 1), Want::Nothing);
    sequence_.checkpoint();
    pending = pending.last(1);
  }
  run(pending, Want::LastRow);
  forget_state();
}

void Session::guess(std::unique_ptr<Guesser> guesser) { guesser_ = std::move(guesser); }

// Keeps a recurrent state for wrong guesses. False: it cannot be kept.
bool Session::keep_state() {
  if (kept_length_ != sequence_.length()) forget_state();
  const Sequence::Kept kept = sequence_.checkpoint();
  if (kept == Sequence::Kept::Now) kept_length_ = sequence_.length();
  return kept != Sequence::Kept::No;
}

void Session::forget_state() {
  if (kept_length_ >= 0) sequence_.forget(kept_length_);
  kept_length_ = -1;
}

// The tokens of guesses that nobody has asked for are not a part of the session.
void Session::drop_ready() {
  if (guesser_) guesser_->pause();
  if (ready_.empty()) return;
  ready_.clear();
  sequence_.truncate(std::min(sequence_.length(), std::ssize(tokens_)));
}

Picked Session::take_ready() {
  Picked picked = std::move(ready_.front());
  ready_.pop_front();
  tokens_.push_back(picked.token);
  appended_ = static_cast<size_t>(std::max<int64_t>(pending() - 1, 0));
  return picked;
}

// Computes the pending tokens and guesses of what follows them. Returns false if there is no guess;
// then nothing has changed.
bool Session::check_guesses() {
  const int64_t size = std::ssize(tokens_), before = sequence_.length(), rows = pending();
  if (early_step_ != 0 || rows < 1 || rows != 1 + static_cast<int64_t>(appended_)) return false;
  const int64_t room = std::min(executor_->context() - 1 - size, executor_->max_rows() - rows);
  std::span<const int32_t> guesses;
  std::vector<Picked> picked;
  try {
    guesses = guesser_->guess(guessed_text(), room);
    if (guesses.empty() || !keep_state()) return false;
    guessed_.assign(tokens_.begin(), tokens_.end());
    guessed_.insert(guessed_.end(), guesses.begin(), guesses.end());
    const std::span<const int32_t> all(guessed_);
    std::vector<PickRequest> requests;
    for (auto length = static_cast<size_t>(before) + 1; length <= all.size(); ++length) {
      requests.push_back({&params_, {request_, static_cast<int64_t>(length), all.first(length)}});
    }
    const SeqRows part{&sequence_, all.last(requests.size()), Want::EveryRow};
    executor_->run({&part, 1});
    picked = executor_->pick(requests);
  } catch (const Error& error) {  // no memory, or no token can be picked after a wrong guess
    sequence_.truncate(std::min(sequence_.length(), before));
    guesser_->failed(error.what());
    return false;
  }
  const auto step_rows = static_cast<int>(picked.size());
  picked.erase(picked.begin(), picked.begin() + (rows - 1));  // of tokens that are known
  size_t right = 0;
  while (right < guesses.size() && picked[right].token == guesses[right]) ++right;
  guesser_->checked(static_cast<int>(right));
  guesser_->step_ended(step_rows);
  show(before, rows + static_cast<int64_t>(right));
  sequence_.truncate(size + static_cast<int64_t>(right));
  appended_ = 0;
  for (size_t i = 0; i <= right; ++i) ready_.push_back(std::move(picked[i]));
  return true;
}

Picked Session::next(TokenFilter* filter, bool last) {
  if (filter) drop_ready();
  if (!ready_.empty() || (guesser_ && !filter && !last && check_guesses())) return take_ready();
  const bool guesses = guesser_ && !filter;
  // Between the two calls another session may have run a step on the executor.
  const bool under_way = early_step_ != 0 && early_step_ == executor_->last_step();
  if (!under_way) {
    drop_early_step();
    compute();
  } else {
    show(std::ssize(tokens_) - 1, 1);
  }
  early_step_ = 0;
  SampleContext context{request_, std::ssize(tokens_), tokens_};
  if (filter) context.allowed = filter->allowed();
  const PickRequest request{&params_, context};
  // Where guesses may follow the next token, no step is started early: it would have none.
  last = last || std::ssize(tokens_) + 1 >= executor_->context() ||
         (guesses && guesser_->may_follow(guessed_text()));
  Sequence* const sequence = &sequence_;
  Picks picks = last ? Picks{executor_->pick({&request, 1})}
                     : executor_->pick_and_run({&request, 1}, {&sequence, 1});
  early_step_ = picks.step;
  tokens_.push_back(picks.picked.front().token);
  if (guesses) guesser_->step_ended(1);
  return std::move(picks.picked.front());
}

void Session::truncate(int64_t length) {
  check(length >= 0 && length <= static_cast<int64_t>(tokens_.size()),
        "a session is truncated to a part of itself");
  drop_ready();
  if (length < std::ssize(tokens_)) {
    drop_early_step();
    appended_ = 0;
  }
  tokens_.resize(static_cast<size_t>(length));
  sequence_.truncate(std::min(length, sequence_.length()));
}

void Session::set_sampling(SamplingParams params, uint64_t request) {
  drop_ready();
  params_ = std::move(params);
  request_ = request;
}

int64_t Session::savable(int64_t length) const {
  return sequence_.kept_length(std::min(length, computed()));
}

void Session::read_state(int64_t length, std::span<std::byte> bytes) const {
  const int32_t slot = sequence_.state_at(length);
  check(slot >= 0, "the state to be read is kept");
  executor_->read_state(slot, bytes);
}

void Session::read_page(int64_t index, std::span<std::byte> bytes) const {
  check(index >= 0 && index < pages_for(computed()), "the page to be read is in use");
  executor_->read_page(sequence_.pages()[static_cast<size_t>(index)], bytes);
}

void Session::restore(std::span<const int32_t> tokens, const LoadPage& load) {
  check(tokens_.empty() && computed() == 0, "a session is empty before it is restored");
  check(std::ssize(tokens) <= executor_->context(), "restored tokens fit the context");
  Sequence sequence = executor_->new_sequence();
  sequence.extend(std::ssize(tokens));
  std::vector<std::byte> bytes(static_cast<size_t>(executor_->page_bytes()));
  for (int64_t index = 0; index < std::ssize(sequence.pages()); ++index) {
    load(index, bytes);
    executor_->write_page(sequence.pages()[static_cast<size_t>(index)], bytes);
  }
  if (executor_->state_bytes() > 0 && !tokens.empty()) {
    bytes.resize(static_cast<size_t>(executor_->state_bytes()));
    load(std::ssize(sequence.pages()), bytes);
    executor_->write_state(sequence.state(), bytes);
    sequence.checkpoint();
  }
  tokens_.assign(tokens.begin(), tokens.end());
  sequence_ = std::move(sequence);
}

}  // namespace skald
