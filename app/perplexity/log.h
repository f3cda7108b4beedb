// Files of perplexity records: read for --checkpoint and --merge.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/files/jsonl_output.h"
#include "app/perplexity/total.h"

namespace skald {

// Calls on_heading, then on_chunk for each chunk. Throws Error(Exit::Failed), naming file and line,
// for what is no such file. torn_end: a last line without its end, which a kill leaves, is passed
// over. Returns where the whole lines end.
int64_t read_ppl_log(const std::string& path, bool torn_end,
                     const std::function<void(const PplHeading&)>& on_heading,
                     const std::function<void(const PplChunk&)>& on_chunk);

// The result of several runs over parts of one text, whichever way they are named. Every chunk
// between the first and the last must be there once.
PplTotal merge_ppl_logs(const std::vector<std::string>& paths);

// A file that a stopped run goes on from.
class PplCheckpoint {
 public:
  // Adds what an earlier run of the same measurement has left there to `total` and calls on_chunk
  // for each. They must be chunks of `range` from its first on.
  PplCheckpoint(const std::string& path, PplTotal& total, ChunkRange range,
                const std::function<void(const PplChunk&)>& on_chunk);
  void add(const PplChunk& chunk);

 private:
  JsonlOutput output_;
};

}  // namespace skald
