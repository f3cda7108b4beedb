// What tests of pulls share: a hub with a small repository, and a cache in a temporary folder.
#pragma once

#include <stdlib.h>

#include <optional>
#include <string>

#include "app/hub/cache.h"
#include "app/hub/pull.h"
#include "tests/app/hub/hub_server.h"
#include "tests/error_text.h"
#include "tests/temp_folder.h"

namespace skald::test {

inline constexpr const char* kRepository = "acme/tiny-GGUF";

// Bytes without a period, so that a part in a wrong place changes the hash.
inline std::string noise(size_t size) {
  std::string text = "GGUF";
  uint32_t state = 1;
  while (text.size() < size) {
    state = state * 1664525 + 1013904223;
    text += static_cast<char>(state >> 24);
  }
  return text;
}

struct Hub {
  HubServer server;
  TempFolder folder;
  HubSettings settings;
  CachedRepository cached;
  const std::string content = noise(20'000);

  Hub() : cached(folder.path(), kRepository) {
    ::setenv("no_proxy", "127.0.0.1,localhost", 1);  // whatever the tests' user has set
    settings.endpoint = server.endpoint();
    settings.cache = folder.path();
    settings.first_pause = std::chrono::milliseconds(1);
    settings.part_bytes = 1000;
    settings.attempts = 3;
    server.add(kRepository, "tiny-Q4_K_M.gguf", content);
    server.add(kRepository, "tiny-Q8_0.gguf", noise(3000));
    server.add(kRepository, "README.md", "text", false);
  }

  PulledModel pull(const std::string& name = kRepository) const {
    PullOptions options;
    options.quiet = true;
    return skald::pull(settings, remote_reference(name), options);
  }
  std::string pull_error(Exit code, const std::string& name = kRepository) const {
    return error_text([&] { pull(name); }, code);
  }
  std::string etag() const { return sha256_hex(content); }

  // The first `count` requests for the file's bytes are answered by `reply`.
  void answer_first(int count, const HubServer::Reply& reply) {
    server.set_hook(
        [count,
         reply](const HubServer::Request& request) mutable -> std::optional<HubServer::Reply> {
          if (request.path.starts_with("/api/") || count-- <= 0) return {};
          return reply;
        });
  }
};

}  // namespace skald::test
