// A group of chunks that are computed together, in as few steps as possible.
#pragma once

#include "app/perplexity/run.h"
#include "engine/perplexity/windows.h"

namespace skald {

class PplGroup {
 public:
  // All arguments must outlive the group. `base_row` is the next row of the run's base file; all
  // groups share it.
  PplGroup(const PplRun& run, const PplDevice& device, int64_t& base_row)
      : run_(run), device_(device), base_row_(base_row) {}

  // Adds a chunk if all chunks still fit in one step; the first chunk is always added. Does not run
  // the executor, so that another group may be computed at the same time.
  bool take(int64_t index);

  // Returns false if it was stopped; the chunks are then incomplete.
  bool compute();

  int64_t first() const { return chunks_.front().chunk; }
  int64_t last() const { return chunks_.back().chunk + 1; }
  // After compute(): calls on_token for each token, unless compute() did, then on_chunk for each
  // chunk.
  void deliver() const;

 private:
  struct Owner {
    size_t chunk;  // index into chunks_
    int64_t first;
  };

  // The first NaN or infinity. Its op is searched later, when the step's sequences are released.
  struct Failure {
    PplToken token;
    TokenWindow window;
    int64_t position;
    bool base;  // the base's number, not the model's
  };

  bool add(std::span<const WindowRow> rows, size_t first_window);
  void add(const PplToken& token, PplChunk& chunk);
  [[noreturn]] void fail_not_finite() const;

  const PplRun& run_;
  PplDevice device_;
  int64_t& base_row_;
  std::vector<PplChunk> chunks_;
  std::vector<ChunkTokens> tokens_;
  std::vector<TokenWindow> windows_;
  std::vector<Owner> owners_;
  std::vector<PplToken> pending_;  // for deliver(), if several devices compute
  std::optional<Failure> failure_;
};

}  // namespace skald
