// Runs the chunks of a text through a model, several per step, and delivers their results in order.
// While a device computes, the next chunks are prepared. Several devices share the chunks. The
// model may be compared with a base model or a base file.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "app/perplexity/base_file.h"
#include "app/perplexity/chunks.h"
#include "app/perplexity/record.h"
#include "engine/step/backend.h"

namespace skald {

// A scored token.
struct PplToken {
  int64_t chunk = 0;
  int64_t place = 0;  // position in the text
  int32_t id = 0;
  TokenScore score;
  std::optional<StoredComparison> comparison;
};

struct PplDevice {
  Executor* executor = nullptr;
  Executor* base = nullptr;  // the base model's; all devices have one, or none has
};

struct PplRun {
  std::vector<PplDevice> devices;
  const ChunkSource* chunks = nullptr;  // used by one thread at a time
  int64_t first = 0, last = 0;          // compute chunks [first, last)

  // Only with a single device that has no base executor.
  BaseReader* base_file = nullptr;
  int64_t base_row = 0;  // the file's row for the first scored token of chunk `first`

  BaseWriter* save = nullptr;  // only with a single device

  // Called in the order of the text, one call at a time, from any device's thread.
  std::function<void(const PplToken&)> on_token;  // may be empty
  std::function<void(const PplChunk&)> on_chunk;
  // Called after each step by each device's thread. Returning false ends the run; chunks that are
  // complete are delivered.
  std::function<bool()> keep_going;
};

// Returns false if keep_going ended the run. Throws Error(Exit::Failed) with chunk, token and layer
// at NaN or infinity.
bool run_perplexity(const PplRun& run);

}  // namespace skald
