// Makes the guesses of a session: asks its proposers what they offer, has the best offer made, and
// measures what guesses and steps take. Tells the time itself, so its calls follow a session's
// steps:
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

  // Guesses of what follows the text, at most `room`; empty: none can be made, or they would not
  // pay. Valid until the next call. May throw Error, as the step that checks the guesses may;
  // failed() is called then.
  std::span<const int32_t> guess(const GuessedText& text, int64_t room);

  // Called after a step without guesses: whether guess() may make some for the text that is a token
  // longer than this one.
  bool may_follow(const GuessedText& text);

  // Proposer::features() of the one proposer that reads some, and its computed().
  std::optional<Features> features() const;
  void computed(std::span<const int32_t> tokens, int64_t first, std::span<const float> features);

  void checked(int right);    // of the last guesses, the first `right` ones were right
  void step_ended(int rows);  // a step with so many rows has ended, and checked() was called
  void pause();               // the next step does not follow the last one at once
  // The last guesses could not be made or checked. After three such calls there are no more
  // guesses.
  void failed(std::string reason);
  // The reason of the last of these calls; empty: guesses go on.
  const std::string& ended_by() const { return ended_by_; }
  GuessCounts counts() const;

 private:
  void ask(const GuessedText& text, int64_t room);

  Proposers proposers_;
  GuessControl control_;
  SecondsClock clock_;
  std::vector<Offer> offers_;     // of each proposer; their kinds do not overlap
  std::vector<int> first_kind_;   // of each proposer
  std::vector<int32_t> guesses_;  // the last ones
  int kind_ = 0;                  // of the last guesses
  int failures_ = 0;
  std::string ended_by_;
  std::optional<double> ended_ = {};  // when the last step ended, if the next one follows at once
  double own_seconds_ = 0;            // that the proposers took since then
  int right_ = 0;                     // of the last guesses
  // The steps whose time is known gave so many tokens in so many seconds, proposers included.
  double tokens_ = 0, seconds_ = 0;
};

}  // namespace skald
