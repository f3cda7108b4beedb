// Files of perplexity records (record.h). Reads them for --checkpoint and --merge.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/files/jsonl_reader.h"
#include "app/files/output_file.h"
#include "app/perplexity/total.h"

namespace skald {

// Reads the records of a file: the heading, then the chunks. Throws Error(Exit::Failed), which
// names file and line, where the file holds anything else. A torn last line does not count.
class PplLogReader {
 public:
  PplLogReader(std::string path, std::function<void(const PplHeading&)> on_heading,
               std::function<void(const PplChunk&)> on_chunk);

  void read();
  void resume(OutputFile& output);  // which is the same file: cuts a torn last line

 private:
  void take(const JsonlLine& line);

  const std::string path_;
  const std::function<void(const PplHeading&)> on_heading_;
  const std::function<void(const PplChunk&)> on_chunk_;
  bool headed_ = false;
};

// Merges the records of several runs over parts of one text. The files may come in any order. Every
// chunk between the first and the last must be in exactly one file.
PplTotal merge_ppl_logs(const std::vector<std::string>& paths);

// The file of --checkpoint, from which a stopped run continues.
class PplCheckpoint {
 public:
  // Adds the chunks that an earlier run with the same settings wrote to `total`, and calls on_chunk
  // for each. Throws unless they are the first chunks of `range`.
  PplCheckpoint(const std::string& path, std::shared_ptr<FileClaim> claim, PplTotal& total,
                ChunkRange range, const std::function<void(const PplChunk&)>& on_chunk);
  void add(const PplChunk& chunk);

 private:
  OutputFile output_;
};

}  // namespace skald
