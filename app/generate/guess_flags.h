// The flags for commands that may guess tokens (engine/speculate).
#pragma once

#include <string>

#include "app/files/json_fwd.h"
#include "engine/schedule/step_guesses.h"
#include "engine/speculate/guess_control.h"

namespace skald {

class Command;

struct GuessFlags {
  std::string by;            // --spec; empty: not given
  int most = 7;              // guesses of a step
  std::string draft;         // path or name of the draft model; empty: none
  std::string draft_device;  // empty: that of the model
  std::string text;          // path of texts to guess from; empty: none
  bool check = false;        // write the text again without guesses, and compare

  bool by_ngram() const { return by == "ngram" || by == "auto" || (by.empty() && !text.empty()); }
  // True if the draft model (-md) guesses: --spec names it, or is not given.
  bool by_draft() const {
    return !draft.empty() && (by.empty() || by == "draft" || by == "eagle" || by == "auto");
  }
  // True if the layer in the model's own files guesses (MTP).
  bool by_mtp() const { return by == "mtp" || (by == "auto" && draft.empty()); }
};

void add_guess_flags(Command& command, GuessFlags& flags);
// For many texts at a time.
void add_batch_guess_flags(Command& command, GuessFlags& flags);
void check_guess_flags(const GuessFlags& flags);  // throws Error(Exit::Usage)

// "12 steps guessed 40 tokens, of which 31 were right, about 1.4 times as fast"; empty if there
// were none.
std::string guesses_text(const GuessCounts& counts);
// The same with counts of each kind.
std::string guesses_text(const SharedGuessCounts& counts);
Json guesses_json(const GuessCounts& counts);
Json guesses_json(const SharedGuessCounts& counts);
std::string times_text(double ratio);  // "1.43 times"

}  // namespace skald
