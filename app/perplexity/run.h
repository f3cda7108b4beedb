// Runs chunks of a text through a model, several in a step, and gives each chunk's result, in
// order; while a device computes, the next chunks are made ready. Several devices share the chunks.
// Beside the model a base: another executor or a file of what one said.
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
  int64_t place = 0;  // in the text
  int32_t id = 0;
  TokenScore score;
  std::optional<StoredComparison> comparison;
};

struct PplDevice {
  Executor* executor = nullptr;
  Executor* base = nullptr;  // none, or one on each device
};

struct PplRun {
  std::vector<PplDevice> devices;
  const ChunkSource* chunks = nullptr;  // asked by one thread at a time
  int64_t first = 0, last = 0;          // of the chunks: [first, last)

  // Of one device, and without another base.
  BaseReader* base_file = nullptr;
  int64_t base_row = 0;  // in the file, of the first chunk's first token

  BaseWriter* save = nullptr;  // of one device

  // One call at a time, in the order of the text; of several devices from any of their threads.
  std::function<void(const PplToken&)> on_token;  // none: not asked for
  std::function<void(const PplChunk&)> on_chunk;
  // Asked after each step, by each device's thread; false ends the run after a whole chunk.
  std::function<bool()> go_on;
};

// False when go_on ended it. NaN and infinity are an Error that names chunk, token and layer.
bool run_perplexity(const PplRun& run);

}  // namespace skald
