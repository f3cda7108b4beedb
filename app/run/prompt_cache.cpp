#include "app/run/prompt_cache.h"

#include <algorithm>
#include <cstdio>

#include "app/files/atomic_file.h"
#include "app/files/signals.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/fingerprint.h"

namespace skald {

PromptCache::PromptCache(const PromptCacheFlags& flags, const OpenedModel& opened,
                         const Executor& executor)
    : flags_(flags),
      claim_(flags.read_only ? nullptr : claim_file(flags.path)),
      executor_(executor),
      key_(cache_key(model_hash(opened), executor)),
      file_(CacheFile::open(flags.path)) {
  if (!flags_.read_only) check_writable(flags_.path);
  if (!file_) {
    if (flags_.read_only) warn("is missing or empty");
    return;
  }
  if (!file_->note().empty() && !flags_.read_only) {
    fail(Exit::Failed, printable(flags_.path),
         ": the file is a saved conversation of skald chat, which would be overwritten; name "
         "another file, or add --prompt-cache-ro to only read it");
  }
  if (!file_->problem().empty()) {
    warn(file_->problem());
  } else if (file_->key() != key_) {
    warn("was made with another model, other settings or another kind of machine");
  } else {
    return;
  }
  file_.reset();
}

void PromptCache::warn(std::string_view problem) const {
  std::fprintf(stderr, "skald: --prompt-cache: %s %.*s; computing the whole prompt\n",
               printable(flags_.path).c_str(), static_cast<int>(problem.size()), problem.data());
}

int64_t PromptCache::feed(Session& session, std::span<const int32_t> prompt) {
  prompt_tokens_ = std::ssize(prompt);
  int64_t used = 0;
  if (file_) {
    const auto& tokens = file_->tokens();
    file_tokens_ = std::mismatch(prompt.begin(), prompt.end(), tokens.begin(), tokens.end()).first -
                   prompt.begin();
    used = file_->restorable(std::min(file_tokens_, prompt_tokens_ - 1));
    if (!file_->restore(session, used, executor_)) {
      warn("is damaged");
      file_tokens_ = used = 0;
    }
  }
  session.feed(prompt.subspan(static_cast<size_t>(used)));
  return used;
}

void PromptCache::save(const Session& session) const {
  // A recurrent state after the whole prompt would be of no use to the same prompt, whose last
  // token must be computed for its logits.
  const int64_t most = executor_.state_bytes() > 0 ? prompt_tokens_ - 1 : prompt_tokens_;
  const int64_t computed = session.savable(std::min(most, session.computed()));
  if (flags_.read_only || computed <= file_tokens_) return;
  take_time_to_end();
  try {
    write_cache_file(flags_.path, session, computed, executor_, {key_, ""});
  } catch (const Error& error) {
    std::fprintf(stderr, "skald: the prompt cache was not saved: %s\n",
                 printable(error.what(), 1000).c_str());
  }
}

}  // namespace skald
