// Runs chunks of a text through a model, several in a step, and gives each chunk's result, in
// order. Beside it a base: another executor or a file of what one said.
#pragma once

#include <functional>
#include <optional>

#include "app/base_file.h"
#include "app/ppl_chunks.h"
#include "app/ppl_record.h"
#include "engine/backend.h"

namespace skald {

// A scored token.
struct PplToken {
  int64_t chunk = 0;
  int64_t place = 0;  // in the text
  int32_t id = 0;
  TokenScore score;
  std::optional<StoredComparison> comparison;
};

struct PplRun {
  Executor* executor = nullptr;
  const ChunkSource* chunks = nullptr;
  int64_t first = 0, last = 0;  // of the chunks: [first, last)

  // At most one of these.
  Executor* base = nullptr;
  BaseReader* base_file = nullptr;
  int64_t base_row = 0;  // in the file, of the first chunk's first token

  BaseWriter* save = nullptr;

  std::function<void(const PplToken&)> on_token;  // none: not asked for
  std::function<void(const PplChunk&)> on_chunk;
  std::function<bool()> go_on;  // asked after each step; false ends the run after a whole chunk
};

// False when go_on ended it. NaN and infinity are an Error that names chunk, token and layer.
bool run_perplexity(const PplRun& run);

}  // namespace skald
