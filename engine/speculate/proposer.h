// Guesses the next tokens of a sequence.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/program/program.h"
#include "engine/sampling/sampling_params.h"

namespace skald {

// A sequence whose next tokens are guessed, and the settings by which its tokens are picked. A
// guess that is drawn by the same settings and random numbers is right more often.
struct GuessedText {
  std::span<const int32_t> tokens;
  const SamplingParams* params;
  uint64_t request = 0;  // SampleContext::request
};

// What a proposer could guess. Guesses of one kind are right about equally often and take about
// equally long to make. Kinds count from 0.
struct Offer {
  int kind = 0;
  int count = 0;  // the most guesses; 0: none
};

// Guesses for one sequence. A proposer may keep what it has learned from earlier calls, but the
// sequence may have lost tokens since the last call, so it compares them.
class Proposer {
 public:
  virtual ~Proposer() = default;
  virtual int kinds() const = 0;

  // The numbers that it reads of each row that the model computes; not set: it reads none.
  virtual std::optional<Features> features() const { return {}; }
  // Takes the features of rows that the model has computed, [rows, cols]: the rows of the tokens
  // from `first` on. They replace rows of earlier calls from `first` on. May throw Error.
  virtual void computed(std::span<const int32_t> /*tokens*/, int64_t /*first*/,
                        std::span<const float> /*features*/) {}

  // Returns how many guesses, at most `most`, could be made. Takes next to no time.
  virtual Offer offer(const GuessedText& text, int most) = 0;

  // Reads the new tokens of the text, before guess(). After a pause or a prompt this may take
  // several calls, each as long as a step. False: there are more tokens to read, or there is no
  // guess after all.
  virtual bool catch_up(const GuessedText&) { return true; }

  // Makes at most `count` guesses; the offer's count is the bound. Call it after offer() and
  // catch_up(), with the same text. It may throw Error, and may be called again then.
  virtual std::vector<int32_t> guess(const GuessedText& text, int count) = 0;
};

}  // namespace skald
