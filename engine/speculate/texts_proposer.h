// Guesses the next tokens of several texts together, by a smaller model (draft_texts.h) or a head
// (head_texts.h). Each step of the model or head makes one guess for every text. Its cache bounds
// how many texts have guesses: a text for which there is no room gets none, and no other text gives
// up its place.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/speculate/proposer.h"

namespace skald {

class TextsProposer {
 public:
  virtual ~TextsProposer() = default;

  // The proposer's state of one text. The proposer outlives it.
  class Text {
   public:
    virtual ~Text() = default;
    Text() = default;
    Text(const Text&) = delete;
    Text& operator=(const Text&) = delete;
  };
  virtual std::unique_ptr<Text> new_text() = 0;

  // The proposer reads these features of each row that the model computes. Not set: it reads none.
  virtual std::optional<Features> features() const { return {}; }
  // Features of rows that the model has computed: the rows of the text's tokens from `first` on.
  // They replace rows of earlier calls from `first` on.
  struct ComputedRows {
    Text* text;
    std::span<const int32_t> tokens;
    int64_t first;
    std::span<const float> features;  // [rows, cols]
  };
  virtual void computed(std::span<const ComputedRows>) {}  // may throw Error

  // Returns how many guesses, at most `most`, could follow the text.
  virtual int offer(const Text& text, std::span<const int32_t> tokens, int most) const = 0;
  // Estimates how long catch_up() will take for the new tokens of a text of `tokens` tokens.
  virtual double catch_up_seconds(const Text&, int64_t /*tokens*/) const { return 0; }

  // A text that needs guesses, and the results.
  struct Request {
    Text* text;
    GuessedText of;
    int count;                          // the most guesses
    bool ready = false;                 // set by catch_up()
    std::vector<int32_t> guesses = {};  // set by guess(); tokens of the text's vocabulary
  };
  // Reads the new tokens of the texts, in one step at most. A text is not ready if it has more new
  // tokens, or if there is no room for it. May throw Error.
  virtual void catch_up(std::span<Request> requests) = 0;
  // Makes the guesses of the texts that are ready. Call it after catch_up(), with the same
  // requests. May throw Error; there are no guesses then.
  virtual void guess(std::span<Request> requests) = 0;

  // The steps of the last guess(): how many texts each had, and how long it took.
  struct DraftStep {
    int64_t texts;
    double seconds;
  };
  std::span<const DraftStep> last_steps() const { return last_steps_; }

 protected:
  std::vector<DraftStep> last_steps_;
};

}  // namespace skald
