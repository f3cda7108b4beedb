// A session's tokens and KV cache in a file, with a note of the caller: for --prompt-cache and
// saved conversations. A key names the model, settings and machine that computed the cache. The
// head and every page have a checksum. The file is written whole or not at all.
//
//   "skaldkv1"  then little-endian: u64 bytes of the head, the head, u64 its checksum, the pages
//   head        key [32], u64 page bytes, u64 tokens, u64 note bytes, i32 tokens [tokens],
//               u64 checksum of each page [pages_for(tokens)], note
//   "skaldkv2"  for models with a recurrent state: the state after the last token follows the
//   pages.
//               In the head, u64 state bytes follow the page bytes, and the state's checksum
//               follows those of the pages.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/sha256.h"
#include "engine/schedule/session.h"

namespace skald {

// A hash of everything that a cache depends on: with equal keys, pages mean the same. `model` is
// model_hash().
Sha256::Digest cache_key(std::string_view model, const Executor& executor);

struct CacheNote {
  Sha256::Digest key;
  std::string_view note;
};

// Writes the first `length` tokens of the session, which must be computed, and their cache; fewer
// where a recurrent state allows fewer (Session::savable()). Throws Error(Exit::Failed).
void write_cache_file(const std::filesystem::path& path, const Session& session, int64_t length,
                      const Executor& executor, const CacheNote& note);

class CacheFile {
 public:
  // Returns nothing if the file is missing, or empty as mktemp makes it. Throws Error(Exit::Failed)
  // for a file of another kind, which must not be replaced.
  static std::optional<CacheFile> open(const std::filesystem::path& path);

  // "" if the file can be used. Otherwise why not, in words that follow the file's name; tokens and
  // note are then empty.
  const std::string& problem() const { return problem_; }

  const Sha256::Digest& key() const { return key_; }
  const std::vector<int32_t>& tokens() const { return tokens_; }
  const std::string& note() const { return note_; }

  // The number of tokens, at most `length`, that restore() can restore. A recurrent state belongs
  // to all tokens of the file, so for models with such a state the number is all or none.
  int64_t restorable(int64_t length) const;

  // Puts the first `length` tokens and their pages into an empty session. The key must be that of
  // the session's model, and `length` restorable. False where a page is damaged; the session then
  // stays empty.
  bool restore(Session& session, int64_t length, const Executor& executor);

 private:
  CacheFile() = default;
  std::string read(const std::filesystem::path& path, uint64_t size);  // returns the problem
  bool parse_head(std::string_view head, bool has_state);

  std::ifstream in_;
  std::string problem_;
  Sha256::Digest key_ = {};
  uint64_t page_bytes_ = 0, state_bytes_ = 0, pages_at_ = 0;
  std::vector<int32_t> tokens_;
  std::vector<uint64_t> sums_;  // checksums of the pages, then of the state
  std::string note_;
};

}  // namespace skald
