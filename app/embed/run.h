// Computes the vectors of lines on one executor, as many texts at a time as its cache holds, and
// writes their results.
#pragma once

#include <cstdint>

#include "app/embed/choice.h"
#include "app/jobs/fields.h"
#include "app/jobs/run.h"
#include "engine/schedule/scheduler.h"
#include "engine/step/backend.h"
#include "tokenizer/text/tokenizer.h"

namespace skald {

struct EmbedOptions {
  const Tokenizer* tokenizer = nullptr;  // none: texts are ids
  EmbedChoice choice;
  std::string model;  // the model's name if the line names none
  int64_t dim = 0, vocab = 0, context = 0;
  int64_t dimensions = 0;  // numbers of a vector, if the line does not say; 0: all
  bool truncate = false;   // texts that are too long lose their end; false: they are errors
  bool text = false;       // a line is a text, not JSON
  bool plain = false;
  bool rows_alike = false;  // every result is vectors of one length, in base64: for a .npy
};

// job: begin() was called. Returns when all lines have a result, or when the program is
// interrupted. Adds the names of fields without effect to `unknown`.
SchedulerCounts run_embedding(Executor& executor, const SchedulerLimits& limits,
                              const EmbedOptions& options, JobRun& job, UnknownFields& unknown);

}  // namespace skald
