// The request of a `skald score` line: how probable is a continuation after a context?
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
  bool no_bos = false;         // no BOS before contexts, except empty ones
  bool truncate_left = false;  // drops the beginning of texts that are too long; else an error
};

struct ScoreText {
  std::vector<int32_t> ids;  // the context, which is never empty, then the continuation
  int64_t context = 0;       // ids of the context
  int64_t bytes = 0;         // of the continuation as text
  int64_t cut = 0;           // ids that were dropped at the start

  int64_t scored() const { return static_cast<int64_t>(ids.size()) - context; }
};

// {"context": TEXT, "continuation": TEXT} or {"context_ids": [...], "continuation_ids": [...]}.
// Texts become ids as in lm-evaluation-harness: blanks at the end of the context belong to the
// continuation. Context and continuation are tokenized as one text, and the context alone too; all
// ids beyond the length of the latter are the continuation's. An empty context becomes BOS, or EOS
// where there is no BOS. Throws LineError. Adds the names of unknown fields to `unknown`.
ScoreText read_score_line(const Json& line, const ScoreOptions& options,
                          std::vector<std::string>& unknown);

}  // namespace skald
