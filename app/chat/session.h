// A dialogue that goes on another day: its messages, and the cache that was computed for them, in
// one file (app/generate/cache_file.h). The messages always come back; the cache does where model,
// settings and machine are the ones that it was computed with.
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
    int64_t cached = 0;   // tokens
    std::string missing;  // why the cache is not used; empty: it is
  };
  Resumed resume(Dialogue& dialogue);  // throws Error(Exit::Failed) where it holds something else

  // The messages alone are small: after every turn. A large cache takes seconds: once, at the end.
  void save_messages(const Dialogue& dialogue);
  void save(Dialogue& dialogue);

 private:
  void write(const Dialogue& dialogue, int64_t cached);

  std::filesystem::path path_;
  Executor& executor_;
  Sha256::Digest key_;
};

}  // namespace skald
