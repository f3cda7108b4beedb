// Guesses in a step of several samples (engine/speculate): a sample in decode gets rows for the
// tokens that may follow its next one. They change no token. Guesses follow from what the sample's
// own text repeats, or are those of a draft model or a head, which guesses for all samples of a
// step together. Where a filter restricts the tokens, guesses follow it too (allowed_guesses.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/schedule/step_picks.h"
#include "engine/speculate/guess_control.h"
#include "engine/speculate/ngram.h"
#include "engine/speculate/share_control.h"
#include "engine/speculate/texts_proposer.h"

namespace skald {

// Which guesses a scheduler makes.
struct GuessPlan {
  int most = 0;       // the most guesses of a sample in a step; 0: none
  bool ngram = true;  // guesses from what a text repeats
  std::shared_ptr<const NgramText> file = nullptr;  // with `ngram`: a text that is searched too
  // A draft model or a head; outlives the scheduler and its samples. nullptr: none.
  TextsProposer* draft = nullptr;
};

// Guesses of a batch: of all kinds, and those of each kind.
struct SharedGuessCounts : GuessCounts {
  struct Kind {
    int64_t guesses = 0, right = 0;
  };
  Kind ngram, draft;
  double draft_seconds = 0;    // that the draft model has computed
  std::string draft_ended_by;  // why it guesses no more; empty: it goes on

  void add(const SharedGuessCounts& other);
};

// What guesses need to know of a sample.
struct GuessedSample {
  static constexpr double kFirstProbability = 0.7;  // assumed before any guess was checked

  explicit GuessedSample(std::shared_ptr<const NgramText> file) : proposer(std::move(file)) {
    probabilities.assign(static_cast<size_t>(proposer.kinds()), kFirstProbability);
  }

  NgramProposer proposer;
  std::vector<double> probabilities;  // that the next guess is right, by kind of the proposer
  int kind = 0;                       // of the proposer's last offer
  std::unique_ptr<TextsProposer::Text> draft;
  double draft_probability = kFirstProbability;
  bool drafted = false;       // the last guesses are the draft model's
  std::vector<int32_t> text;  // the sample's tokens and the guesses behind them
  size_t sure = 0;            // tokens in it that are no guesses
  // With a filter: the tokens that may follow each guess.
  std::vector<std::vector<uint64_t>> masks;
};

class StepGuesses {
 public:
  // rows: the most rows of a step, guesses included.
  StepGuesses(const GuessPlan& plan, int64_t rows, SecondsClock clock)
      : plan_(plan), rows_(rows), clock_(std::move(clock)), control_(rows) {}

  struct Room {
    int64_t rows, pages, context;
  };
  // Adds guesses to the parts, if each has all pending rows of a sample in decode. The recurrent
  // state of a sample that gets some is kept until the step has been checked.
  void add(std::span<StepPicks::Rows> parts, const Room& room);

  // Shows the rows of the executor's last step to a head. Call after its picks were delivered.
  void show(std::span<const StepPicks::Rows> parts, Executor& executor);

  // Call after the step's picks were delivered. Removes wrong guesses from the sequences: a
  // recurrent state goes back to the one before the step. Records which guesses were right, and how
  // long the step took.
  void checked(std::span<const StepPicks::Rows> parts, double seconds);

  // Call instead of checked() after a step that failed, once its tokens were taken back.
  static void taken_back(std::span<const StepPicks::Rows> parts);

  // Call when the sample is preempted. Frees the sample's place in the draft model's cache.
  static void preempted(ScheduledSample& sample);

  const SharedGuessCounts& counts() const { return counts_; }

 private:
  // The part of the step whose text an entry of sources_ belongs to.
  struct PartSource {
    StepPicks::Rows* part;
    bool drafted;
  };

  void list_sources(StepPicks::Rows& part, const Room& room);
  GuessedSample& guessed(ScheduledSample& sample) const;
  double steps_left(const ScheduledSample& sample) const;
  void ask_draft();
  void draft_failed(const std::string& reason);
  void take(StepPicks::Rows& part, std::span<const int32_t> guesses, bool drafted);
  void saw(GuessedSample& sample, bool drafted, bool right);
  static int64_t right_guesses(const StepPicks::Rows& part);
  double& probability_of(GuessedSample& sample, bool drafted) const;

  GuessPlan plan_;
  int64_t rows_;
  SecondsClock clock_;
  ShareControl control_;
  SharedGuessCounts counts_;
  bool measured_ = false;  // every row of the step belongs to a sample in decode
  int failures_ = 0;       // of the draft model
  // Means of all samples: how likely a guess of the draft model is right, and the new tokens of a
  // sample that has ended; 0: none has.
  double draft_probability_ = GuessedSample::kFirstProbability, ended_tokens_ = 0;

  // Buffers of one step; members only to reuse their memory.
  std::vector<PartSource> part_sources_;
  std::vector<ShareControl::Source> sources_;
  std::vector<StepPicks::Rows*> drafting_;
  std::vector<TextsProposer::Request> requests_;
  std::vector<TextsProposer::ComputedRows> computed_rows_;
};

}  // namespace skald
