// A session's tokens and cache in a file, with a note of the owner's: for --prompt-cache and saved
// conversations. A key says which model, settings and machine the cache was computed with; a
// checksum lies over the head and over every page. The file is written whole or not at all.
//
//   "skaldkv1"  then little-endian: u64 bytes of the head, the head, u64 its checksum, the pages
//   head        key [32], u64 page bytes, u64 tokens, u64 note bytes, i32 tokens [tokens],
//               u64 checksum of each page [pages_for(tokens)], note
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

// Names what a cache depends on: equal keys, equal meaning of the pages. `model` is model_hash().
Sha256::Digest cache_key(std::string_view model, const Executor& executor);

struct CacheNote {
  Sha256::Digest key;
  std::string_view note;
};

// The first `length` tokens of the session, which are computed, and their cache. Throws
// Error(Exit::Failed).
void write_cache_file(const std::filesystem::path& path, const Session& session, int64_t length,
                      const Executor& executor, const CacheNote& note);

class CacheFile {
 public:
  // Nothing: there is no such file, or it is empty, as mktemp makes them. What is no file of
  // this kind is Error(Exit::Failed): it must not be taken for an old one and be replaced.
  static std::optional<CacheFile> open(const std::filesystem::path& path);

  // Why the head cannot be used, in words after the file's name; then there is nothing in it.
  // Empty: it can.
  const std::string& problem() const { return problem_; }

  const Sha256::Digest& key() const { return key_; }
  const std::vector<int32_t>& tokens() const { return tokens_; }
  const std::string& note() const { return note_; }

  // Puts the first `length` tokens and their pages into an empty session. The key must be the
  // session's. False, and the session stays empty, where a page is damaged.
  bool restore(Session& session, int64_t length, const Executor& executor);

 private:
  CacheFile() = default;
  std::string read(const std::filesystem::path& path, uint64_t size);  // what is problem()
  bool parse_head(std::string_view head);

  std::ifstream in_;
  std::string problem_;
  Sha256::Digest key_ = {};
  uint64_t page_bytes_ = 0, pages_at_ = 0;
  std::vector<int32_t> tokens_;
  std::vector<uint64_t> page_sums_;
  std::string note_;
};

}  // namespace skald
