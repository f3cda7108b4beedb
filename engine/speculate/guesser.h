// Makes the guesses of a session: asks its proposers what they offer, lets one of them make the
// best offer, and measures how long guesses and steps take. It reads the clock in each call, so the
// session makes the calls at these moments:
//
//   guess() → a step that checks the guesses → checked(right), step_ended(rows)
//   a step without guesses                   → step_ended(1)
//   anything else that takes time            → pause()
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/speculate/guess_control.h"
#include "engine/speculate/proposer.h"

namespace skald {

using Proposers = std::vector<std::unique_ptr<Proposer>>;

class Guesser {
 public:
  // At most `most` guesses a step.
  Guesser(Proposers proposers, int most, SecondsClock clock = steady_seconds);
  Guesser(std::unique_ptr<Proposer> proposer, int most, SecondsClock clock = steady_seconds);

  // Guesses the tokens that follow the text, at most `room`. Returns none if none can be made or
  // they would not pay. Valid until the next call. If this call or the step that checks the guesses
  // throws Error, the caller calls failed().
  std::span<const int32_t> guess(const GuessedText& text, int64_t room);

  // Call after a step without guesses. True: guess() may make guesses once the text has grown by a
  // token.
  bool may_follow(const GuessedText& text);

  // Proposer::features() and computed() of the proposer that reads features. At most one does.
  std::optional<Features> features() const;
  void computed(std::span<const int32_t> tokens, int64_t first, std::span<const float> features);

  void checked(int right);    // the first `right` of the last guesses were right
  void step_ended(int rows);  // a step with so many rows has ended, and checked() was called
  void pause();               // the next step does not follow the last one at once
  // Records that the last guesses could not be made or checked. After three such calls there are no
  // more guesses.
  void failed(std::string reason);
  // Why there are no more guesses: the reason of the third call. Empty: guesses go on.
  const std::string& ended_by() const { return ended_by_; }
  GuessCounts counts() const;

 private:
  void ask(const GuessedText& text, int64_t room);

  Proposers proposers_;
  GuessControl control_;
  SecondsClock clock_;
  std::vector<Offer> offers_;     // one of each proposer; their kinds do not overlap
  std::vector<int> first_kind_;   // the number of each proposer's first kind
  std::vector<int32_t> guesses_;  // the last guesses
  int kind_ = 0;                  // their kind
  int failures_ = 0;
  std::string ended_by_;
  std::optional<double> ended_ = {};  // when the last step ended, if the next one follows at once
  double own_seconds_ = 0;            // the proposers' time since then
  int right_ = 0;                     // right ones among the last guesses
  // The tokens of all steps whose time is known, and that time, with the proposers' time.
  double tokens_ = 0, seconds_ = 0;
};

}  // namespace skald
