// A job's result as a line of the output: in the form of OpenAI's batch output, or plain. The line
// does not depend on when or where the result was computed: the same request gives the same bytes.
#pragma once

#include <string>

#include "app/batch/job.h"
#include "tokenizer/text/tokenizer.h"

namespace skald {

struct BatchResultOptions {
  const Tokenizer* tokenizer = nullptr;  // none: texts are null
  std::string model;                     // the model's name if the line names none
  bool plain = false;
  bool normalize = true;  // vectors (EmbedChoice)
};

std::string batch_result(const BatchJob& job, const BatchResultOptions& options);

}  // namespace skald
