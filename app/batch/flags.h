// The options of skald batch.
#pragma once

#include <string>
#include <vector>

#include "app/batch/prepare.h"
#include "app/embed/choice.h"
#include "app/files/json_fwd.h"
#include "app/generate/chat_flags.h"
#include "app/generate/guess_flags.h"
#include "app/generate/sampling_flags.h"
#include "app/jobs/run.h"

namespace skald {

class Command;

struct BatchFlags : JobFlags {
  EmbedFlags embed;
  SamplingFlags sampling = {.params = {}, .seed = 0, .biases = {}};
  ChatFlags chat;  // the template's variables alone
  GuessFlags guess;
  std::string chat_template, on_overflow = "error";
  int64_t max_tokens = 256;
  int sequences = 0;  // 0: the device's default
  bool text = false, plain = false, unordered = false, dry_run = false;
  bool ignore_eos = false, special = false, reproducible = false;
  bool separate_thinking = false;

  OnOverflow overflow() const;
};

void add_batch_flags(Command& command, BatchFlags& flags);

// Every flag that changes a result: for the manifest, and for the hash of every request.
Json batch_settings(const BatchFlags& flags, const SamplingParams& params);

}  // namespace skald
