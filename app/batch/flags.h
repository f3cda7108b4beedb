// The options of skald batch.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "app/batch/prepare.h"
#include "app/files/json.h"
#include "app/files/jsonl_reader.h"
#include "app/generate/sampling_flags.h"
#include "app/model/open.h"
#include "app/program/help.h"

namespace skald {

struct BatchFlags {
  ModelFlags model;
  std::string model_word;  // [MODEL]
  SamplingFlags sampling = {.seed = 0};
  std::string input = "-", output = "-";
  std::string lines, chat_template, on_overflow = "error", devices;
  int64_t max_tokens = 256;
  int sequences = 0;  // 0: by the device
  bool text = false, plain = false, resume = false, unordered = false, dry_run = false;
  bool ignore_eos = false, special = false, reproducible = false, quiet = false;

  LineRange range() const;
  OnOverflow overflow() const;
};

void add_batch_flags(CLI::App& command, BatchFlags& flags);

// All flags that change a result; for the manifest and for the hash of every request.
Json batch_settings(const BatchFlags& flags, const SamplingParams& params);

}  // namespace skald
