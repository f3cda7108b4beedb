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
  drop_early_step();
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

void Session::append(int32_t token) {
  early_step_ = 0;
  tokens_.push_back(token);
  ++appended_;
}

bool Session::compute_part() {
  const auto pending = std::span(tokens_).subspan(static_cast<size_t>(sequence_.length()));
  const auto most = static_cast<size_t>(executor_->max_rows());
  if (pending.size() <= most) return false;
  const SeqRows rows{&sequence_, pending.first(most), Want::Nothing};
  executor_->run({&rows, 1});
  return true;
}

// Drops the token of the step that was started early. New tokens are then computed in the same
// steps as if no step had been started.
void Session::drop_early_step() {
  if (early_step_ != 0) sequence_.truncate(sequence_.length() - 1);
  early_step_ = 0;
}

void Session::compute() {
  check(!tokens_.empty(), "a session is fed before its next token");
  // next() picks from the last token's logits. A truncated or restored session does not have them,
  // so its last token is computed again.
  sequence_.truncate(std::min(sequence_.length(), std::ssize(tokens_) - 1));
  while (compute_part()) {
  }
  auto pending = std::span(tokens_).subspan(static_cast<size_t>(sequence_.length()));
  if (executor_->state_bytes() > 0 && pending.size() > 1 + appended_) {
    // A state cannot be shortened. So the one before a prompt's last token is kept: an answer that
    // is taken back, and its last token's logits, need no older state.
    const SeqRows rows{&sequence_, pending.first(pending.size() - 1), Want::Nothing};
    executor_->run({&rows, 1});
    sequence_.checkpoint();
    pending = pending.last(1);
  }
  const SeqRows rows{&sequence_, pending, Want::LastRow};
  executor_->run({&rows, 1});
  appended_ = 0;
}

Picked Session::next(TokenFilter* filter, bool last) {
  // Between the two calls another session may have run a step on the executor.
  const bool under_way = early_step_ != 0 && early_step_ == executor_->last_step();
  if (!under_way) {
    drop_early_step();
    compute();
  }
  early_step_ = 0;
  SampleContext context{request_, std::ssize(tokens_), tokens_};
  if (filter) context.allowed = filter->allowed();
  const PickRequest request{&params_, context};
  last = last || std::ssize(tokens_) + 1 >= executor_->context();
  Sequence* const sequence = &sequence_;
  Picks picks = last ? Picks{executor_->pick({&request, 1})}
                     : executor_->pick_and_run({&request, 1}, {&sequence, 1});
  early_step_ = picks.step;
  tokens_.push_back(picks.picked.front().token);
  return std::move(picks.picked.front());
}

void Session::truncate(int64_t length) {
  check(length >= 0 && length <= static_cast<int64_t>(tokens_.size()),
        "a session is truncated to a part of itself");
  if (length < std::ssize(tokens_)) {
    drop_early_step();
    appended_ = 0;
  }
  tokens_.resize(static_cast<size_t>(length));
  sequence_.truncate(std::min(length, sequence_.length()));
}

void Session::set_sampling(SamplingParams params, uint64_t request) {
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
