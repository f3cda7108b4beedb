// Chunks of a perplexity run that are computed together, in as few steps as they fit into.
#pragma once

#include "app/perplexity/run.h"
#include "engine/perplexity/windows.h"

namespace skald {

class PplGroup {
 public:
  // Borrows both. base_row: of the run's base file, which goes on from group to group.
  PplGroup(const PplRun& run, const PplDevice& device, int64_t& base_row)
      : run_(run), device_(device), base_row_(base_row) {}

  // Takes a chunk if it fits beside those that are there; the first one always does. Looks at the
  // executor's size and never runs it, so that another group may be computed meanwhile.
  bool take(int64_t index);

  // False when it was stopped: its chunks are then incomplete.
  bool compute();

  int64_t first() const { return chunks_.front().chunk; }
  int64_t last() const { return chunks_.back().chunk + 1; }
  // After compute(): calls on_chunk for each chunk, and before that on_token for each token, unless
  // compute() did.
  void deliver() const;

 private:
  struct Owner {
    size_t chunk;  // index into chunks_
    int64_t first;
  };

  // What made a number NaN or infinite is looked for once the run's sequences are gone.
  struct Failure {
    PplToken token;
    TokenWindow window;
    int64_t position;
    bool base;  // it is the base's
  };

  bool add(std::span<const WindowRow> rows, size_t first_window);
  void add(PplToken token, PplChunk& chunk);
  [[noreturn]] void fail_not_finite() const;

  const PplRun& run_;
  PplDevice device_;
  int64_t& base_row_;
  std::vector<PplChunk> chunks_;
  std::vector<ChunkTokens> tokens_;
  std::vector<TokenWindow> windows_;
  std::vector<Owner> owners_;
  std::vector<PplToken> waiting_;  // for their turn, where several devices compute
  std::optional<Failure> failure_;
};

}  // namespace skald
