#include "app/generate/guess_flags.h"

#include "app/program/command.h"
#include "engine/base/counted.h"
#include "engine/base/error.h"
#include "engine/speculate/ngram.h"

namespace skald {

void add_guess_flags(Command& command, GuessFlags& flags) {
  command
      .option("--spec", flags.by,
              "Guess several tokens and check them in one step: by ngram, what followed the "
              "same ones before; or off")
      .type_name("WHAT")
      .one_of({"off", "ngram"})
      .show_default()
      .group(kChangesSpeed);
  command.option("--spec-max", flags.most, "Guess at most N tokens at a time")
      .type_name("N")
      .check(in_range(1, 63))
      .show_default()
      .group(kChangesSpeed);
}

void start_guessing(Session& session, const GuessFlags& flags) {
  if (flags.by != "ngram") return;
  session.guess(std::make_unique<Guesser>(std::make_unique<NgramProposer>(), flags.most));
}

std::string guesses_text(const GuessCounts& counts) {
  if (counts.steps == 0) return "";
  return concat(counted(counts.steps, "step"), " guessed ", counted(counts.guesses, "token"),
                ", of which ", counts.right, " were right");
}

}  // namespace skald
