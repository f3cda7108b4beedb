// What a line of `skald score` asks for: how probable a continuation is after a context.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/jobs/line.h"
#include "tokenizer/text/tokenizer.h"

namespace skald {

struct ScoreOptions {
  const Tokenizer* tokenizer = nullptr;  // none: lines hold ids
  int64_t vocab = 0, context = 0;
  bool no_bos = false;         // BOS is put before no context, but for an empty one
  bool truncate_left = false;  // of what is too long the beginning is left out, else it is an error
};

struct ScoreText {
  std::vector<int32_t> ids;  // context, which is never empty, and continuation
  int64_t context = 0;       // how many of them are the context's
  int64_t bytes = 0;         // of the continuation's text
  int64_t cut = 0;           // ids that were left out at the start

  int64_t scored() const { return static_cast<int64_t>(ids.size()) - context; }
};

// {"context": TEXT, "continuation": TEXT} or {"context_ids": [...], "continuation_ids": [...]}.
// Texts become ids as lm-evaluation-harness does it: blanks at the context's end belong to the
// continuation; both are tokenized as one text, and the continuation has what goes beyond the ids
// of the context alone. An empty context is BOS, or EOS where there is none.
// Throws LineError; names of fields that are not known are added to `unknown`.
ScoreText read_score_line(const Json& line, const ScoreOptions& options,
                          std::vector<std::string>& unknown);

}  // namespace skald
