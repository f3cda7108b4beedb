// --prompt-cache FILE: keeps the KV cache of a prompt for the next run whose prompt begins with
// the same tokens. A file that is damaged, or that was made with another model, other settings or
// another kind of machine, causes a warning on stderr and is replaced. Any other kind of file is an
// error, and so is writing to a saved conversation.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "app/files/claim.h"
#include "app/generate/cache_file.h"
#include "models/open.h"

namespace skald {

struct PromptCacheFlags {
  std::string path;        // empty: no cache file
  bool read_only = false;  // --prompt-cache-ro
};

class PromptCache {
 public:
  // Throws Error(Exit::Failed) if the file is no prompt cache or cannot be written, and where
  // another process may write to it.
  PromptCache(const PromptCacheFlags& flags, const OpenedModel& opened, const Executor& executor);

  // Feeds the prompt to an empty session. Returns how many of its tokens came from the file; the
  // last token is always computed.
  int64_t feed(Session& session, std::span<const int32_t> prompt);

  // Writes the computed part of the prompt if it is longer than what the file holds. A failed write
  // is only a warning on stderr, so that the generated text is not lost.
  void save(const Session& session) const;

 private:
  void warn(std::string_view problem) const;

  PromptCacheFlags flags_;
  std::shared_ptr<FileClaim> claim_;
  const Executor& executor_;
  Sha256::Digest key_;
  std::optional<CacheFile> file_;
  int64_t prompt_tokens_ = 0;  // number of tokens in the prompt
  int64_t file_tokens_ = 0;    // how many of its first tokens the file holds
};

}  // namespace skald
