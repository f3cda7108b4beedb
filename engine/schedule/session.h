// A Session is one sequence on an executor: its tokens and their KV cache. It borrows the Executor,
// which must outlive it. Not thread-safe; sessions on one executor take turns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/schedule/generation.h"
#include "engine/speculate/guesser.h"
#include "engine/step/backend.h"

namespace skald {

// RunOptions::checkpoints for an executor with one session: the state before the last token of that
// many prompts is kept, so that an answer can be taken back. A session that guesses needs another
// one, for wrong guesses.
inline constexpr int kSessionCheckpoints = 4, kGuessCheckpoints = 1;

class Session {
 public:
  // `request` selects the stream of random numbers: the same seed and request draw the same.
  Session(Executor& executor, SamplingParams params, uint64_t request = 0);

  // Appends tokens. The next call of next() computes them, in chunks of the executor's max_rows().
  void feed(std::span<const int32_t> tokens);

  // Appends a token that comes whatever the model says. Unlike feed(), does not drop the step that
  // may have been started early.
  void append(int32_t token);

  // Computes one chunk of the pending tokens if they need more than one chunk; otherwise returns
  // false. next() does the same, but a caller that calls compute_part() first can interrupt a long
  // prompt.
  bool compute_part();

  // Computes the pending tokens and picks the next token, which is appended to the sequence. If no
  // token is pending, the last one is computed again for its logits. `filter` is asked for the
  // allowed tokens while the device computes; its accept() is not called. A GPU may start the
  // following step at once, so pass `last` = true if no token will be asked for after this one.
  Picked next(TokenFilter* filter = nullptr, bool last = false);

  // From now on next() has tokens guessed, computes guesses together with the next token, and keeps
  // the right ones for its next calls (engine/speculate). Tokens stay the same, up to rounding: a
  // GPU's rows may differ a little by the number of rows in their step. Not with a filter. After a
  // wrong guess, a recurrent state goes back to the one before the guesses, and the tokens that
  // were right are computed again in the next step.
  void guess(std::unique_ptr<Guesser> guesser);
  GuessCounts guesses() const { return guesser_ ? guesser_->counts() : GuessCounts(); }
  // Why nothing is guessed any more, after guess(); empty: guesses go on.
  std::string guesses_ended_by() const { return guesser_ ? guesser_->ended_by() : std::string(); }

  // Sets the sampling of tokens from now on.
  void set_sampling(SamplingParams params, uint64_t request = 0);

  // Drops all tokens from `length` on.
  void truncate(int64_t length);

  // The number of tokens() in the cache. The next call of next() computes the others.
  int64_t computed() const {
    return std::min(sequence_.length() - (early_step_ != 0), std::ssize(tokens_));
  }

  // The most tokens, up to `length`, whose cache can be saved. Models without recurrent states give
  // min(length, computed()). Others have states of a few lengths alone.
  int64_t savable(int64_t length) const;
  // Copies page `index` of the cache, 0 <= index < pages_for(computed()), to `bytes`, which has the
  // executor's page_bytes().
  void read_page(int64_t index, std::span<std::byte> bytes) const;
  // Copies the state after `length` tokens, which is savable(), to `bytes` [state_bytes()].
  void read_state(int64_t length, std::span<std::byte> bytes) const;

  // Fills an empty session with `tokens` and their saved cache. `load` fills in one page after the
  // other, and last the state, if the executor has one. If `load` throws, the session stays empty.
  using LoadPage = std::function<void(int64_t index, std::span<std::byte> bytes)>;
  void restore(std::span<const int32_t> tokens, const LoadPage& load);

  const std::vector<int32_t>& tokens() const { return tokens_; }
  bool full() const { return static_cast<int64_t>(tokens_.size()) >= executor_->context(); }

 private:
  void drop_early_step();
  void drop_ready();
  void run(std::span<const int32_t> tokens, Want want);
  void show(int64_t first, int64_t rows);
  void compute();
  void compute_pending();
  bool keep_state();
  void forget_state();
  bool check_guesses();
  Picked take_ready();
  int64_t pending() const { return std::ssize(tokens_) - sequence_.length(); }
  GuessedText guessed_text() const { return {tokens_, &params_, request_}; }

  Executor* executor_;
  SamplingParams params_;
  uint64_t request_;
  Sequence sequence_;  // cache of a prefix of tokens_; after an early step, of all of them
  std::vector<int32_t> tokens_;  // fed and picked tokens
  // Number of the step that the last next() started early (Picks::step); 0: none
  int64_t early_step_ = 0;
  // Tokens that are pending and belong to no prompt: those of append(), and right guesses that a
  // recurrent state has lost.
  size_t appended_ = 0;

  std::unique_ptr<Guesser> guesser_;  // nullptr: nothing is guessed
  // Picked tokens that are not in tokens_ yet. The cache has all of them but the last one, unless a
  // recurrent state went back.
  std::deque<Picked> ready_;
  std::vector<int32_t> guessed_;  // tokens_, and the guesses of the last step
  // The length whose recurrent state is kept for wrong guesses alone; -1: there is none.
  int64_t kept_length_ = -1;
};

}  // namespace skald
