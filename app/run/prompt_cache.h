// --prompt-cache FILE: the cache of a prompt, kept for the next run that begins with the same
// tokens. What another model, other settings or another kind of machine computed, and what is
// damaged, is told on stderr, not used, and replaced; a file that is no such cache is an error, and
// so is writing to a saved conversation.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "app/generate/cache_file.h"
#include "models/open.h"

namespace skald {

struct PromptCacheFlags {
  std::string path;        // empty: none
  bool read_only = false;  // never written
};

class PromptCache {
 public:
  // Throws Error(Exit::Failed) where the file is a foreign one or could not be written.
  PromptCache(const PromptCacheFlags& flags, const OpenedModel& opened, const Executor& executor);

  // Feeds the prompt to an empty session; of its tokens, how many the file brought. The last one is
  // always computed.
  int64_t feed(Session& session, std::span<const int32_t> prompt);

  // Keeps what is computed of the prompt, where that is more than the file has. A disk that is full
  // is told on stderr: the text is worth more than its cache.
  void save(const Session& session) const;

 private:
  void tell(std::string_view problem) const;

  PromptCacheFlags flags_;
  const Executor& executor_;
  Sha256::Digest key_;
  std::optional<CacheFile> file_;
  int64_t prompt_ = 0;  // its tokens
  int64_t known_ = 0;   // of them, those in the file
};

}  // namespace skald
