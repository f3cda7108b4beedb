// What the environment says about the hub: the same variables that Hugging Face's own tools read.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

namespace skald {

struct HubSettings {
  std::string endpoint = "https://huggingface.co";  // HF_ENDPOINT; no '/' at the end
  std::string token;            // HF_TOKEN, else the token file; empty: none. Never printed.
  std::filesystem::path cache;  // HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache/huggingface/hub
  bool offline = false;         // HF_HUB_OFFLINE: no connection may be opened
  std::string certificates;     // a file of CA certificates; empty: libcurl's own

  // How a transfer behaves. Tests make these small.
  int connections = 8;
  int64_t part_bytes = 8 << 20;                      // asked for in one request
  int attempts = 6;                                  // in a row without a byte, then it fails
  std::chrono::milliseconds first_pause{1000};       // doubles with each attempt
  std::chrono::milliseconds longest_pause{300'000};  // a longer Retry-After is an error
  std::chrono::milliseconds connect_timeout{15'000};
  int stall_seconds = 30;  // without a byte: the connection counts as cut
};

HubSettings hub_settings();

// The cache alone: reads no token.
std::filesystem::path hub_cache_folder();
std::filesystem::path user_cache_folder();  // XDG_CACHE_HOME, else ~/.cache; empty: no home

// Throws Error(Exit::Failed) for an endpoint that is no http:// or https:// address.
std::string checked_endpoint(std::string text);

}  // namespace skald
