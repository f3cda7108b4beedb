// Files of perplexity records (record.h). Reads them for --checkpoint and --merge.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/files/jsonl_output.h"
#include "app/perplexity/total.h"

namespace skald {

// Reads a file of records: calls on_heading, then on_chunk for each chunk. Throws
// Error(Exit::Failed) with file and line if a line is no record. With `torn_end`, ignores a last
// line without newline, which a killed run leaves. Returns the byte where the whole lines end.
int64_t read_ppl_log(const std::string& path, bool torn_end,
                     const std::function<void(const PplHeading&)>& on_heading,
                     const std::function<void(const PplChunk&)>& on_chunk);

// Merges the records of several runs over parts of one text. The files may come in any order. Every
// chunk between the first and the last must be in exactly one file.
PplTotal merge_ppl_logs(const std::vector<std::string>& paths);

// The file of --checkpoint, from which a stopped run continues.
class PplCheckpoint {
 public:
  // Adds the chunks that an earlier run with the same settings wrote to `total`, and calls on_chunk
  // for each. Throws unless they are the first chunks of `range`.
  PplCheckpoint(const std::string& path, PplTotal& total, ChunkRange range,
                const std::function<void(const PplChunk&)>& on_chunk);
  void add(const PplChunk& chunk);

 private:
  JsonlOutput output_;
};

}  // namespace skald
