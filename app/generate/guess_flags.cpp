#include "app/generate/guess_flags.h"

#include <cmath>
#include <cstdio>

#include "app/files/json.h"
#include "app/model/device.h"
#include "app/program/command.h"
#include "engine/base/counted.h"
#include "engine/base/error.h"

namespace skald {
namespace {

void add_most(Command& command, GuessFlags& flags) {
  command.option("--spec-max", flags.most, "Guess at most N tokens at a time")
      .type_name("N")
      .check(in_range(1, 63))
      .show_default()
      .group(kChangesSpeed);
}

void add_text(Command& command, GuessFlags& flags) {
  command
      .option("--spec-text", flags.text,
              "Search this file too for what ngram guesses, as old answers")
      .type_name("FILE")
      .check(not_empty())
      .group(kChangesSpeed);
}

void add_draft(Command& command, GuessFlags& flags, const std::string& model_help) {
  command.option("--model-draft", flags.draft, model_help)
      .type_name("PATH")
      .check(not_empty())
      .group(kChangesSpeed);
  command.suggest(
      command
          .option("--device-draft", flags.draft_device, "Run the draft model there [as --device]")
          .type_name("NAME")
          .check(not_empty())
          .group(kChangesSpeed),
      {"auto", "cpu", "cuda", "cuda:0", "cuda:1"});
}

Json kind_json(const SharedGuessCounts::Kind& kind) {
  return {{"tokens", kind.guesses}, {"right", kind.right}};
}

}  // namespace

void add_batch_guess_flags(Command& command, GuessFlags& flags) {
  command
      .option("--spec", flags.by,
              "Guess tokens, as skald run does; auto: all [off; with -md: draft]")
      .type_name("WHAT")
      .one_of({"auto", "off", "ngram", "draft", "eagle", "mtp"})
      .group(kChangesSpeed);
  add_most(command, flags);
  add_text(command, flags);
  add_draft(command, flags, "Guess by this smaller model, or EAGLE-3 head");
}

void add_guess_flags(Command& command, GuessFlags& flags) {
  command
      .option(
          "--spec", flags.by,
          "Guess and check tokens: by ngram (repeated text), draft or eagle (-md), mtp (a layer "
          "of the model), auto (all) [off; with -md: draft]")
      .type_name("WHAT")
      .one_of({"auto", "off", "ngram", "draft", "eagle", "mtp"})
      .group(kChangesSpeed);
  add_most(command, flags);
  add_text(command, flags);
  add_draft(command, flags, "Guess by this smaller model, named as for -m, or by an EAGLE-3 head");
}

void check_guess_flags(const GuessFlags& flags) {
  if (flags.by == "draft" && flags.draft.empty()) {
    fail(Exit::Usage, "--spec draft needs a draft model: -md PATH");
  }
  if (flags.by == "eagle" && flags.draft.empty()) {
    fail(Exit::Usage, "--spec eagle needs an EAGLE-3 head: -md FOLDER");
  }
  if (!flags.text.empty() && !flags.by_ngram() && flags.by != "off") {
    fail(Exit::Usage, "--spec-text is searched by --spec ngram and auto, and not by --spec ",
         flags.by);
  }
  if (flags.draft_device.empty()) return;
  if (flags.draft.empty()) {
    fail(Exit::Usage, "--device-draft needs a draft model: -md PATH");
  }
  parse_device({.name = flags.draft_device, .flag = "--device-draft"});
}

Json guesses_json(const GuessCounts& counts) {
  Json json = {{"steps", counts.steps}, {"tokens", counts.guesses}, {"right", counts.right}};
  if (counts.gain > 0) json["gain"] = std::round(counts.gain * 1000) / 1000;
  return json;
}

Json guesses_json(const SharedGuessCounts& counts) {
  Json json = guesses_json(static_cast<const GuessCounts&>(counts));
  if (counts.ngram.guesses > 0) json["ngram"] = kind_json(counts.ngram);
  if (counts.draft.guesses > 0) json["draft"] = kind_json(counts.draft);
  if (counts.draft_seconds > 0) {
    json["draft_seconds"] = std::round(counts.draft_seconds * 1000) / 1000;
  }
  return json;
}

std::string guesses_text(const SharedGuessCounts& counts) {
  std::string text = guesses_text(static_cast<const GuessCounts&>(counts));
  if (counts.ngram.guesses > 0 && counts.draft.guesses > 0) {
    text += concat(" (ngram ", counts.ngram.right, " of ", counts.ngram.guesses, ", draft ",
                   counts.draft.right, " of ", counts.draft.guesses, ")");
  }
  return text;
}

std::string guesses_text(const GuessCounts& counts) {
  if (counts.steps == 0) return "";
  return concat(counted(counts.steps, "step"), " guessed ", counted(counts.guesses, "token"),
                ", of which ", counts.right, " were right",
                counts.gain > 0 ? concat(", about ", times_text(counts.gain), " as fast") : "");
}

std::string times_text(double ratio) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f times", ratio);
  return text;
}

}  // namespace skald
