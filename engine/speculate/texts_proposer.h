// Guesses the next tokens of several texts together, by a smaller model (draft_texts.h) or a head
// (head_texts.h): each of its steps makes one guess of every text. Its cache bounds how many texts
// have guesses: a text for which it has no room is not ready, and no other text gives up its place.
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
  // Rows that the model has computed: those of a text's tokens from `first` on. Later rows that
  // were shown do not count any more.
  struct Shown {
    Text* text;
    std::span<const int32_t> tokens;
    int64_t first;
    std::span<const float> features;  // [rows, cols]
  };
  virtual void computed(std::span<const Shown>) {}  // may throw Error

  // Returns how many guesses, at most `most`, could follow the text.
  virtual int offer(const Text& text, std::span<const int32_t> tokens, int most) const = 0;
  // Estimates how long catch_up() will take for what is new in a text of `tokens` tokens.
  virtual double catch_up_seconds(const Text&, int64_t /*tokens*/) const { return 0; }

  // A text that is to have guesses, and what comes of it.
  struct Asked {
    Text* text;
    GuessedText of;
    int count;                          // the most guesses
    bool ready = false;                 // catch_up()
    std::vector<int32_t> guesses = {};  // guess(); in the text's tokens
  };
  // Takes in what is new in the texts, in one step at most. A text of which more is left, or for
  // which there is no room, is not ready. May throw Error.
  virtual void catch_up(std::span<Asked> asked) = 0;
  // Makes the guesses of those that are ready. Follows catch_up(), with the same texts. May throw
  // Error; there are no guesses then.
  virtual void guess(std::span<Asked> asked) = 0;

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
