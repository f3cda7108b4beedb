// Guesses the next tokens of a sequence.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/program/program.h"
#include "engine/sampling/sampling_params.h"

namespace skald {

// A sequence whose next tokens are guessed, and how it picks them. A guess that is drawn with the
// same random numbers is right more often.
struct GuessedText {
  std::span<const int32_t> tokens;
  const SamplingParams* params;
  uint64_t request = 0;  // SampleContext::request
};

// What a proposer could guess. Guesses of one kind are about equally often right, and take equally
// long to make. Kinds count from 0.
struct Offer {
  int kind = 0;
  int count = 0;  // the most guesses; 0: none
};

// Calls for one sequence follow one another: a proposer may keep what it has seen, and must notice
// tokens that were taken back.
class Proposer {
 public:
  virtual ~Proposer() = default;
  virtual int kinds() const = 0;

  // What it reads of each row of the text that the model computes; nothing: it needs no such rows.
  virtual std::optional<Features> features() const { return {}; }
  // The model has computed rows of the text: those of the tokens from `first` on. features: [rows,
  // cols]. Later rows that the proposer has seen do not count any more. May throw Error.
  virtual void computed(std::span<const int32_t> /*tokens*/, int64_t /*first*/,
                        std::span<const float> /*features*/) {}

  // How many guesses, at most `most`, can be made of what follows the text. Takes next to no time.
  virtual Offer offer(const GuessedText& text, int most) = 0;

  // Takes in what is new in the text, before guess(). After a pause or a prompt that may take
  // several calls, each as long as a step. False: there is more to take in, or no guess after all.
  virtual bool catch_up(const GuessedText&) { return true; }

  // The guesses, at most `count`, that of the offer. Follows the last call above, which was
  // catch_up() or offer(), with the same text. May throw Error, and may be called again then.
  virtual std::vector<int32_t> guess(const GuessedText& text, int count) = 0;
};

}  // namespace skald
