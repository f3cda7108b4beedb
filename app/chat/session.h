// A dialogue that is saved in a file (app/generate/cache_file.h): its messages, and their KV cache.
// The messages are always restored. The cache is used again where model, settings and machine are
// those that computed it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "app/chat/dialogue.h"
#include "engine/base/sha256.h"

namespace skald {

class ChatSession {
 public:
  // `model` is model_hash().
  ChatSession(std::filesystem::path path, std::string_view model, Executor& executor);

  struct Resumed {
    int64_t cached = 0;   // tokens that the cache holds
    std::string missing;  // why the cache is not used, or ""
  };
  Resumed resume(Dialogue& dialogue);  // throws Error(Exit::Failed) for a file of another kind

  // Messages are small: save them after every turn. A large cache takes seconds: save it once, at
  // the end.
  void save_messages(const Dialogue& dialogue);
  void save(Dialogue& dialogue);

 private:
  void write(const Dialogue& dialogue, int64_t cached);

  std::filesystem::path path_;
  Executor& executor_;
  Sha256::Digest key_;
};

}  // namespace skald
