#include "engine/session.h"

#include <algorithm>

#include "engine/error.h"

namespace skald {

Session::Session(Executor& executor, SamplingParams params, uint64_t request)
    : executor_(&executor),
      params_(std::move(params)),
      request_(request),
      sequence_(executor.new_sequence()) {}

void Session::feed(std::span<const int32_t> tokens) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

bool Session::compute_part() {
  const auto pending = std::span(tokens_).subspan(static_cast<size_t>(sequence_.length()));
  const auto most = static_cast<size_t>(executor_->max_rows());
  if (pending.size() <= most) return false;
  const SeqRows rows{&sequence_, pending.first(most), Want::Nothing};
  executor_->run({&rows, 1});
  return true;
}

Picked Session::next(std::span<const uint64_t> allowed) {
  while (compute_part()) {
  }
  const auto pending = std::span(tokens_).subspan(static_cast<size_t>(sequence_.length()));
  check(!pending.empty(), "a session is fed before its next token");
  const SeqRows rows{&sequence_, pending, Want::LastRow};
  executor_->run({&rows, 1});
  const PickRequest request{&params_,
                            {request_, static_cast<int64_t>(tokens_.size()), tokens_, allowed}};
  Picked picked = executor_->pick({&request, 1}).front();
  tokens_.push_back(picked.token);
  return picked;
}

void Session::truncate(int64_t length) {
  check(length >= 0 && length <= static_cast<int64_t>(tokens_.size()),
        "a session is truncated to a part of itself");
  tokens_.resize(static_cast<size_t>(length));
  // The last token is computed again: its logits are what next() picks from.
  sequence_.truncate(std::min(std::max<int64_t>(length - 1, 0), sequence_.length()));
}

}  // namespace skald
